"""The journal: the open block, local records, and the rows that wait for a commit (S1.4, S13.1).

The journal numbers rows. It cuts the open block at a commit, before a merge, and when the block is
large. The local records made while the block was open follow it in a row of their own.
"""

from __future__ import annotations

from typing import Final, Optional

from librt.strings import BytesWriter

from anabranch.crdt import apply
from anabranch.crdt.adds import Adds, IdempotentAdds
from anabranch.crdt.block import Block, BlockWriter, chain_after
from anabranch.crdt.effects import Effect, dots_of, usual_command
from anabranch.crdt.encoding import with_length
from anabranch.crdt.keyspace import Keyspace
from anabranch.crdt.local import LocalRecord, apply_local
from anabranch.crdt.named import Named
from anabranch.crdt.node import FOLLOWS
from anabranch.crdt.stream import Stream
from anabranch.crdt.vector import Vector
from anabranch.region.engine.clock import EngineClock
from anabranch.region.engine.rows import BlockRow, ClockRow, Commit, LogRow, RecordsRow, SnapshotRow

# Memory of a row beside its body, estimated.
_ROW_OVERHEAD_BYTES: Final = 64
# The command of plain adds, and no command: neither marks an add.
_ADDS: Final = (b"", b"xadd")


class Journal:
    """The end of the effect log that is not on disk yet."""

    def __init__(self, keyspace: Keyspace, position: int, clock: EngineClock) -> None:
        self.keyspace = keyspace
        self.clock: Final = clock
        # Position of the last row made.
        self.position = position
        # Rows that are in no commit yet, and their bytes.
        self.rows: list[LogRow] = []
        self.bytes = 0
        self.block_max_bytes = 1 << 20
        # The open block, if it has effects.
        self.writer: Optional[BlockWriter] = None
        self._records = BytesWriter()
        # Keys of these records.
        self._in_records = Named()
        # The command that runs now, as the command table names it; empty outside commands.
        self._command = b""
        # Whether adds of this command need a mark (`crdt/block.py`), and whether its mark is in
        # force.
        self._marks_adds = False
        self._in_mark = False
        # Dots issued since the start.
        self.effects_issued = 0

    # -- writing

    def begin_command(self, command: bytes) -> None:
        """The following effects come from this command, or rule; empty: from their usual one."""
        self._command = command
        self._marks_adds = command not in _ADDS
        self._in_mark = False

    def _mark(self, writer: BlockWriter, usual: bytes) -> None:
        """Marks the next effect, which usually comes from the command `usual`, if need be."""
        if self._in_mark:
            return
        if self._command and self._command != usual:
            writer.mark(self._command)
            self._in_mark = True
        elif writer.is_marked:
            writer.mark(b"")

    def _open(self) -> BlockWriter:
        writer = self.writer
        if writer is None:
            self._in_mark = False
            keyspace = self.keyspace
            limits = keyspace.limits
            first = keyspace.vector.get(keyspace.region_id, 0) + 1
            writer = self.writer = BlockWriter(
                keyspace.region_id, first, limits.max_entries, limits.max_bytes
            )
        return writer

    def add(self, stream: Stream, ms: int, seq: int, names: bytes, values: bytes) -> int:
        """Issues a plain add with the ID `ms`-`seq`, the hot path. Returns its counter."""
        writer = self.writer
        if writer is None:
            writer = self._open()
        keyspace = self.keyspace
        counter = writer.last + 1
        if self._marks_adds or writer.is_marked:
            self._mark(writer, b"xadd")
        if apply.add(keyspace, stream, ms, seq, counter, names, values):
            writer.end_run()
        writer.add(stream.key, ms, seq, names, values)
        keyspace.vector[keyspace.region_id] = counter
        self.effects_issued += 1
        return counter

    def add_like(self, stream: Stream, ms: int, seq: int, names: bytes, data: bytes) -> None:
        """Issues a run of adds (`crdt/adds.py`), which follow the add `ms`-`seq` just issued.

        A block that becomes large is cut between two of its packed nodes.
        """
        writer = self._open()
        if writer.is_marked:
            # A trim by the add before them has a mark.
            writer.mark(b"")
        keyspace = self.keyspace
        adds = Adds(names, data, ms, seq, writer.last)
        while adds.is_left:
            writer = self._open()
            piece, opened = apply.add_some(keyspace, stream, adds)
            if opened:
                writer.end_run()
            writer.add_piece(stream.key, piece)
            keyspace.vector[keyspace.region_id] = writer.last
            self.effects_issued += piece.count
            self.end_unit()

    def add_idempotent(
        self, stream: Stream, ms: int, seq: int, names: bytes, values: bytes, pid: bytes, iid: bytes
    ) -> None:
        """Issues an idempotent add with the ID `ms`-`seq` (S9). Its pair is new here."""
        writer = self._open()
        self._mark(writer, b"xadd")
        apply.add(self.keyspace, stream, ms, seq, writer.last + 1, names, values)
        entry = FOLLOWS + with_length(values)
        self._hold_pairs(stream, IdempotentAdds(names, entry, [len(entry)], ms, seq, pid, [iid]))

    def add_idempotent_like(self, stream: Stream, adds: IdempotentAdds) -> None:
        """Issues idempotent adds that follow the one just issued. Their pairs are new here."""
        writer = self._open()
        if writer.is_marked:
            # A trim by the add before them has a mark.
            writer.mark(b"")
        entries = adds.entries(writer.last)
        while entries.is_left:
            apply.add_some(self.keyspace, stream, entries)
        self._hold_pairs(stream, adds)

    def _hold_pairs(self, stream: Stream, adds: IdempotentAdds) -> None:
        """Makes idempotent adds of those whose entries are in the stream."""
        writer = self._open()
        keyspace, now_ms = self.keyspace, self.clock.now_ms
        apply.hold_own_pairs(keyspace, stream, adds, writer.last + 1, now_ms)
        writer.add_idempotent(stream.key, adds, now_ms, keyspace.vector)
        keyspace.vector[keyspace.region_id] = writer.last
        self.effects_issued += adds.count()

    def issue(self, effect: Effect) -> int:
        """Issues an effect: applies it with the next dot and writes it into the open block.

        Returns its counter.
        """
        writer = self._open()
        keyspace = self.keyspace
        counter = writer.last + 1
        apply.apply(keyspace, effect, keyspace.region_id, counter, self.clock.now_ms, True)
        self._mark(writer, usual_command(effect))
        writer.put(effect)
        keyspace.vector[keyspace.region_id] = writer.last
        self.effects_issued += dots_of(effect)
        return counter

    def record(self, record: LocalRecord) -> None:
        """Applies a local record and appends it to the records that wait for a row."""
        apply_local(self.keyspace, record)
        record.put(self._records)
        self._in_records.references(record.head.key, record.entries_only())

    def end_unit(self) -> None:
        """Ends a unit, a command or a MULTI (S1.2). A large block is cut here."""
        if self.writer is not None and self.writer.size() >= self.block_max_bytes:
            self.cut_block()

    # -- rows

    def has_open(self) -> bool:
        return self.writer is not None or len(self._records) > 0

    def is_empty(self) -> bool:
        """Whether everything is in commits, on disk or under way."""
        return not self.rows and self.writer is None and len(self._records) == 0

    def clock_of_next_commit(self) -> Optional[int]:
        """The lowest clock that a commit made from now on can carry (S10.2).

        None if a commit would be empty.
        """
        if self.has_open():
            return self.clock.now_ms
        return self.rows[-1].clock_ms if self.rows else None

    def pending_bytes(self) -> int:
        return self.bytes + len(self._records) + (0 if self.writer is None else self.writer.size())

    def next_position(self) -> int:
        """The last position of a commit made now."""
        return (
            self.position + (1 if self.writer is not None else 0) + (1 if len(self._records) else 0)
        )

    def cut_block(self) -> None:
        """Makes a row of the open block, and one of the local records made while it was open.

        The block stays open until its row is made: effects that the vector counts are at any
        moment in the open block or in a row (S13.10).
        """
        keyspace = self.keyspace
        writer = self.writer
        if writer is not None:
            writer.end_run()
            body = writer.body()
            chain = chain_after(keyspace.chain(keyspace.region_id), body)
            block = Block(writer.origin, writer.first, writer.last, body, chain)
            row = BlockRow(self.position + 1, self.clock.now_ms, block, 0, writer.named)
            self._push(row, len(body))
            keyspace.chains[keyspace.region_id] = chain
            self.writer = None
        if len(self._records):
            records = self._records.getvalue()
            clock_ms = self.clock.now_ms
            row_of_records = RecordsRow(self.position + 1, clock_ms, records, self._in_records)
            emptied = (BytesWriter(), Named())
            self._push(row_of_records, len(records))
            self._records, self._in_records = emptied

    def push_merged(self, block: Block, source: int, effects: list[Effect]) -> None:
        """Makes a row of a peer's block, unchanged. The caller applies the block's effects."""
        named = Named()
        for effect in effects:
            named.effect(effect)
        row = BlockRow(self.position + 1, self.clock.now_ms, block, source, named)
        self._push(row, len(block.body))

    def push_snapshot(self, source: int, chunks: list[bytes], vector: Vector) -> None:
        """Makes a row of a snapshot that was joined here."""
        row = SnapshotRow(self.position + 1, self.clock.now_ms, source, vector, chunks)
        self._push(row, sum(len(chunk) for chunk in chunks))

    def push_clock(self) -> None:
        """Makes a row that carries only the clock to the disk."""
        self._push(ClockRow(self.position + 1, self.clock.now_ms), 0)

    def _push(self, row: LogRow, size: int) -> None:
        self.rows.append(row)
        self.position = row.position
        self.keyspace.position = row.position
        self.bytes += size + _ROW_OVERHEAD_BYTES

    def take_commit(self) -> Optional[Commit]:
        """A commit of all rows and of the open block; None if there is nothing to commit."""
        self.cut_block()
        if not self.rows:
            return None
        # A start finds the clock of the last row, so the commit carries the same.
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
