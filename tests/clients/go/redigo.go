package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"
)

// redigo has a pool of connections, and no types of its own for streams.
type redigo struct{ pool *redis.Pool }

func connectRedigo(address string) (Client, string) {
	dial := func() (redis.Conn, error) { return redis.Dial("tcp", address) }
	return redigo{&redis.Pool{MaxIdle: 4, Dial: dial}}, "redigo"
}

func (c redigo) do(command string, words ...any) (any, error) {
	connection := c.pool.Get()
	defer connection.Close()
	return connection.Do(command, words...)
}

func redigoEntries(list []any) []Entry {
	entries := []Entry{}
	for _, one := range list {
		pair := must(redis.Values(one, nil))
		fields := must(redis.Strings(pair[1], nil))
		entries = append(entries, Entry{must(redis.String(pair[0], nil)), fields[0], fields[1]})
	}
	return entries
}

func (c redigo) read(command string, words ...any) ([]Entry, error) {
	streams, err := redis.Values(c.do(command, words...))
	if errors.Is(err, redis.ErrNil) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	stream := must(redis.Values(streams[0], nil))
	return redigoEntries(must(redis.Values(stream[1], nil))), nil
}

func (c redigo) CreateGroup(key string) (string, error) {
	return redis.String(c.do("XGROUP", "CREATE", key, group, "0", "MKSTREAM"))
}

func (c redigo) ReadGroup(key, group string, count int64, block time.Duration) ([]Entry, error) {
	words := redis.Args{"GROUP", group, "ann", "COUNT", count}
	if block != never {
		words = words.Add("BLOCK", block.Milliseconds())
	}
	return c.read("XREADGROUP", words.Add("STREAMS", key, ">")...)
}

func (c redigo) ReadNew(key string, block time.Duration) []Entry {
	return must(c.read("XREAD", "BLOCK", block.Milliseconds(), "STREAMS", key, "$"))
}

func (c redigo) Add(key, field, value string) string {
	return must(redis.String(c.do("XADD", key, "*", field, value)))
}

func (c redigo) AddAndWait(key, field, value string, peers int) (string, int64) {
	connection := c.pool.Get()
	defer connection.Close()
	added := must(redis.String(connection.Do("XADD", key, "*", field, value)))
	return added, must(redis.Int64(connection.Do("WAIT", peers, patience.Milliseconds())))
}

func (c redigo) Pipeline(key string, values []string) []string {
	connection := c.pool.Get()
	defer connection.Close()
	for _, value := range values {
		must(0, connection.Send("XADD", key, "*", "n", value))
	}
	must(0, connection.Flush())
	ids := []string{}
	for range values {
		ids = append(ids, must(redis.String(connection.Receive())))
	}
	return ids
}

func (c redigo) Transaction(key, value string) (string, int64) {
	connection := c.pool.Get()
	defer connection.Close()
	must(0, connection.Send("MULTI"))
	must(0, connection.Send("XADD", key, "*", "n", value))
	must(0, connection.Send("XLEN", key))
	var id string
	var length int64
	must(redis.Scan(must(redis.Values(connection.Do("EXEC"))), &id, &length))
	return id, length
}

func (c redigo) Acknowledge(key string, ids []string) int64 {
	return must(redis.Int64(c.do("XACK", redis.Args{key, group}.AddFlat(ids)...)))
}

func (c redigo) Pending(key string) (int64, map[string]int64) {
	summary := must(redis.Values(c.do("XPENDING", key, group)))
	consumers := map[string]int64{}
	if summary[3] != nil {
		for _, one := range must(redis.Values(summary[3], nil)) {
			pair := must(redis.Strings(one, nil))
			consumers[pair[0]] = must(redis.Int64([]byte(pair[1]), nil))
		}
	}
	return must(redis.Int64(summary[0], nil)), consumers
}

func (c redigo) Deliveries(key string) []string {
	texts := []string{}
	for _, one := range must(redis.Values(c.do("XPENDING", key, group, "-", "+", 10))) {
		row := must(redis.Values(one, nil))
		texts = append(texts, fmt.Sprintf("%s %d", row[1], row[3]))
	}
	return texts
}

func (c redigo) AutoClaim(key, consumer, start string, count int64) (string, []Entry) {
	words := []any{key, group, consumer, 0, start, "COUNT", count}
	reply := must(redis.Values(c.do("XAUTOCLAIM", words...)))
	return must(redis.String(reply[0], nil)), redigoEntries(must(redis.Values(reply[1], nil)))
}

func (c redigo) Range(key string) []Entry {
	return redigoEntries(must(redis.Values(c.do("XRANGE", key, "-", "+"))))
}

func (c redigo) Newest(key string) []Entry {
	return redigoEntries(must(redis.Values(c.do("XREVRANGE", key, "+", "-", "COUNT", 1))))
}

func (c redigo) Length(key string) (int64, error) {
	return redis.Int64(c.do("XLEN", key))
}

func (c redigo) Scan(match string, count int64) []string {
	keys := []string{}
	for cursor := int64(0); ; {
		var page []string
		reply := must(redis.Values(c.do("SCAN", cursor, "MATCH", match, "COUNT", count)))
		must(redis.Scan(reply, &cursor, &page))
		keys = append(keys, page...)
		if cursor == 0 {
			return keys
		}
	}
}

func (c redigo) ClientID() (int64, error) {
	return redis.Int64(c.do("CLIENT", "ID"))
}

func (c redigo) Kill(id int64) int64 {
	return must(redis.Int64(c.do("CLIENT", "KILL", "ID", id)))
}
