"""Rows of the effect log, and commits, which are runs of them (S13.1).

A row is one of four kinds, each a class of its own. Positions number the rows: 1, 2, 3 and so on.
"""

from __future__ import annotations

from typing import Final

from anabranch.crdt.block import Block
from anabranch.crdt.vector import Vector


class Row:
    """What all kinds have: `clock_ms` is the region's clock when the row was made (S10.2)."""

    def __init__(self, position: int, clock_ms: int) -> None:
        self.position: Final = position
        self.clock_ms: Final = clock_ms


class BlockRow(Row):
    """A block. `source` is 0 for one that this region issued, else the peer it was merged from."""

    def __init__(self, position: int, clock_ms: int, block: Block, source: int) -> None:
        super().__init__(position, clock_ms)
        self.block: Final = block
        self.source: Final = source


class RecordsRow(Row):
    """Local records, encoded one after the other. They arose while the block before was open."""

    def __init__(self, position: int, clock_ms: int, records: bytes) -> None:
        super().__init__(position, clock_ms)
        self.records: Final = records


class SnapshotRow(Row):
    """A snapshot of `source` was joined here (S11.2). Its chunks are stored, so that a start can join it again."""

    def __init__(
        self, position: int, clock_ms: int, source: int, vector: Vector, chunks: list[bytes]
    ) -> None:
        super().__init__(position, clock_ms)
        self.source: Final = source
        self.vector: Final = vector
        self.chunks: Final = chunks


class ClockRow(Row):
    """Nothing but the clock, which it carries to the disk."""


class Commit:
    """Rows to write in one transaction, and what is on disk once they are."""

    def __init__(
        self,
        position: int,
        rows: list[Row],
        vector: Vector,
        chains: dict[int, bytes],
        clock_ms: int,
    ) -> None:
        self.position: Final = position
        self.rows: Final = rows
        self.vector: Final = vector
        self.chains: Final = chains
        self.clock_ms: Final = clock_ms
        # Facts of identity to store besides: life, recovery, lost members.
        self.meta: dict[str, bytes] = {}
