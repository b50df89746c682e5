import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import redis.clients.jedis.JedisPooled;
import redis.clients.jedis.Protocol.Command;
import redis.clients.jedis.Response;
import redis.clients.jedis.StreamEntryID;
import redis.clients.jedis.params.XAddParams;
import redis.clients.jedis.params.XAutoClaimParams;
import redis.clients.jedis.params.XPendingParams;
import redis.clients.jedis.params.XReadGroupParams;
import redis.clients.jedis.params.XReadParams;
import redis.clients.jedis.resps.StreamEntryBinary;

/** Jedis, with its methods for bytes. */
final class JedisClient implements Client {
    static final byte[] KEY = key("clients:jedis:");
    static final byte[] WORKERS = GROUP.getBytes();

    final JedisPooled jedis;

    JedisClient(int port) {
        jedis = new JedisPooled("127.0.0.1", port);
    }

    static byte[] key(String name) {
        byte[] key = java.util.Arrays.copyOf(name.getBytes(), name.length() + Scenario.RAW.length);
        System.arraycopy(Scenario.RAW, 0, key, name.length(), Scenario.RAW.length);
        return key;
    }

    static Map<byte[], byte[]> fields(String field, byte[] value) {
        return Map.of(field.getBytes(), value);
    }

    static String text(Object bytes) {
        return new String((byte[]) bytes);
    }

    /** Entries of replies that Jedis leaves as lists. */
    static List<Entry> entries(Object list) {
        var found = new ArrayList<Entry>();
        for (Object one : (List<?>) list) {
            var pair = (List<?>) one;
            var fields = (List<?>) pair.get(1);
            found.add(new Entry(text(pair.get(0)), text(fields.get(0)), (byte[]) fields.get(1)));
        }
        return found;
    }

    static List<Entry> ofOneStream(List<Map.Entry<byte[], List<StreamEntryBinary>>> reply) {
        var found = new ArrayList<Entry>();
        if (reply != null && !reply.isEmpty()) {
            for (var one : reply.get(0).getValue()) {
                var field = one.getFields().entrySet().iterator().next();
                String id = one.getID().toString();
                found.add(new Entry(id, text(field.getKey()), field.getValue()));
            }
        }
        return found;
    }

    public String createGroup() {
        return jedis.xgroupCreate(KEY, WORKERS, "0".getBytes(), true);
    }

    public List<Entry> readGroup(String group, int count, int blockMs) {
        var params = XReadGroupParams.xReadGroupParams().count(count);
        if (blockMs > 0) {
            params.block(blockMs);
        }
        return ofOneStream(jedis.xreadGroupBinary(group.getBytes(), "ann".getBytes(), params,
            Map.of(KEY, StreamEntryID.XREADGROUP_UNDELIVERED_ENTRY)));
    }

    public List<Entry> readNew(int blockMs) {
        var params = XReadParams.xReadParams().block(blockMs);
        return ofOneStream(
            jedis.xreadBinary(params, Map.of(KEY, StreamEntryID.XREAD_NEW_ENTRY)));
    }

    public String add(String field, byte[] value) {
        return text(jedis.xadd(KEY, XAddParams.xAddParams(), fields(field, value)));
    }

    public Added addAndWait(String field, byte[] value, int peers) {
        try (var pipeline = jedis.pipelined()) {
            var id = pipeline.xadd(KEY, XAddParams.xAddParams(), fields(field, value));
            var waited = pipeline.waitReplicas(peers, PATIENCE_MS);
            pipeline.sync();
            return new Added(text(id.get()), waited.get());
        }
    }

    public List<String> pipeline(List<String> values) {
        try (var pipeline = jedis.pipelined()) {
            var replies = new ArrayList<Response<byte[]>>();
            for (String value : values) {
                var fields = fields("n", value.getBytes());
                replies.add(pipeline.xadd(KEY, XAddParams.xAddParams(), fields));
            }
            pipeline.sync();
            return replies.stream().map(reply -> text(reply.get())).toList();
        }
    }

    public Added transaction(String value) {
        try (var transaction = jedis.multi()) {
            var fields = fields("n", value.getBytes());
            var id = transaction.xadd(KEY, XAddParams.xAddParams(), fields);
            var length = transaction.xlen(KEY);
            transaction.exec();
            return new Added(text(id.get()), length.get());
        }
    }

    public long acknowledge(List<String> ids) {
        return jedis.xack(KEY, WORKERS, ids.stream().map(String::getBytes).toArray(byte[][]::new));
    }

    List<?> summary() {
        return (List<?>) jedis.xpending(KEY, WORKERS);
    }

    public long pending() {
        return (Long) summary().get(0);
    }

    public Map<String, Long> pendingOfConsumers() {
        var counts = new LinkedHashMap<String, Long>();
        for (Object one : (List<?>) summary().get(3)) {
            var pair = (List<?>) one;
            counts.put(text(pair.get(0)), Long.valueOf(text(pair.get(1))));
        }
        return counts;
    }

    public List<String> deliveries() {
        var found = new ArrayList<String>();
        var params = XPendingParams.xPendingParams("-", "+", 10);
        for (Object one : jedis.xpending(KEY, WORKERS, params)) {
            var row = (List<?>) one;
            found.add(text(row.get(1)) + " " + row.get(3));
        }
        return found;
    }

    public Claimed autoClaim(String consumer, String start, int count) {
        var reply = jedis.xautoclaim(KEY, WORKERS, consumer.getBytes(), 0, start.getBytes(),
            XAutoClaimParams.xAutoClaimParams().count(count));
        return new Claimed(text(reply.get(0)), entries(reply.get(1)));
    }

    public List<Entry> range() {
        return entries(jedis.xrange(KEY, "-".getBytes(), "+".getBytes()));
    }

    public List<Entry> newest() {
        return entries(jedis.xrevrange(KEY, "+".getBytes(), "-".getBytes(), 1));
    }

    public long length() {
        return jedis.xlen(KEY);
    }

    public List<String> scan(String match, int count) {
        var keys = new ArrayList<String>();
        var pages = jedis.scanIteration(count, match);
        while (!pages.isIterationCompleted()) {
            keys.addAll(pages.nextBatch().getResult());
        }
        return keys;
    }

    public long clientId() {
        return (Long) jedis.sendCommand(Command.CLIENT, "ID");
    }

    public long kill(long id) {
        return (Long) jedis.sendCommand(Command.CLIENT, "KILL", "ID", Long.toString(id));
    }
}
