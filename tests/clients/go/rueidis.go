package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/redis/rueidis"
)

type rueidisClient struct{ rueidis.Client }

// connectRueidis disables the cache: regions have no CLIENT TRACKING.
func connectRueidis(address string) (Client, string) {
	option := rueidis.ClientOption{InitAddress: []string{address}, DisableCache: true}
	return rueidisClient{must(rueidis.NewClient(option))}, "rueidis"
}

func rueidisEntries(list []rueidis.XRangeEntry) []Entry {
	entries := []Entry{}
	for _, one := range list {
		for field, value := range one.FieldValues {
			entries = append(entries, Entry{one.ID, field, value})
		}
	}
	return entries
}

func (c rueidisClient) do(command rueidis.Completed) rueidis.RedisResult {
	return c.Do(background, command)
}

func (c rueidisClient) read(key string, command rueidis.Completed) ([]Entry, error) {
	streams, err := c.do(command).AsXRead()
	if rueidis.IsRedisNil(err) {
		return nil, nil
	}
	return rueidisEntries(streams[key]), err
}

func (c rueidisClient) CreateGroup(key string) (string, error) {
	return c.do(c.B().XgroupCreate().Key(key).Group(group).Id("0").Mkstream().Build()).ToString()
}

func (c rueidisClient) ReadGroup(
	key, group string, count int64, block time.Duration,
) ([]Entry, error) {
	words := c.B().Xreadgroup().Group(group, "ann").Count(count)
	if block == never {
		return c.read(key, words.Streams().Key(key).Id(">").Build())
	}
	return c.read(key, words.Block(block.Milliseconds()).Streams().Key(key).Id(">").Build())
}

func (c rueidisClient) ReadNew(key string, block time.Duration) []Entry {
	words := c.B().Xread().Block(block.Milliseconds()).Streams().Key(key).Id("$")
	return must(c.read(key, words.Build()))
}

func (c rueidisClient) add(key, field, value string) rueidis.Completed {
	return c.B().Xadd().Key(key).Id("*").FieldValue().FieldValue(field, value).Build()
}

func (c rueidisClient) Add(key, field, value string) string {
	return must(c.do(c.add(key, field, value)).ToString())
}

func (c rueidisClient) AddAndWait(key, field, value string, peers int) (string, int64) {
	dedicated, release := c.Dedicate()
	defer release()
	wait := c.B().Wait().Numreplicas(int64(peers)).Timeout(patience.Milliseconds()).Build()
	replies := dedicated.DoMulti(background, c.add(key, field, value), wait)
	return must(replies[0].ToString()), must(replies[1].AsInt64())
}

func (c rueidisClient) Pipeline(key string, values []string) []string {
	commands := rueidis.Commands{}
	for _, value := range values {
		commands = append(commands, c.add(key, "n", value))
	}
	ids := []string{}
	for _, reply := range c.DoMulti(background, commands...) {
		ids = append(ids, must(reply.ToString()))
	}
	return ids
}

func (c rueidisClient) Transaction(key, value string) (string, int64) {
	dedicated, release := c.Dedicate()
	defer release()
	replies := dedicated.DoMulti(background,
		c.B().Multi().Build(), c.add(key, "n", value), c.B().Xlen().Key(key).Build(),
		c.B().Exec().Build())
	results := must(replies[3].ToArray())
	return must(results[0].ToString()), must(results[1].AsInt64())
}

func (c rueidisClient) Acknowledge(key string, ids []string) int64 {
	return must(c.do(c.B().Xack().Key(key).Group(group).Id(ids...).Build()).AsInt64())
}

func (c rueidisClient) Pending(key string) (int64, map[string]int64) {
	summary := must(c.do(c.B().Xpending().Key(key).Group(group).Build()).ToArray())
	consumers := map[string]int64{}
	if !summary[3].IsNil() {
		for _, one := range must(summary[3].ToArray()) {
			pair := must(one.AsStrSlice())
			var count int64
			must(fmt.Sscan(pair[1], &count))
			consumers[pair[0]] = count
		}
	}
	return must(summary[0].AsInt64()), consumers
}

func (c rueidisClient) Deliveries(key string) []string {
	words := c.B().Xpending().Key(key).Group(group).Start("-").End("+").Count(10)
	texts := []string{}
	for _, one := range must(c.do(words.Build()).ToArray()) {
		row := must(one.ToArray())
		texts = append(texts, fmt.Sprint(must(row[1].ToString()), " ", must(row[3].AsInt64())))
	}
	return texts
}

func (c rueidisClient) AutoClaim(key, consumer, start string, count int64) (string, []Entry) {
	words := c.B().Xautoclaim().Key(key).Group(group).Consumer(consumer).MinIdleTime("0")
	reply := must(c.do(words.Start(start).Count(count).Build()).ToArray())
	return must(reply[0].ToString()), rueidisEntries(must(reply[1].AsXRange()))
}

func (c rueidisClient) Range(key string) []Entry {
	words := c.B().Xrange().Key(key).Start("-").End("+")
	return rueidisEntries(must(c.do(words.Build()).AsXRange()))
}

func (c rueidisClient) Newest(key string) []Entry {
	words := c.B().Xrevrange().Key(key).End("+").Start("-").Count(1)
	return rueidisEntries(must(c.do(words.Build()).AsXRange()))
}

func (c rueidisClient) Length(key string) (int64, error) {
	return c.do(c.B().Xlen().Key(key).Build()).AsInt64()
}

func (c rueidisClient) Scan(match string, count int64) []string {
	scanner := rueidis.NewScanner(func(cursor uint64) (rueidis.ScanEntry, error) {
		return c.do(c.B().Scan().Cursor(cursor).Match(match).Count(count).Build()).AsScanEntry()
	})
	return must(slices.Collect(scanner.Iter()), scanner.Err())
}

func (c rueidisClient) ClientID() (int64, error) {
	return c.do(c.B().ClientId().Build()).AsInt64()
}

func (c rueidisClient) Kill(id int64) int64 {
	return must(c.do(c.B().ClientKill().Id(id).Build()).AsInt64())
}
