"""What is known of the effect log on disk: how large it is, and its end in memory. Sans-IO.

The driver tells it of every commit that ended. When the log is larger than it may be (S14), it says
which of the oldest rows go.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Optional

from anabranch.crdt.encoding import put_vector
from anabranch.crdt.vector import Vector, raise_to
from anabranch.region.engine.rows import BlockRow, Commit, SnapshotRow
from anabranch.region.engine.settings import Settings
from anabranch.region.storage import log, schema
from anabranch.region.storage.log import LogSize, OldRow
from anabranch.region.storage.schema import Statement
from anabranch.sync.log_tail import LogTail


class EffectLog:
    """`size` is that of the whole log; `tail` serves the peers that keep up."""

    def __init__(
        self, position: int, floor: Vector, size: LogSize, settings: Settings, tail_bytes_max: int
    ) -> None:
        self.size: Final = size
        self.tail: Final = LogTail(position, floor, tail_bytes_max)
        self._settings: Final = settings

    def statements(self, commit: Commit) -> list[Statement]:
        """What writes a commit.

        After a snapshot the log no longer reaches back beyond it (S11.2). Its floor rises at once,
        before the rows are on disk: whoever reads them as soon as they are is told so.
        """
        statements = log.commit_statements(commit)
        snapshots = [row for row in commit.rows if isinstance(row, SnapshotRow)]
        for row in snapshots:
            self.tail.raise_floor(row.vector)
        if snapshots:
            statements.append(_floor_statement(self.tail.floor))
        return statements

    def committed(self, commit: Commit) -> None:
        """A commit is on disk."""
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
        """What drops as many of the oldest rows as need be, and their size; None when none need be.

        The log's floor rises at once, before the rows are gone: an answer that was read meanwhile
        then does not count. `dropped` follows when they are gone.
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
        return [delete, _floor_statement(self.tail.floor)], gone

    def dropped(self, gone: LogSize) -> None:
        """What `drop` said is gone."""
        self.size.rows -= gone.rows
        self.size.bytes -= gone.bytes
        self.size.effects -= gone.effects

    def figures(self) -> dict[str, int]:
        """For INFO."""
        return {
            "crdt_log_rows": self.size.rows,
            "crdt_log_bytes": self.size.bytes,
            "crdt_log_effects": self.size.effects,
            "crdt_log_tail_bytes": self.tail.bytes,
        }


def _floor_statement(floor: Vector) -> Statement:
    out = bytearray()
    put_vector(out, floor)
    return schema.meta("log_floor", bytes(out))
