"""Snapshots (S11.2): a consistent cut of a keyspace as records, and how they are read.

A snapshot is a head, then for each key a record of its state and one for each of its packed nodes.
The records of the keys are most of the work of a cut. `SnapshotRecords` makes them ahead of it,
some at a time. A key that changes afterwards is named in `Unseen.unrecorded`, and its record is
made again. So the cut itself has to make only the records of the keys that changed last.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Optional

from mypy_extensions import mypyc_attr

from anabranch.crdt.encoding import Malformed, Reader, put_bytes, put_varint, put_vector
from anabranch.crdt.images import StateImage
from anabranch.crdt.keyspace import Keyspace
from anabranch.crdt.region_log import NodeLimits
from anabranch.crdt.state import NodeImage, cut_converged, push_node, read_converged, read_node
from anabranch.crdt.stream import Stream

# Version 1 has no `Keyspace.collected`.
SNAPSHOT_VERSION: Final = 2

_HEAD: Final = 1
_KEY: Final = 2
_NODE: Final = 3

# The weight of what a region makes for a snapshot in one tick: about 1 ms of work.
CUT_WEIGHT: Final = 128 << 10
# A reference to a node costs a record as much time as so many bytes that it encodes, and so does
# each record by itself.
_NODE_WEIGHT: Final = 64
_KEY_WEIGHT: Final = 128
# The records of a key of at most this weight, nodes included, are encoded when they are made.
_SMALL_BYTES: Final = 1 << 10
# Keys may change faster than their records are made. Then the cut makes all that is left, after so
# many looks at the keys that changed.
_PASSES_MAX: Final = 6


@mypyc_attr(acyclic=True)
class _Parts:
    """The state of a large key and its packed nodes, encoded later."""

    def __init__(self, image: StateImage, nodes: list[NodeImage]) -> None:
        self._image: Final = image
        self._nodes: Final = nodes

    def framed(self) -> Iterator[bytes]:
        """Yields the records, each after its length."""
        yield _framed(self._image.encoded())
        for node in self._nodes:
            out = bytearray([_NODE])
            put_varint(out, node.region_id)
            out += node.encoded()
            yield _framed(bytes(out))


def _framed(record: bytes) -> bytes:
    out = bytearray()
    put_bytes(out, record)
    return bytes(out)


@mypyc_attr(acyclic=True)
class _KeyRecords:
    """The records of one key, as it is when they are made. Those of a small key are encoded then.

    `count` is their number, `weight` how long they took to make, as the number of bytes that are
    encoded in that time.
    """

    def __init__(self, stream: Stream) -> None:
        image = StateImage()
        image.out.append(_KEY)
        put_bytes(image.out, stream.key)
        cut_converged(image, stream)
        nodes = [
            NodeImage(region_id, node)
            for region_id, log in stream.logs.items()
            for node in log.node_map.nodes
        ]
        self.count: Final = 1 + len(nodes)
        self.weight = _KEY_WEIGHT + image.weight() + _NODE_WEIGHT * len(nodes)
        parts = _Parts(image, nodes)
        self._parts: Optional[_Parts] = parts
        self._whole = b""
        size = sum(node.size() for node in nodes)
        if self.weight + size <= _SMALL_BYTES:
            # Millions of objects that refer to others would keep the garbage collector busy.
            self._whole = b"".join(parts.framed())
            self._parts = None
            self.weight += size

    def framed(self) -> Iterator[bytes]:
        """Yields the records, each after its length; those of a small key all at once."""
        if self._parts is None:
            yield self._whole
        else:
            yield from self._parts.framed()


class SnapshotRecords:
    """The records of all keys, made some at a time while the keyspace changes.

    One such object at a time may follow a keyspace.
    """

    def __init__(self, keyspace: Keyspace) -> None:
        self._keyspace: Final = keyspace
        self._records: dict[bytes, _KeyRecords] = {}
        # How many records of the snapshot they are.
        self._count = 0
        # The keys of this pass whose records are to be made, the next one last, and those that
        # changed since it began.
        self._todo: list[bytes] = []
        self._changed: dict[bytes, None] = {}
        self._passes = 0
        self._begin()

    def _begin(self) -> None:
        self._records = {}
        self._count = 0
        self._passes = 0
        self._take_pass(list(self._keyspace.keys))

    def _take_pass(self, keys: list[bytes]) -> None:
        self._todo = keys
        self._passes += 1
        self._changed = self._keyspace.unseen.unrecorded = {}

    def make_some(self, weight_max: int) -> bool:
        """Makes records for about as long as it takes to encode `weight_max` bytes.

        Returns True when a cut would have little left to make.
        """
        weight = 0
        while weight < weight_max:
            if self._keyspace.unseen.unrecorded is not self._changed:
                # A FLUSHALL dropped keys without naming them.
                self._begin()
            if self._todo:
                weight += self._make(self._todo.pop())
            elif self._is_little_left(weight_max):
                return True
            else:
                self._take_pass(list(self._changed))
        return not self._todo and self._is_little_left(weight_max)

    def _is_little_left(self, weight_max: int) -> bool:
        few = weight_max // (4 * _KEY_WEIGHT)
        return len(self._changed) <= few or self._passes >= _PASSES_MAX

    def _make(self, key: bytes) -> int:
        """Makes the record of a key anew, or drops it with its key; returns its weight."""
        former = self._records.pop(key, None)
        if former is not None:
            self._count -= former.count
        self._changed.pop(key, None)
        stream = self._keyspace.keys.get(key)
        if stream is None:
            return 1
        record = self._records[key] = _KeyRecords(stream)
        self._count += record.count
        return record.weight

    def finish(self) -> tuple[dict[bytes, _KeyRecords], int]:
        """Makes all records that are left and follows the keyspace no further.

        Returns the records by key, and how many records of the snapshot they are.
        """
        if self._keyspace.unseen.unrecorded is not self._changed:
            self._begin()
        while self._todo:
            self._make(self._todo.pop())
        for key in list(self._changed):
            self._make(key)
        self._keyspace.unseen.unrecorded = None
        return self._records, self._count

    def drop(self) -> None:
        """Follows the keyspace no further, without a cut."""
        if self._keyspace.unseen.unrecorded is self._changed:
            self._keyspace.unseen.unrecorded = None


class SnapshotCut:
    """A consistent cut of a keyspace (S11.2), encoded lazily while the keyspace changes.

    What was encoded is freed, so a cut can be encoded once. `position` is the log position that
    must be on disk before the snapshot is sent. `made` are the records that were made ahead;
    without them, the cut makes all.
    """

    def __init__(
        self, keyspace: Keyspace, position: int, made: Optional[SnapshotRecords] = None
    ) -> None:
        self.position = position
        self.vector = dict(keyspace.vector)
        self.chains = dict(keyspace.chains)
        head = bytearray([_HEAD])
        put_varint(head, SNAPSHOT_VERSION)
        put_vector(head, keyspace.vector)
        put_varint(head, len(keyspace.chains))
        for region_id in sorted(keyspace.chains):
            put_varint(head, region_id)
            put_bytes(head, keyspace.chains[region_id])
        put_vector(head, keyspace.flush_tombstone)
        put_vector(head, keyspace.flush_clears)
        put_vector(head, keyspace.collected)
        self._keys, count = (made or SnapshotRecords(keyspace)).finish()
        # The number of records that follow. Without it, a snapshot that lost its end would read as
        # one in which the missing elements were removed.
        put_varint(head, count)
        self._head = bytes(head)

    def _framed(self) -> Iterator[bytes]:
        yield _framed(self._head)
        while self._keys:
            yield from self._keys.popitem()[1].framed()

    def chunks(self, bytes_max: int) -> Iterator[bytes]:
        """Yields the snapshot in pieces of about `bytes_max` bytes.

        A larger record is a piece by itself, and so are the records of a small key.
        """
        chunk = bytearray()
        for piece in self._framed():
            if chunk and len(chunk) + len(piece) > bytes_max:
                yield bytes(chunk)
                chunk = bytearray()
            chunk += piece
        yield bytes(chunk)


class SnapshotReader:
    """Reads a snapshot, chunk by chunk in their order.

    It will be joined into `target`, whose keys lend it their names: so the join finds them sooner.
    """

    def __init__(self, target: Keyspace) -> None:
        self._keyspace: Final = Keyspace(0, target.limits)
        self._target: Final = target
        # The key whose nodes come next.
        self._stream: Optional[Stream] = None
        # Number of records still to come; -1: the head has not come yet.
        self._awaited = -1

    def read(self, chunk: bytes) -> None:
        """Reads the next chunk; raises Malformed if its records are not valid."""
        reader = Reader(chunk)
        while not reader.at_end():
            self._read_record(Reader(reader.bytes_()))

    def _read_record(self, record: Reader) -> None:
        kind = record.varint()
        if kind == _HEAD and self._awaited < 0:
            _read_head(record, self._keyspace)
            self._awaited = record.varint() + 1
        elif kind == _KEY and self._awaited > 0:
            key = record.bytes_()
            ours = self._target.get(key)
            self._stream = stream = self._keyspace.create_read(key if ours is None else ours.key)
            if stream is None:
                raise Malformed("a snapshot has a key twice")
            read_converged(record, stream)
        elif kind == _NODE and self._stream is not None:
            region_id = record.varint()
            push_node(self._stream, region_id, read_node(record.data[record.offset :]))
        else:
            raise Malformed("a snapshot's records are out of order")
        self._awaited -= 1

    def finish(self) -> Keyspace:
        """Returns the keyspace that was cut, without local state.

        Raises Malformed if chunks are missing. The reader is of no further use.
        """
        if self._awaited:
            raise Malformed("a snapshot without its head, or without its end")
        return self._keyspace


def read_snapshot(chunks: list[bytes], limits: NodeLimits) -> Keyspace:
    """Returns the keyspace that was cut, without local state.

    Raises Malformed if the chunks are not a whole snapshot.
    """
    reader = SnapshotReader(Keyspace(0, limits))
    for chunk in chunks:
        reader.read(chunk)
    return reader.finish()


def _read_head(reader: Reader, keyspace: Keyspace) -> None:
    version = reader.varint()
    if not 1 <= version <= SNAPSHOT_VERSION:
        raise Malformed("a snapshot of an unknown version")
    keyspace.vector = reader.vector()
    for _ in range(reader.count()):
        region_id = reader.varint()
        keyspace.chains[region_id] = reader.bytes_()
    keyspace.flush_tombstone = reader.vector()
    keyspace.flush_clears = reader.vector()
    if version >= 2:
        keyspace.collected = reader.vector()
