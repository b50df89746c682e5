"""Rows of the effect log, and commits, which are runs of rows (S13.1).

A row has one of four kinds, each a class. Positions number the rows: 1, 2, 3 and so on.
"""

from __future__ import annotations

from typing import Final, Optional

from mypy_extensions import mypyc_attr

from anabranch.crdt.block import Block
from anabranch.crdt.named import Named
from anabranch.crdt.vector import Vector


@mypyc_attr(acyclic=True)
class LogRow:
    """The common part of all rows. `clock_ms` is the region's clock when it was made (S10.2)."""

    def __init__(self, position: int, clock_ms: int) -> None:
        self.position: Final = position
        self.clock_ms: Final = clock_ms


@mypyc_attr(acyclic=True)
class KeyedRow(LogRow):
    """The common part of the rows that change keys.

    `named` are these keys and the IDs of their entries; None for a row that was read from the disk.
    """

    def __init__(self, position: int, clock_ms: int, named: Optional[Named]) -> None:
        super().__init__(position, clock_ms)
        self._named = named

    def take_named(self) -> Optional[Named]:
        """Returns what is named and forgets it, so that a row that stays in memory is small."""
        named, self._named = self._named, None
        return named


@mypyc_attr(acyclic=True)
class BlockRow(KeyedRow):
    """A block. `source` is 0 if this region issued it, else the id of the peer that sent it."""

    def __init__(
        self, position: int, clock_ms: int, block: Block, source: int, named: Optional[Named] = None
    ) -> None:
        super().__init__(position, clock_ms, named)
        self.block: Final = block
        self.source: Final = source


@mypyc_attr(acyclic=True)
class RecordsRow(KeyedRow):
    """Local records, encoded one after the other, made while the preceding block was open."""

    def __init__(
        self, position: int, clock_ms: int, records: bytes, named: Optional[Named] = None
    ) -> None:
        super().__init__(position, clock_ms, named)
        self.records: Final = records


@mypyc_attr(acyclic=True)
class SnapshotRow(LogRow):
    """A snapshot from the region `source` that was joined here (S11.2).

    Its chunks are stored, so that a start can join it again.
    """

    def __init__(
        self, position: int, clock_ms: int, source: int, vector: Vector, chunks: list[bytes]
    ) -> None:
        super().__init__(position, clock_ms)
        self.source: Final = source
        self.vector: Final = vector
        self.chunks: Final = chunks


@mypyc_attr(acyclic=True)
class ClockRow(LogRow):
    """A row without content: it carries only the clock to the disk."""


class Commit:
    """Rows to write in one transaction.

    `position`, `vector`, `chains` and `clock_ms` are those on disk once the rows are written.
    """

    def __init__(
        self,
        position: int,
        rows: list[LogRow],
        vector: Vector,
        chains: dict[int, bytes],
        clock_ms: int,
    ) -> None:
        self.position: Final = position
        self.rows: Final = rows
        self.vector: Final = vector
        self.chains: Final = chains
        self.clock_ms: Final = clock_ms
        # Meta rows to store in the same transaction: life, recovery, lost members.
        self.meta: dict[str, bytes] = {}
