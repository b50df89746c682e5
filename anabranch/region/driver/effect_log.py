"""The effect log on disk, as known in memory: its size, its retention and its newest rows. Sans-IO.

The driver reports every commit that is on disk. When the log exceeds its limits (S14), `drop`
chooses the oldest rows to delete.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Optional

from anabranch.crdt.encoding import put_vector
from anabranch.crdt.vector import Vector, raise_to
from anabranch.region.engine.rows import BlockRow, Commit, SnapshotRow
from anabranch.region.engine.settings import Settings
from anabranch.region.storage import key_index, log, schema
from anabranch.region.storage.key_index import STRETCH_BYTES, KeyIndex
from anabranch.region.storage.log import LogSize, OldRow
from anabranch.region.storage.schema import Statement
from anabranch.sync.session.log_tail import LogTail


class EffectLog:
    """The effect log of one region.

    `size` is the size of the whole log, without the chunks of joined snapshots. `tail` holds its
    newest rows, for peers that keep up.
    """

    def __init__(
        self,
        position: int,
        floor: Vector,
        size: LogSize,
        settings: Settings,
        tail_bytes_max: int,
        stretch_bytes: int = STRETCH_BYTES,
    ) -> None:
        self.size: Final = size
        self.tail: Final = LogTail(position, floor, tail_bytes_max)
        self._index: Final = KeyIndex(position, stretch_bytes)
        self._settings: Final = settings

    def statements(self, commit: Commit) -> list[Statement]:
        """The statements that write a commit.

        After a snapshot the log no longer reaches back beyond it (S11.2). The floor rises at once,
        before the rows are on disk, so that a read that follows the write sees the new floor.
        """
        statements = log.commit_statements(commit)
        snapshots = [row for row in commit.rows if isinstance(row, SnapshotRow)]
        for joined in snapshots:
            self.tail.raise_floor(joined.vector)
        if snapshots:
            statements.append(self._floor_statement())
        for written in commit.rows:
            self._index.note(written, len(log.body_of(written)))
        return statements + self._index.take_due()

    def _floor_statement(self) -> Statement:
        return schema.meta("log_floor", self.encoded_floor())

    def committed(self, commit: Commit) -> None:
        """A commit is on disk: counts its rows and extends the tail."""
        for row in commit.rows:
            self.size.rows += 1
            self.size.bytes += len(log.body_of(row))
            if isinstance(row, BlockRow):
                self.size.effects += row.block.last - row.block.first + 1
                self.tail.append(row)
            elif isinstance(row, SnapshotRow):
                self.tail.restart(row.position)
        self.tail.committed(commit.position)

    # -- retention

    def is_too_large(self) -> bool:
        """Whether the log is larger than the settings allow."""
        return self._is_over(self.size)

    def _is_over(self, size: LogSize) -> bool:
        effects_max = self._settings.integer("crdt-log-max-effects")
        if effects_max and size.effects > effects_max:
            return True
        return size.bytes > self._settings.integer("crdt-log-max-bytes")

    def drop(self, oldest: Sequence[OldRow]) -> Optional[tuple[list[Statement], LogSize]]:
        """The statements that delete the oldest rows of a log over its limits, and their size.

        None if no row need be deleted. The floor of the log rises at once, before the rows are
        deleted, which invalidates answers that are read meanwhile. Call `dropped` with the size
        when the rows are deleted.
        """
        floor: Vector = {}
        last = 0
        gone = LogSize(0, 0, 0)
        for row in oldest:
            left = LogSize(
                self.size.rows - gone.rows,
                self.size.bytes - gone.bytes,
                self.size.effects - gone.effects,
            )
            if not self._is_over(left):
                break
            last = row.position
            gone.rows += 1
            gone.bytes += row.bytes
            gone.effects += row.effects
            if row.origin > 0:
                raise_to(floor, {row.origin: row.last})
        if gone.rows == 0:
            return None
        self.tail.cut_off(last, floor)
        delete: Statement = ("DELETE FROM log WHERE position <= ?", (last,))
        of_index: list[Statement] = [(sql, (last,)) for sql in key_index.DELETE_UP_TO]
        return [delete, *of_index, self._floor_statement()], gone

    def dropped(self, gone: LogSize) -> None:
        """The rows that `drop` chose are deleted; `gone` is their size."""
        self.size.rows -= gone.rows
        self.size.bytes -= gone.bytes
        self.size.effects -= gone.effects

    def give_up(self, vector: Vector, position: int) -> None:
        """Ships no row up to `position` any more: a peer must hold all of `vector`."""
        self.tail.raise_floor(vector)
        self.tail.restart(position)

    def encoded_floor(self) -> bytes:
        """The floor as the meta row `log_floor` holds it."""
        out = bytearray()
        put_vector(out, self.tail.floor)
        return bytes(out)

    def figures(self) -> dict[str, int]:
        """The figures for INFO, by field name."""
        return {
            "crdt_log_rows": self.size.rows,
            "crdt_log_bytes": self.size.bytes,
            "crdt_log_effects": self.size.effects,
            "crdt_log_tail_bytes": self.tail.bytes,
        }
