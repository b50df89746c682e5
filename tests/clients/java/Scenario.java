import com.google.gson.Gson;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.function.Function;

/** `java Scenario LIBRARY WRITER-PORT READER-PORT` prints, as one line of JSON, what it saw. */
final class Scenario {
    static final byte[] RAW = {(byte) 255, (byte) 254, 0, (byte) 195, 40, 13, 10};
    static final byte[] BIG = "0123456789".repeat(10_000).getBytes();

    final Client writer;
    final Client reader;
    final Client other;
    final int peers;
    final List<String> added = new ArrayList<>();
    final Map<String, Object> seen = new LinkedHashMap<>();

    Scenario(Function<Integer, Client> connect, int writerPort, int readerPort) {
        writer = connect.apply(writerPort);
        reader = connect.apply(readerPort);
        other = connect.apply(readerPort);
        peers = writerPort == readerPort ? 0 : 1;
    }

    public static void main(String[] words) throws Exception {
        Map<String, Function<Integer, Client>> libraries = Map.of(
            "jedis", JedisClient::new,
            "lettuce-core", LettuceClient::new,
            "redisson", RedissonAdapter::new);
        var run = new Scenario(
            libraries.get(words[0]), Integer.parseInt(words[1]), Integer.parseInt(words[2]));
        run.seen.put("library", words[0] + " " + version(words[0]));
        run.begin();
        run.addAndRead();
        run.claim();
        run.look();
        run.reconnect();
        System.out.println(new Gson().toJson(run.seen));
        System.exit(0);
    }

    /** The version in the name of the library's archive. */
    static String version(String library) {
        return Arrays.stream(System.getProperty("java.class.path").split("[:/]"))
            .filter(name -> name.matches(library + "-\\d.*\\.jar"))
            .map(name -> name.substring(library.length() + 1, name.length() - 4))
            .findFirst().orElse("unknown");
    }

    static List<String> shown(List<Client.Entry> entries) {
        return entries.stream().map(one -> one.field() + " " + shown(one.value())).toList();
    }

    static String shown(byte[] value) {
        try {
            var digest = MessageDigest.getInstance("SHA-256");
            return HexFormat.of().formatHex(value.length > 100 ? digest.digest(value) : value);
        } catch (java.security.NoSuchAlgorithmException error) {
            throw new AssertionError(error);
        }
    }

    /** The first word of the error with which a call ends, in the innermost exception. */
    static String kindOfError(Runnable call) {
        try {
            call.run();
        } catch (RuntimeException error) {
            Throwable cause = error;
            while (cause.getCause() != null) {
                cause = cause.getCause();
            }
            return cause.getMessage().split("[ .]")[0];
        }
        return "no error";
    }

    void begin() throws Exception {
        seen.put("created", writer.createGroup());
        seen.put("created again", kindOfError(writer::createGroup));
        seen.put("no group", kindOfError(() -> writer.readGroup("nobody", 1, 0)));
        var first = writer.addAndWait("big", BIG, peers);
        seen.put("waited", first.number());
        seen.put("first", shown(reader.readGroup(Client.GROUP, 1, 0)));

        var waiting = CompletableFuture.supplyAsync(
            () -> reader.readGroup(Client.GROUP, 1, 20_000));
        Thread.sleep(300);
        String id = writer.add("raw", RAW);
        var got = waiting.get();
        seen.put("woken", shown(got));
        seen.put("woken by", got.get(0).id().equals(id) ? "what was added" : got.get(0).id());
        added.addAll(List.of(first.id(), id));
    }

    void addAndRead() {
        added.addAll(writer.pipeline(List.of("0", "1", "2", "3")));
        var inTransaction = writer.transaction("4");
        added.add(inTransaction.id());
        seen.put("length in transaction", inTransaction.number());
        added.add(writer.addAndWait("n", "5".getBytes(), peers).id());

        var got = reader.readGroup(Client.GROUP, 100, 0);
        seen.put("read", shown(got));
        var ids = got.stream().map(Client.Entry::id).toList();
        seen.put("read in order", ids.equals(added.subList(2, added.size())));
        seen.put("acknowledged", reader.acknowledge(added.subList(0, 3)));
    }

    void claim() {
        seen.put("pending", reader.pending());
        seen.put("consumers", reader.pendingOfConsumers());
        seen.put("delivered", reader.deliveries());
        String cursor = "0-0";
        var claimed = new ArrayList<List<String>>();
        for (int call = 0; call < 2; call++) {
            var reply = reader.autoClaim("bob", cursor, 3);
            cursor = reply.cursor();
            claimed.add(shown(reply.entries()));
        }
        seen.put("claimed", claimed);
        seen.put("last cursor", cursor);
        seen.put("delivered again", reader.deliveries());
        reader.acknowledge(added.subList(3, added.size()));
        seen.put("left", reader.pending());
    }

    void look() {
        seen.put("range", shown(reader.range()));
        seen.put("newest", shown(reader.newest()));
        seen.put("length", reader.length());

        long begun = System.nanoTime();
        var ofGroup = reader.readGroup(Client.GROUP, 10, 200);
        var ofStream = reader.readNew(200);
        boolean waited = System.nanoTime() - begun > 380_000_000L;
        seen.put("timed out", waited && ofGroup.isEmpty() && ofStream.isEmpty());

        var keys = reader.scan("scanned:*", 10);
        seen.put("scanned", keys.size());
        seen.put("distinct", new HashSet<>(keys).size());
    }

    void reconnect() throws InterruptedException {
        seen.put("killed", other.kill(reader.clientId()));
        for (int attempt = 0; attempt < 50; attempt++) {
            try {
                seen.put("length after the kill", reader.length());
                return;
            } catch (RuntimeException lost) {
                Thread.sleep(100);
            }
        }
    }
}
