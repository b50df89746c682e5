"""What this region writes down: the open block, local records, and the rows that wait for a commit (S1.4, S13.1).

The journal numbers rows. A block is cut at a commit, before anything is merged, and when it is large; the local records that arose while
it was open follow it in a row of their own.
"""

from __future__ import annotations

from typing import Final, Optional

from anabranch.crdt import apply
from anabranch.crdt.block import Block, BlockWriter, chain_after
from anabranch.crdt.effects import Effect, dots_of
from anabranch.crdt.keyspace import Keyspace
from anabranch.crdt.local import LocalRecord, apply_local
from anabranch.crdt.stream import Stream
from anabranch.crdt.vector import Vector
from anabranch.region.engine.clock import EngineClock
from anabranch.region.engine.rows import BlockRow, ClockRow, Commit, RecordsRow, Row, SnapshotRow

# What a row takes beside its body.
_ROW_OVERHEAD_BYTES: Final = 64


class Journal:
    """The end of the effect log that is not on disk yet."""

    def __init__(self, keyspace: Keyspace, position: int, clock: EngineClock) -> None:
        self.keyspace = keyspace
        self.clock: Final = clock
        self.position = position  # of the last row made
        self.rows: list[Row] = []
        self.bytes = 0  # of those rows
        self.block_max_bytes = 1 << 20
        self._writer: Optional[BlockWriter] = None
        self._records = bytearray()
        # statistics
        self.effects_issued = 0

    # -- writing

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
        apply.apply(keyspace, effect, keyspace.region_id, counter, self.clock.now_ms, True)
        writer.put(effect)
        keyspace.vector[keyspace.region_id] = writer.last
        self.effects_issued += dots_of(effect)
        return counter

    def record(self, record: LocalRecord) -> None:
        """Applies a local record and writes it down."""
        apply_local(self.keyspace, record)
        record.put(self._records)

    def end_unit(self) -> None:
        """A command or MULTI is over: here a block may be cut (S1.2)."""
        if self._writer is not None and self._writer.size() >= self.block_max_bytes:
            self.cut_block()

    # -- rows

    def has_open(self) -> bool:
        return self._writer is not None or bool(self._records)

    def is_empty(self) -> bool:
        """Whether everything done is in commits."""
        return not self.rows and self._writer is None and not self._records

    def clock_of_next_commit(self) -> Optional[int]:
        """The least clock that a commit made from now on carries, or None if it would carry nothing (S10.2)."""
        if self.has_open():
            return self.clock.now_ms
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
            block = Block(writer.origin, writer.first, writer.last, body, chain)
            self._push(BlockRow(self.position + 1, self.clock.now_ms, block, 0), len(body))
        if self._records:
            records = bytes(self._records)
            self._records = bytearray()
            self._push(RecordsRow(self.position + 1, self.clock.now_ms, records), len(records))

    def push_merged(self, block: Block, source: int) -> None:
        """A block of a peer, to be stored as it came. The caller applies it."""
        self._push(BlockRow(self.position + 1, self.clock.now_ms, block, source), len(block.body))

    def push_snapshot(self, source: int, chunks: list[bytes], vector: Vector) -> None:
        """Notes that a snapshot was joined here."""
        row = SnapshotRow(self.position + 1, self.clock.now_ms, source, vector, chunks)
        self._push(row, sum(len(chunk) for chunk in chunks))

    def push_clock(self) -> None:
        """Makes a row that carries nothing but the clock to the disk."""
        self._push(ClockRow(self.position + 1, self.clock.now_ms), 0)

    def _push(self, row: Row, size: int) -> None:
        self.position = row.position
        self.keyspace.position = row.position
        self.bytes += size + _ROW_OVERHEAD_BYTES
        self.rows.append(row)

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
        self.rows = []
        self.bytes = 0
        return commit
