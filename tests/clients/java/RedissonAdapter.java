import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.BatchOptions;
import org.redisson.api.PendingResult;
import org.redisson.api.RBatch;
import org.redisson.api.RStream;
import org.redisson.api.RedissonClient;
import org.redisson.api.StreamMessageId;
import org.redisson.api.stream.StreamAddArgs;
import org.redisson.api.stream.StreamCreateGroupArgs;
import org.redisson.api.stream.StreamReadArgs;
import org.redisson.api.stream.StreamReadGroupArgs;
import org.redisson.client.codec.ByteArrayCodec;
import org.redisson.config.Config;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.args.ClientType;
import redis.clients.jedis.params.ClientKillParams;

/** Redisson, with fields and values of bytes. Its keys are text. */
final class RedissonAdapter implements Client {
    static final String KEY = "clients:redisson:\u00e9";

    final int port;
    final RedissonClient redisson;
    final RStream<byte[], byte[]> stream;

    RedissonAdapter(int port) {
        this.port = port;
        var config = new Config();
        config.useSingleServer().setAddress("redis://127.0.0.1:" + port);
        redisson = Redisson.create(config);
        stream = redisson.getStream(KEY, ByteArrayCodec.INSTANCE);
    }

    static StreamAddArgs<byte[], byte[]> fields(String field, byte[] value) {
        return StreamAddArgs.entry(field.getBytes(), value);
    }

    static List<Entry> entries(Map<StreamMessageId, Map<byte[], byte[]>> messages) {
        var found = new ArrayList<Entry>();
        messages.forEach((id, fields) -> fields.forEach((field, value) ->
            found.add(new Entry(id.toString(), new String(field), value))));
        return found;
    }

    static StreamMessageId id(String text) {
        var parts = Arrays.stream(text.split("-")).mapToLong(Long::parseLong).toArray();
        return new StreamMessageId(parts[0], parts[1]);
    }

    public String createGroup() {
        stream.createGroup(
            StreamCreateGroupArgs.name(GROUP).id(StreamMessageId.ALL).makeStream());
        return "OK";
    }

    public List<Entry> readGroup(String group, int count, int blockMs) {
        var arguments = StreamReadGroupArgs.neverDelivered().count(count);
        if (blockMs > 0) {
            arguments.timeout(Duration.ofMillis(blockMs));
        }
        return entries(stream.readGroup(group, "ann", arguments));
    }

    public List<Entry> readNew(int blockMs) {
        var arguments = StreamReadArgs.greaterThan(StreamMessageId.NEWEST);
        return entries(stream.read(arguments.timeout(Duration.ofMillis(blockMs))));
    }

    public String add(String field, byte[] value) {
        return stream.add(fields(field, value)).toString();
    }

    /** A batch of Redisson sends WAIT itself. */
    public Added addAndWait(String field, byte[] value, int peers) {
        RBatch batch = peers == 0
            ? redisson.createBatch()
            : redisson.createBatch(
                BatchOptions.defaults().sync(peers, Duration.ofMillis(PATIENCE_MS)));
        batch.<byte[], byte[]>getStream(KEY, ByteArrayCodec.INSTANCE)
            .addAsync(fields(field, value));
        var result = batch.execute();
        return new Added(result.getResponses().get(0).toString(), result.getSyncedSlaves());
    }

    public List<String> pipeline(List<String> values) {
        var batch = redisson.createBatch();
        for (String value : values) {
            batch.<byte[], byte[]>getStream(KEY, ByteArrayCodec.INSTANCE)
                .addAsync(fields("n", value.getBytes()));
        }
        return batch.execute().getResponses().stream().map(Object::toString).toList();
    }

    public Added transaction(String value) {
        var atomic = BatchOptions.defaults()
            .executionMode(BatchOptions.ExecutionMode.IN_MEMORY_ATOMIC);
        var batch = redisson.createBatch(atomic);
        var inBatch = batch.<byte[], byte[]>getStream(KEY, ByteArrayCodec.INSTANCE);
        inBatch.addAsync(fields("n", value.getBytes()));
        inBatch.sizeAsync();
        var results = batch.execute().getResponses();
        return new Added(results.get(0).toString(), (Long) results.get(1));
    }

    public long acknowledge(List<String> ids) {
        return stream.ack(
            GROUP, ids.stream().map(RedissonAdapter::id).toArray(StreamMessageId[]::new));
    }

    public long pending() {
        return stream.getPendingInfo(GROUP).getTotal();
    }

    public Map<String, Long> pendingOfConsumers() {
        PendingResult summary = stream.getPendingInfo(GROUP);
        return summary.getConsumerNames();
    }

    /** Redisson calls the number of deliveries `lastTimeDelivered`. */
    public List<String> deliveries() {
        return stream.listPending(GROUP, StreamMessageId.MIN, StreamMessageId.MAX, 10).stream()
            .map(one -> one.getConsumerName() + " " + one.getLastTimeDelivered())
            .toList();
    }

    public Claimed autoClaim(String consumer, String start, int count) {
        var reply = stream.autoClaim(
            GROUP, consumer, 0, TimeUnit.MILLISECONDS, id(start), count);
        return new Claimed(reply.getNextId().toString(), entries(reply.getMessages()));
    }

    public List<Entry> range() {
        return entries(stream.range(StreamMessageId.MIN, StreamMessageId.MAX));
    }

    public List<Entry> newest() {
        return entries(stream.rangeReversed(1, StreamMessageId.MAX, StreamMessageId.MIN));
    }

    public long length() {
        return stream.size();
    }

    public List<String> scan(String match, int count) {
        var keys = new ArrayList<String>();
        redisson.getKeys().getKeysByPattern(match, count).forEach(keys::add);
        return keys;
    }

    /** Redisson does not tell the numbers of its connections. */
    public long clientId() {
        return 0;
    }

    /** So all connections of the server are killed, with another client. */
    public long kill(long id) {
        try (var jedis = new Jedis("127.0.0.1", port)) {
            var all = ClientKillParams.clientKillParams().type(ClientType.NORMAL);
            return Math.min(1, jedis.clientKill(all.skipMe(ClientKillParams.SkipMe.YES)));
        }
    }
}
