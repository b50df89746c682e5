import io.lettuce.core.Consumer;
import io.lettuce.core.KillArgs;
import io.lettuce.core.Limit;
import io.lettuce.core.Range;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.ScanArgs;
import io.lettuce.core.ScanIterator;
import io.lettuce.core.StreamMessage;
import io.lettuce.core.XAutoClaimArgs;
import io.lettuce.core.XGroupCreateArgs;
import io.lettuce.core.XReadArgs;
import io.lettuce.core.XReadArgs.StreamOffset;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.codec.ByteArrayCodec;
import java.time.Duration;
import java.util.List;
import java.util.Map;

/** Lettuce, with keys and values of bytes, on one connection. */
final class LettuceClient implements Client {
    static final byte[] KEY = JedisClient.key("clients:lettuce:");
    static final byte[] WORKERS = GROUP.getBytes();

    final StatefulRedisConnection<byte[], byte[]> connection;
    final RedisCommands<byte[], byte[]> commands;

    LettuceClient(int port) {
        connection = RedisClient.create("redis://127.0.0.1:" + port)
            .connect(ByteArrayCodec.INSTANCE);
        commands = connection.sync();
    }

    static List<Entry> entries(List<StreamMessage<byte[], byte[]>> messages) {
        return messages.stream().map(one -> {
            var field = one.getBody().entrySet().iterator().next();
            return new Entry(one.getId(), new String(field.getKey()), field.getValue());
        }).toList();
    }

    static Map<byte[], byte[]> fields(String field, byte[] value) {
        return Map.of(field.getBytes(), value);
    }

    static <T> T get(RedisFuture<T> reply) {
        return reply.toCompletableFuture().join();
    }

    public String createGroup() {
        return commands.xgroupCreate(
            StreamOffset.from(KEY, "0"), WORKERS, XGroupCreateArgs.Builder.mkstream());
    }

    public List<Entry> readGroup(String group, int count, int blockMs) {
        var arguments = XReadArgs.Builder.count(count);
        if (blockMs > 0) {
            arguments.block(Duration.ofMillis(blockMs));
        }
        var ann = Consumer.from(group.getBytes(), "ann".getBytes());
        return entries(commands.xreadgroup(ann, arguments, StreamOffset.lastConsumed(KEY)));
    }

    public List<Entry> readNew(int blockMs) {
        var arguments = XReadArgs.Builder.block(Duration.ofMillis(blockMs));
        return entries(commands.xread(arguments, StreamOffset.latest(KEY)));
    }

    public String add(String field, byte[] value) {
        return commands.xadd(KEY, fields(field, value));
    }

    public Added addAndWait(String field, byte[] value, int peers) {
        String id = add(field, value);
        return new Added(id, commands.waitForReplication(peers, PATIENCE_MS));
    }

    public List<String> pipeline(List<String> values) {
        var replies = values.stream()
            .map(value -> connection.async().xadd(KEY, fields("n", value.getBytes())))
            .toList();
        return replies.stream().map(LettuceClient::get).toList();
    }

    public Added transaction(String value) {
        commands.multi();
        commands.xadd(KEY, fields("n", value.getBytes()));
        commands.xlen(KEY);
        var results = commands.exec();
        return new Added(results.get(0), results.get(1));
    }

    public long acknowledge(List<String> ids) {
        return commands.xack(KEY, WORKERS, ids.toArray(String[]::new));
    }

    public long pending() {
        return commands.xpending(KEY, WORKERS).getCount();
    }

    public Map<String, Long> pendingOfConsumers() {
        return commands.xpending(KEY, WORKERS).getConsumerMessageCount();
    }

    public List<String> deliveries() {
        return commands.xpending(KEY, WORKERS, Range.unbounded(), Limit.from(10)).stream()
            .map(one -> one.getConsumer() + " " + one.getRedeliveryCount())
            .toList();
    }

    public Claimed autoClaim(String consumer, String start, int count) {
        var claimer = Consumer.from(WORKERS, consumer.getBytes());
        var reply = commands.xautoclaim(
            KEY, XAutoClaimArgs.Builder.xautoclaim(claimer, 0, start).count(count));
        return new Claimed(reply.getId(), entries(reply.getMessages()));
    }

    public List<Entry> range() {
        return entries(commands.xrange(KEY, Range.unbounded()));
    }

    public List<Entry> newest() {
        return entries(commands.xrevrange(KEY, Range.unbounded(), Limit.from(1)));
    }

    public long length() {
        return commands.xlen(KEY);
    }

    public List<String> scan(String match, int count) {
        var arguments = ScanArgs.Builder.limit(count).match(match);
        return ScanIterator.scan(commands, arguments).stream().map(String::new).toList();
    }

    public long clientId() {
        return commands.clientId();
    }

    public long kill(long id) {
        return commands.clientKill(KillArgs.Builder.id(id));
    }
}
