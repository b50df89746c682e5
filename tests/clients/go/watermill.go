package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-redisstream/pkg/redisstream"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/redis/go-redis/v9"
)

const topic = "clients:watermill"

// subscriber has a client of its own, which it closes when it is closed.
func subscriber(address, group, consumer string) *redisstream.Subscriber {
	return must(redisstream.NewSubscriber(redisstream.SubscriberConfig{
		Client:        redis.NewClient(&redis.Options{Addr: address}),
		ConsumerGroup: group, Consumer: consumer,
		ClaimInterval: 300 * time.Millisecond, MaxIdleTime: 4 * time.Second,
		FanOutOldestId: "0",
	}, watermill.NopLogger{}))
}

// next waits for a message, and ends the program if none comes.
func next(messages <-chan *message.Message) *message.Message {
	select {
	case one := <-messages:
		return one
	case <-time.After(20 * time.Second):
		panic("no message came within 20 s")
	}
}

// watermillScenario publishes ten messages in one region. In the other, a consumer of a group
// refuses one, handles five and leaves; another claims the rest. A subscriber without a group gets
// all.
func watermillScenario(writer, reader string) map[string]any {
	publishing := redis.NewClient(&redis.Options{Addr: writer})
	publisher := must(redisstream.NewPublisher(
		redisstream.PublisherConfig{Client: publishing}, watermill.NopLogger{}))
	ann := subscriber(reader, "workers", "ann")
	ofAnn := must(ann.Subscribe(background, topic))
	ofAll := must(subscriber(reader, "", "").Subscribe(background, topic))
	for n := range 10 {
		one := message.NewMessage(watermill.NewUUID(), []byte(fmt.Sprintf("\xff%d", n)))
		must(0, publisher.Publish(topic, one))
	}

	refused := next(ofAnn)
	refused.Nack()
	handled := []string{}
	take := func(messages <-chan *message.Message) {
		one := next(messages)
		one.Ack()
		handled = append(handled, fmt.Sprintf("%x", []byte(one.Payload)))
	}
	for range 5 {
		take(ofAnn)
	}
	next(ofAnn) // Ann has this message when she leaves.
	must(0, ann.Close())
	ofBob := must(subscriber(reader, "workers", "bob").Subscribe(background, topic))
	for range 5 {
		take(ofBob)
	}
	fanned := []string{}
	for range 10 {
		one := next(ofAll)
		one.Ack()
		fanned = append(fanned, fmt.Sprintf("%x", []byte(one.Payload)))
	}
	consuming, left := redis.NewClient(&redis.Options{Addr: reader}), int64(-1)
	for deadline := time.Now().Add(10 * time.Second); left != 0 && time.Now().Before(deadline); {
		time.Sleep(50 * time.Millisecond)
		left = must(consuming.XPending(background, topic, "workers").Result()).Count
	}
	slices.Sort(handled)
	slices.Sort(fanned)
	return map[string]any{"handled": handled, "fanned out": fanned, "left": left}
}
