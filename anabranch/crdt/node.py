"""The packed node (S12.1): a run of entries of one region log in one buffer.

IDs and counters are deltas, and an entry needs no Python object of its own.

    base_counter
    names: [n, len name, len name, …]    the master fields: those of the entry that opened the node
    data:
    ┌───────┬───────┬──────────────┬────────────┬────────┬─────────┬──────────────
    │ flags │ ms Δ? │ seq or seq Δ │ counter Δ? │ length │ payload │ next entry …
    └───────┴───────┴──────────────┴────────────┴────────┴─────────┴──────────────

    DELETED         the entry is removed
    SAME_NAMES      the payload is the values [len value, …]; without the flag, names then values
    SAME_MS         there is no ms Δ, and the seq is a Δ
    NEXT_COUNTER    there is no counter Δ: it is 1

The deltas of the first entry are against ID 0-0 and `base_counter`. So a run of adds in a block
(`crdt/block.py`) has the same bytes as a node. A region that merges a run takes it over as a node,
or appends it and writes only the deltas of its first entry anew. The payload is encoded once, for
memory, disk and wire (S12.3).
"""

from __future__ import annotations

from typing import Final, Optional, Union

from librt.strings import BytesWriter
from mypy_extensions import i64, mypyc_attr
from xxhash import xxh3_128_intdigest

from anabranch.crdt.encoding import put_varint, varint, write_varint
from anabranch.crdt.ids import SEQ_STRIDE
from anabranch.crdt.scan import DELETED, NEXT_COUNTER, SAME_MS, SAME_NAMES, Scan, word_at

DIGEST_MASK: Final = (1 << 128) - 1
COUNTER_MAX: Final = (1 << 63) - 1

# Lists of field names whose bytes are remembered, and the longest that is. A list of one name,
# which most entries have, is known by the name.
_NAMES_MAX: Final = 4096
_NAMES_BYTES_MAX: Final = 1024
_encoded_names: Final[dict[Union[bytes, tuple[bytes, ...]], bytes]] = {}

# How an entry begins that follows another one which the same region added in the same ms.
FOLLOWS: Final = bytes([SAME_NAMES | SAME_MS | NEXT_COUNTER]) + varint(SEQ_STRIDE)
_BYTES: Final = [bytes([number]) for number in range(128)]
# What precedes the payload of such an entry, by its length.
_HEADS: Final = [FOLLOWS + one for one in _BYTES]


def encode_names(names: list[bytes]) -> bytes:
    key: Union[bytes, tuple[bytes, ...]] = names[0] if len(names) == 1 else tuple(names)
    known = _encoded_names.get(key)
    if known is not None:
        return known
    encoded = _encode_names(names)
    if len(encoded) <= _NAMES_BYTES_MAX:
        if len(_encoded_names) >= _NAMES_MAX:
            _encoded_names.clear()
        _encoded_names[key] = encoded
    return encoded


def _encode_names(names: list[bytes]) -> bytes:
    out = bytearray()
    put_varint(out, len(names))
    for name in names:
        put_varint(out, len(name))
        out += name
    return bytes(out)


def encode_values(values: list[bytes]) -> bytes:
    if len(values) == 1 and len(values[0]) < 128:
        return _BYTES[len(values[0])] + values[0]
    out = bytearray()
    for value in values:
        put_varint(out, len(value))
        out += value
    return bytes(out)


def put_entry(
    out: bytearray, flags: int, ms_delta: int, seq: int, counter_delta: int, payload: bytes
) -> None:
    """Appends one entry. `flags` may hold DELETED and SAME_NAMES; the deltas set the others."""
    if (
        seq == SEQ_STRIDE
        and ms_delta == 0
        and counter_delta == 1
        and flags == SAME_NAMES
        and len(payload) < 128
    ):
        # Mostly an entry follows another one that the same region added in the same ms.
        out += _HEADS[len(payload)]
        out += payload
        return
    writer = BytesWriter()
    write_entry(writer, flags, ms_delta, seq, counter_delta, payload)
    out += writer.getvalue()


def write_entry(
    out: BytesWriter, flags: int, ms_delta: int, seq: int, counter_delta: int, payload: bytes
) -> None:
    """As `put_entry`, into a buffer that compiled code appends to faster."""
    if ms_delta == 0:
        flags |= SAME_MS
    if counter_delta == 1:
        flags |= NEXT_COUNTER
    out.append(flags)
    if ms_delta:
        write_varint(out, ms_delta)
    write_varint(out, seq)
    if counter_delta != 1:
        write_varint(out, counter_delta)
    write_varint(out, len(payload))
    out.write(payload)


