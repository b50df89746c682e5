"""What this region writes down: the open block, local records, and the rows that wait for a commit (S1.4, S13.1).

The journal numbers rows. A block is cut at a commit, before anything is merged, and when it is large; the local records that arose while
it was open follow it in a row of their own.
"""

from __future__ import annotations

from typing import Optional

from anabranch.crdt import apply
from anabranch.crdt.block import Block, BlockWriter, chain_after
from anabranch.crdt.effects import Effect, dots_of
from anabranch.crdt.encoding import put_vector
from anabranch.crdt.keyspace import Keyspace
from anabranch.crdt.local import LocalRecord, apply_local, put_record
from anabranch.crdt.stream import Stream
from anabranch.crdt.vector import Vector


class Row:
    """One row of the effect log. `source` is 0 for what this region issued, else the peer it was merged from.

    `body` is the block's, or the local records; `clock_ms` the region's clock then (S10.2). A row whose `block` is None holds local
    records, or when `snapshot` is True says that a snapshot was joined here; its body is then the snapshot's vector.
    """

    def __init__(
        self,
        position: int,
        block: Optional[Block],
        source: int,
        clock_ms: int,
        body: bytes,
        snapshot: bool = False,
    ) -> None:
        self.position = position
        self.block = block
        self.source = source
        self.clock_ms = clock_ms
        self.body = body
        self.snapshot = snapshot


class Commit:
    """Rows to write in one statement, and what is on disk once they are: position, vector, chain values and clock."""

    def __init__(
        self,
        position: int,
        rows: list[Row],
        vector: Vector,
        chains: dict[int, bytes],
        clock_ms: int,
    ) -> None:
        self.position = position
        self.rows = rows
        self.vector = vector
        self.chains = chains
        self.clock_ms = clock_ms
        self.staged: list[
            tuple[int, list[bytes]]
        ] = []  # position of a snapshot's row, and its chunks
        self.meta: dict[
            str, bytes
        ] = {}  # identity facts to store besides (life, recovery, lost members)


class Journal:
    """The end of the effect log that is not on disk yet."""

    def __init__(self, keyspace: Keyspace, position: int) -> None:
        self.keyspace = keyspace
        self.position = position  # of the last row made
        self.rows: list[Row] = []
        self.bytes = 0  # of those rows
        self.block_max_bytes = 1 << 20
        self.clock_ms = 0  # kept by the engine: the highest that this region has read
        self._writer: Optional[BlockWriter] = None
        self._records = bytearray()
        self._staged: list[tuple[int, list[bytes]]] = []
        # statistics
        self.effects_issued = 0

    # -- writing -----------------------------------------------------------------------------------------------------

    def _open(self) -> BlockWriter:
        writer = self._writer
        if writer is None:
            keyspace = self.keyspace
            limits = keyspace.limits
            first = keyspace.vector.get(keyspace.region_id, 0) + 1
            writer = self._writer = BlockWriter(
                keyspace.region_id, first, limits.max_entries, limits.max_bytes
            )
        return writer

    def add(self, stream: Stream, entry_id: int, names: bytes, values: bytes) -> int:
        """Issues a plain add, the hot path; its counter."""
        writer = self._writer
        if writer is None:
            writer = self._open()
        keyspace = self.keyspace
        counter = writer.last + 1
        ms = entry_id >> 64
        seq = entry_id & 0xFFFFFFFFFFFFFFFF
        if apply.add(keyspace, stream, ms, seq, counter, names, values):
            writer.end_run()
        writer.add(stream.key, ms, seq, names, values)
        keyspace.vector[keyspace.region_id] = counter
        self.effects_issued += 1
        return counter

    def issue(self, effect: Effect) -> int:
        """Issues any other effect: applies it with the next dot and writes it into the open block; its counter."""
        writer = self._open()
        keyspace = self.keyspace
        counter = writer.last + 1
        apply.apply(keyspace, effect, keyspace.region_id, counter, self.clock_ms, True)
        writer.put(effect)
        keyspace.vector[keyspace.region_id] = writer.last
        self.effects_issued += dots_of(effect)
        return counter

    def record(self, record: LocalRecord) -> None:
        """Applies a local record and writes it down."""
        apply_local(self.keyspace, record)
        put_record(self._records, record)

    def end_unit(self) -> None:
        """A command or MULTI is over: here a block may be cut (S1.2)."""
        if self._writer is not None and self._writer.size() >= self.block_max_bytes:
            self.cut_block()

    # -- rows --------------------------------------------------------------------------------------------------------

    def has_open(self) -> bool:
        return self._writer is not None or bool(self._records)

    def is_empty(self) -> bool:
        """Whether everything done is in commits."""
        return not self.rows and self._writer is None and not self._records

    def clock_of_next_commit(self) -> Optional[int]:
        """The least clock that a commit made from now on carries, or None if it would carry nothing (S10.2)."""
        if self.has_open():
            return self.clock_ms
        return self.rows[-1].clock_ms if self.rows else None

    def pending_bytes(self) -> int:
        return (
            self.bytes + len(self._records) + (0 if self._writer is None else self._writer.size())
        )

    def next_position(self) -> int:
        """The position that a commit made now would end at."""
        return self.position + (1 if self._writer is not None else 0) + (1 if self._records else 0)

    def cut_block(self) -> None:
        """Closes the open block, and after it the records that arose while it was open."""
        keyspace = self.keyspace
        writer = self._writer
        if writer is not None:
            self._writer = None
            body = writer.body()
            chain = chain_after(keyspace.chain(keyspace.region_id), body)
            keyspace.chains[keyspace.region_id] = chain
            self._push(Block(writer.origin, writer.first, writer.last, body, chain), 0, body)
        if self._records:
            records = bytes(self._records)
            self._records = bytearray()
            self._push(None, 0, records)

    def push_merged(self, block: Block, source: int) -> None:
        """A block of a peer, to be stored as it came; the caller applies it."""
        self._push(block, source, block.body)

    def push_snapshot(self, source: int, chunks: list[bytes], vector: Vector) -> None:
        """Notes that a snapshot was joined here; its chunks are stored with the row, so that a start can join it again."""
        body = bytearray()
        put_vector(body, vector)
        self._push(None, source, bytes(body), True)
        self._staged.append((self.position, chunks))
        self.bytes += sum(len(chunk) for chunk in chunks)

    def push_clock(self) -> None:
        """An empty row, which carries the clock to the disk."""
        self._push(None, 0, b"")

    def _push(
        self, block: Optional[Block], source: int, body: bytes, snapshot: bool = False
    ) -> None:
        self.position += 1
        self.keyspace.position = self.position
        self.bytes += len(body) + 64
        self.rows.append(Row(self.position, block, source, self.clock_ms, body, snapshot))

    def take_commit(self) -> Optional[Commit]:
        """Everything not yet in a commit, the open block included; None if there is nothing."""
        self.cut_block()
        if not self.rows:
            return None
        # The clock that a start would find: that of the last row.
        commit = Commit(
            self.position,
            self.rows,
            dict(self.keyspace.vector),
            dict(self.keyspace.chains),
            self.rows[-1].clock_ms,
        )
        commit.staged = self._staged
        self._staged = []
        self.rows = []
        self.bytes = 0
        return commit
