package main

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	raw      = "\xff\xfe\x00\xc3\x28\r\n"
	group    = "workers"
	never    = time.Duration(-1)
	patience = 10 * time.Second
)

var big = strings.Repeat("0123456789", 10_000)

// Entry is an entry of one field.
type Entry struct{ ID, Field, Value string }

// Client has a method for each step of the scenario (see __init__.py of tests/clients). A method
// without an error ends the program if the library returns one.
type Client interface {
	CreateGroup(key string) (string, error)
	// ReadGroup reads new entries; it waits for them unless block is never.
	ReadGroup(key, group string, count int64, block time.Duration) ([]Entry, error)
	ReadNew(key string, block time.Duration) []Entry
	Add(key, field, value string) string
	// AddAndWait adds, and sends WAIT on the same connection.
	AddAndWait(key, field, value string, peers int) (id string, waited int64)
	Pipeline(key string, values []string) []string
	Transaction(key, value string) (id string, length int64)
	Acknowledge(key string, ids []string) int64
	Pending(key string) (count int64, consumers map[string]int64)
	Deliveries(key string) []string
	AutoClaim(key, consumer, start string, count int64) (cursor string, claimed []Entry)
	Range(key string) []Entry
	Newest(key string) []Entry
	Length(key string) (int64, error)
	Scan(match string, count int64) []string
	ClientID() (int64, error)
	Kill(id int64) int64
}

type run struct {
	writer, reader, other Client
	key                   string
	peers                 int
	added                 []string
	seen                  map[string]any
}

func scenarioOf(connect func(address string) (Client, string)) func(_, _ string) map[string]any {
	return func(writer, reader string) map[string]any {
		r := run{seen: map[string]any{}}
		var name string
		r.writer, name = connect(writer)
		r.reader, _ = connect(reader)
		r.other, _ = connect(reader)
		r.key = "clients:" + name + ":" + raw
		if writer != reader {
			r.peers = 1
		}
		r.begin()
		r.addAndRead()
		r.claim()
		r.look()
		r.reconnect()
		return r.seen
	}
}

func shown(entries []Entry) []string {
	texts := []string{}
	for _, one := range entries {
		value := fmt.Sprintf("%x", one.Value)
		if len(one.Value) > 100 {
			value = fmt.Sprintf("%x", sha256.Sum256([]byte(one.Value)))
		}
		texts = append(texts, one.Field+" "+value)
	}
	return texts
}

func kindOf(err error) string {
	if err == nil {
		return "no error"
	}
	return strings.Fields(err.Error())[0]
}

func (r *run) begin() {
	r.seen["created"] = must(r.writer.CreateGroup(r.key))
	_, err := r.writer.CreateGroup(r.key)
	r.seen["created again"] = kindOf(err)
	_, err = r.writer.ReadGroup(r.key, "nobody", 1, never)
	r.seen["no group"] = kindOf(err)
	first, waited := r.writer.AddAndWait(r.key, "big", big, r.peers)
	r.seen["waited"] = waited
	r.seen["first"] = shown(must(r.reader.ReadGroup(r.key, group, 1, never)))

	waiting := make(chan []Entry)
	go func() { waiting <- must(r.reader.ReadGroup(r.key, group, 1, 20*time.Second)) }()
	time.Sleep(300 * time.Millisecond)
	added := r.writer.Add(r.key, "raw", raw)
	r.added = append(r.added, first, added)
	got := <-waiting
	r.seen["woken"] = shown(got)
	r.seen["woken by"] = got[0].ID
	if got[0].ID == added {
		r.seen["woken by"] = "what was added"
	}
}

func (r *run) addAndRead() {
	r.added = append(r.added, r.writer.Pipeline(r.key, []string{"0", "1", "2", "3"})...)
	id, length := r.writer.Transaction(r.key, "4")
	last, _ := r.writer.AddAndWait(r.key, "n", "5", r.peers)
	r.added = append(r.added, id, last)
	r.seen["length in transaction"] = length

	got := must(r.reader.ReadGroup(r.key, group, 100, never))
	ids := []string{}
	for _, one := range got {
		ids = append(ids, one.ID)
	}
	r.seen["read"] = shown(got)
	r.seen["read in order"] = slices.Equal(ids, r.added[2:])
	r.seen["acknowledged"] = r.reader.Acknowledge(r.key, r.added[:3])
}

func (r *run) claim() {
	r.seen["pending"], r.seen["consumers"] = r.reader.Pending(r.key)
	r.seen["delivered"] = r.reader.Deliveries(r.key)
	cursor, calls := "0-0", [][]string{}
	for range 2 {
		var claimed []Entry
		cursor, claimed = r.reader.AutoClaim(r.key, "bob", cursor, 3)
		calls = append(calls, shown(claimed))
	}
	r.seen["claimed"] = calls
	r.seen["last cursor"] = cursor
	r.seen["delivered again"] = r.reader.Deliveries(r.key)
	r.reader.Acknowledge(r.key, r.added[3:])
	r.seen["left"], _ = r.reader.Pending(r.key)
}

func (r *run) look() {
	r.seen["range"] = shown(r.reader.Range(r.key))
	r.seen["newest"] = shown(r.reader.Newest(r.key))
	r.seen["length"] = must(r.reader.Length(r.key))

	begun := time.Now()
	ofGroup := must(r.reader.ReadGroup(r.key, group, 10, 200*time.Millisecond))
	ofStream := r.reader.ReadNew(r.key, 200*time.Millisecond)
	waited := time.Since(begun) > 380*time.Millisecond
	r.seen["timed out"] = waited && len(ofGroup) == 0 && len(ofStream) == 0

	keys := r.reader.Scan("scanned:*", 10)
	r.seen["scanned"] = len(keys)
	slices.Sort(keys)
	r.seen["distinct"] = len(slices.Compact(keys))
}

func (r *run) reconnect() {
	r.seen["killed"] = r.other.Kill(must(r.reader.ClientID()))
	for range 50 {
		// The first command uses the connection that was killed, also if there are several.
		_, err := r.reader.ClientID()
		if err == nil {
			r.seen["length after the kill"], err = r.reader.Length(r.key)
		}
		if err == nil {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}