@mypyc_attr(acyclic=True)
class PackedNode:
    """One packed node. Invariant: at least one entry is live; otherwise its log drops the node."""

    def __init__(self, names: bytes, base_counter: int) -> None:
        self.names = names
        self.base_counter = base_counter
        self.data: bytearray = bytearray()
        # Number of entries, deleted ones included.
        self.count = 0
        # Number of deleted entries.
        self.deleted = 0
        # ID and counter of the last entry, deleted or not: the base of the next entry's deltas.
        self.last_ms = 0
        self.last_seq = 0
        self.last_counter = base_counter
        # A checkpoint or snapshot under way also holds `data`: copy before changing.
        self.is_shared = False
        # Number under which a checkpoint stores the node; 0: not stored yet.
        self.number = 0
        # The node changed since the last checkpoint, and is in the `unsaved` of its log.
        self.is_unsaved = True
        # The node is no longer in its log.
        self.is_dropped = False
        # Sum of the entries' hashes (S13.9) while its log's total includes it, else None.
        self.share: Optional[int] = None

    def before_change(self) -> None:
        """Copies a shared `data`. Every change of `data` begins with this call.

        Before it, the log of the node calls `RegionLog.changing`.
        """
        if self.is_shared:
            self.data = bytearray(self.data)
            self.is_shared = False

    def append(self, ms: int, seq: int, counter: int, names: bytes, values: bytes) -> None:
        """Adds one entry. Its ID and counter must be above those of the last entry."""
        self.before_change()
        flags = SAME_NAMES if names == self.names else 0
        payload = values if flags else names + values
        put_entry(
            self.data,
            flags,
            ms - self.last_ms,
            seq - self.last_seq if ms == self.last_ms else seq,
            counter - self.last_counter,
            payload,
        )
        self.count += 1
        self.last_ms = ms
        self.last_seq = seq
        self.last_counter = counter

    def append_run(
        self, first: Scan, data: bytes, count: int, last_ms: int, last_seq: int, last_counter: int
    ) -> None:
        """Adds a whole run whose names are those of this node.

        Only the deltas of the first entry are written anew; the rest is copied. `first` stands on
        the first entry of `data`.
        """
        self.before_change()
        put_entry(
            self.data,
            first.flags & SAME_NAMES,
            first.ms - self.last_ms,
            first.seq - self.last_seq if first.ms == self.last_ms else first.seq,
            first.counter - self.last_counter,
            first.payload(),
        )
        self.data += data[first.next :]
        self.count += count
        self.last_ms = last_ms
        self.last_seq = last_seq
        self.last_counter = last_counter

    def take_run(
        self, data: bytes, count: int, last_ms: int, last_seq: int, last_counter: int
    ) -> None:
        """Takes over the bytes of a run. The node is new, with the run's names and base_counter."""
        self.data = bytearray(data)
        self.count = count
        self.last_ms = last_ms
        self.last_seq = last_seq
        self.last_counter = last_counter

    def scan(self) -> Scan:
        """Returns a walk over the entries as they are now: over a copy, which never changes."""
        return Scan(bytes(self.data), self.base_counter)

    def live(self) -> int:
        return self.count - self.deleted

    def delete_at(self, start: int) -> None:
        """Marks the entry at offset `start` deleted. The entry must be live."""
        self.before_change()
        self.data[start] |= DELETED
        self.deleted += 1

    def rewritten(self) -> PackedNode:
        """Returns a node with only the live entries."""
        node = PackedNode(self.names, 0)
        scan = self.scan()
        while scan.step():
            if not scan.flags & DELETED:
                node.append_scanned(scan, self.names)
        node.number = self.number
        return node

    def append_scanned(self, scan: Scan, names: bytes) -> None:
        """Adds the entry that `scan` stands on, from a node whose master fields are `names`."""
        if self.count == 0:
            self.base_counter = scan.counter - 1
            self.last_counter = scan.counter - 1
        if scan.flags & SAME_NAMES:
            self.append(scan.ms, scan.seq, scan.counter, names, scan.payload())
        else:
            payload = scan.payload()
            split = names_end(payload)
            self.append(scan.ms, scan.seq, scan.counter, payload[:split], payload[split:])

    def fields(self, scan: Scan) -> list[bytes]:
        """Returns field, value, field, value, … of the entry that `scan` stands on, as given."""
        if scan.flags & SAME_NAMES:
            return decode_fields(self.names, scan.payload())
        payload = scan.payload()
        split = names_end(payload)
        return decode_fields(payload[:split], payload[split:])

    def hash_entries(self, region_id: int) -> int:
        """Returns the sum of the hashes of the live entries (dot, ID, fields), modulo 2**128.

        The sum depends on the entries and not on their layout.
        """
        total = 0
        names = self.names
        scan = self.scan()
        while scan.step():
            flags = scan.flags
            if flags & DELETED:
                continue
            head = bytearray()
            put_varint(head, region_id)
            put_varint(head, scan.counter)
            put_varint(head, scan.ms)
            put_varint(head, scan.seq)
            if flags & SAME_NAMES:
                head += names
            head += self.data[scan.payload_start : scan.next]
            total += xxh3_128_intdigest(head)
        return total & DIGEST_MASK


