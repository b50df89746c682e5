import java.util.List;
import java.util.Map;

/** A method for each step of the scenario (see __init__.py of tests/clients). Times are ms. */
interface Client {
    String GROUP = "workers";
    int PATIENCE_MS = 10_000;

    /** An entry of one field. */
    record Entry(String id, String field, byte[] value) {}

    /** An ID, and a number that belongs to it. */
    record Added(String id, long number) {}

    /** The reply of XAUTOCLAIM. */
    record Claimed(String cursor, List<Entry> entries) {}

    String createGroup();

    /** New entries for ann; it waits for them unless blockMs is 0. */
    List<Entry> readGroup(String group, int count, int blockMs);

    List<Entry> readNew(int blockMs);

    String add(String field, byte[] value);

    /** Adds, and sends WAIT on the same connection; returns how many peers have the entry. */
    Added addAndWait(String field, byte[] value, int peers);

    List<String> pipeline(List<String> values);

    /** Adds, and returns the length of the stream after that. */
    Added transaction(String value);

    long acknowledge(List<String> ids);

    long pending();

    Map<String, Long> pendingOfConsumers();

    List<String> deliveries();

    Claimed autoClaim(String consumer, String start, int count);

    List<Entry> range();

    List<Entry> newest();

    long length();

    List<String> scan(String match, int count);

    long clientId();

    long kill(long id);
}
