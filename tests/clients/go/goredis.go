package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

var background = context.Background()

type goRedis struct{ *redis.Client }

func connectGoRedis(address string) (Client, string) {
	return goRedis{redis.NewClient(&redis.Options{Addr: address})}, "go-redis"
}

func goRedisEntries(messages []redis.XMessage) []Entry {
	entries := []Entry{}
	for _, one := range messages {
		for field, value := range one.Values {
			entries = append(entries, Entry{one.ID, field, value.(string)})
		}
	}
	return entries
}

// ofOneStream turns "no entry", an error in go-redis, into an empty list.
func ofOneStream(streams []redis.XStream, err error) ([]Entry, error) {
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return goRedisEntries(streams[0].Messages), nil
}

func (c goRedis) CreateGroup(key string) (string, error) {
	return c.XGroupCreateMkStream(background, key, group, "0").Result()
}

func (c goRedis) ReadGroup(key, group string, count int64, block time.Duration) ([]Entry, error) {
	return ofOneStream(c.XReadGroup(background, &redis.XReadGroupArgs{
		Group: group, Consumer: "ann", Streams: []string{key, ">"}, Count: count, Block: block,
	}).Result())
}

func (c goRedis) ReadNew(key string, block time.Duration) []Entry {
	arguments := &redis.XReadArgs{Streams: []string{key, "$"}, Block: block}
	return must(ofOneStream(c.XRead(background, arguments).Result()))
}

func (c goRedis) Add(key, field, value string) string {
	arguments := &redis.XAddArgs{Stream: key, Values: []any{field, value}}
	return must(c.XAdd(background, arguments).Result())
}

func (c goRedis) AddAndWait(key, field, value string, peers int) (string, int64) {
	connection := c.Conn()
	defer connection.Close()
	arguments := &redis.XAddArgs{Stream: key, Values: []any{field, value}}
	added := must(connection.XAdd(background, arguments).Result())
	return added, must(connection.Wait(background, peers, patience).Result())
}

func (c goRedis) Pipeline(key string, values []string) []string {
	commands := must(c.Pipelined(background, func(pipe redis.Pipeliner) error {
		for _, value := range values {
			pipe.XAdd(background, &redis.XAddArgs{Stream: key, Values: []any{"n", value}})
		}
		return nil
	}))
	ids := []string{}
	for _, one := range commands {
		ids = append(ids, one.(*redis.StringCmd).Val())
	}
	return ids
}

func (c goRedis) Transaction(key, value string) (string, int64) {
	var added *redis.StringCmd
	var length *redis.IntCmd
	must(c.TxPipelined(background, func(pipe redis.Pipeliner) error {
		added = pipe.XAdd(background, &redis.XAddArgs{Stream: key, Values: []any{"n", value}})
		length = pipe.XLen(background, key)
		return nil
	}))
	return added.Val(), length.Val()
}

func (c goRedis) Acknowledge(key string, ids []string) int64 {
	return must(c.XAck(background, key, group, ids...).Result())
}

func (c goRedis) Pending(key string) (int64, map[string]int64) {
	summary := must(c.XPending(background, key, group).Result())
	return summary.Count, summary.Consumers
}

func (c goRedis) Deliveries(key string) []string {
	texts := []string{}
	for _, one := range must(c.XPendingExt(background, &redis.XPendingExtArgs{
		Stream: key, Group: group, Start: "-", End: "+", Count: 10,
	}).Result()) {
		texts = append(texts, fmt.Sprintf("%s %d", one.Consumer, one.RetryCount))
	}
	return texts
}

func (c goRedis) AutoClaim(key, consumer, start string, count int64) (string, []Entry) {
	messages, cursor, err := c.XAutoClaim(background, &redis.XAutoClaimArgs{
		Stream: key, Group: group, Consumer: consumer, Start: start, Count: count,
	}).Result()
	return must(cursor, err), goRedisEntries(messages)
}

func (c goRedis) Range(key string) []Entry {
	return goRedisEntries(must(c.XRange(background, key, "-", "+").Result()))
}

func (c goRedis) Newest(key string) []Entry {
	return goRedisEntries(must(c.XRevRangeN(background, key, "+", "-", 1).Result()))
}

func (c goRedis) Length(key string) (int64, error) {
	return c.XLen(background, key).Result()
}

func (c goRedis) Scan(match string, count int64) []string {
	keys := []string{}
	found := c.Client.Scan(background, 0, match, count).Iterator()
	for found.Next(background) {
		keys = append(keys, found.Val())
	}
	return must(keys, found.Err())
}

func (c goRedis) ClientID() (int64, error) {
	return c.Client.ClientID(background).Result()
}

func (c goRedis) Kill(id int64) int64 {
	return must(c.ClientKillByFilter(background, "ID", strconv.FormatInt(id, 10)).Result())
}