def _varint_at(data: bytes, offset: int) -> tuple[int, int]:
    byte = data[offset]
    offset += 1
    value = byte & 127
    shift = 7
    while byte > 127:
        byte = data[offset]
        offset += 1
        value |= (byte & 127) << shift
        shift += 7
    return value, offset


def names_end(payload: bytes) -> int:
    """Returns the offset at which the names of a names-then-values payload end."""
    count, offset = _varint_at(payload, 0)
    for _ in range(count):
        length, offset = _varint_at(payload, offset)
        offset += length
    return offset


def decode_fields(names: bytes, values: bytes) -> list[bytes]:
    """Returns field, value, field, value, …"""
    return with_values(decode_names(names), values)


def decode_names(names: bytes) -> list[bytes]:
    """The inverse of `encode_names`."""
    count, offset = _varint_at(names, 0)
    result: list[bytes] = []
    for _ in range(count):
        length, offset = _varint_at(names, offset)
        result.append(names[offset : offset + length])
        offset += length
    return result


def with_values(names: list[bytes], values: bytes) -> list[bytes]:
    """Returns field, value, field, value, …, where `values` has a value for each of `names`."""
    offset = 0
    result: list[bytes] = []
    for name in names:
        length = values[offset]
        offset += 1
        if length > 127:
            length, offset = _varint_at(values, offset - 1)
        result.append(name)
        result.append(values[offset : offset + length])
        offset += length
    return result


def values_end(data: bytes, start: i64, count: i64) -> i64:
    """Returns the offset at which `count` values that begin at `start` end.

    The end may lie beyond `data`. Raises IndexError if a length does, and ValueError if it has more
    than 64 bits.
    """
    offset = start
    size: i64 = len(data)
    for _ in range(count):
        length: i64 = data[offset]
        offset += 1
        if length > 127:
            length, offset = word_at(data, offset - 1)
            # In compiled code a length of 2**63 or more is a negative number.
            if length < 0 or length > size:
                raise IndexError("a value ends beyond the data")
        offset += length
    return offset


def check_fields(names: bytes, values: bytes) -> bool:
    """Whether `names` holds exactly its field names, and `values` as many values."""
    try:
        count = _varint_at(names, 0)[0]
        return names_end(names) == len(names) and values_end(values, 0, count) == len(values)
    except (IndexError, ValueError):
        return False


def check_entries(names: bytes, data: bytes, base_counter: int) -> tuple[int, int, int, int, int]:
    """Reads a run of entries to its end and checks it.

    Returns (count, deleted, last ms, last seq, last counter). Raises ValueError if the run is
    malformed, if its IDs or counters do not ascend, or if an entry has other field names than
    `names`.
    """
    count: i64 = 0
    deleted: i64 = 0
    if base_counter > COUNTER_MAX:
        raise ValueError("a counter has more than 63 bits")
    scan = Scan(data, base_counter)
    size: i64 = len(data)
    try:
        if names_end(names) != len(names):
            raise ValueError("field names are malformed")
        fields: i64 = _varint_at(names, 0)[0]
        # Before the first entry no ID is passed, and 0-0 is an ID.
        ms: i64 = 0
        seq: i64 = 0
        counter: i64 = base_counter
        while scan.step():
            if (
                scan.next > size
                or scan.next < scan.payload_start
                or (count > 0 and scan.is_up_to(ms, seq))
                or scan.is_too_high()
                or scan.counter_word <= counter
            ):
                raise ValueError("entries are malformed or not ascending")
            if not scan.flags & SAME_NAMES:
                raise ValueError("an entry of a run has other field names than the run")
            if values_end(data, scan.payload_start, fields) != scan.next:
                raise ValueError("an entry's values do not fit its length")
            ms, seq = scan.ms_word, scan.seq_word
            counter = scan.counter_word
            count += 1
            if scan.flags & DELETED:
                deleted += 1
    except IndexError:
        raise ValueError("entries end early") from None
    return count, deleted, scan.ms, scan.seq, scan.counter
