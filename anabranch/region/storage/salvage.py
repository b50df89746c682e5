"""The salvage: blocks of a damaged effect log, which a rebuilt region merges in its recovery.

Theory of operation
-------------------
`anabranch repair` moves a damaged database aside. Its effect log may hold effects of this region
that no other region has. The log as a whole is what a peer would send (S2.1): blocks in an order
that extends causality. So the sound blocks are copied, in order, to the table `salvage` of the new
database, and the recovery merges those that its vector lacks, as if a peer had sent them. A region
that was put back to a backup with these blocks would hold them as well (S13.7).

An **item** is a block, or a *gap*: a demand to hold the effects of a region up to a counter, which
something unreadable in the log had brought. No item after a gap is merged before it is covered.
Gaps are stored as blocks without a body.

- Rows that retention dropped, and snapshots, are demanded by the floor of the log (S2.6).
- A damaged row is demanded by its entry in the index of the log, which SQLite keeps in pages of its
  own. A row that the index does not list is no block.
- If the index cannot be read or contradicts a sound row, a damaged row could be anything: the gap
  is `UNKNOWN`, which nothing covers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from anabranch.crdt.block import NO_CHAIN, Block
from anabranch.crdt.encoding import Malformed
from anabranch.crdt.vector import Vector
from anabranch.region.engine.rows import BlockRow, LogRow
from anabranch.region.storage import sums
from anabranch.region.storage.log import COLUMNS, bounded, read_row

UNKNOWN: Final = 1 << 62
"""The counter of a gap of unknown contents."""

SALVAGED_AFTER: Final = bounded("salvage", "position > ?2")
HAS_SALVAGE: Final = "SELECT EXISTS (SELECT 1 FROM salvage)"
# Former builds made no table `salvage`.
IS_IN_SCHEMA: Final = "SELECT 1 FROM sqlite_master WHERE name = 'salvage'"
# (the region's id) → the number of blocks, and the highest counter of the region's own effects.
FIGURES: Final = (
    "SELECT COUNT(*), COALESCE(MAX(CASE origin WHEN ? THEN last END), 0)"
    " FROM salvage WHERE LENGTH(body) > 0"
)
INSERT_ITEM: Final = f"INSERT INTO salvage ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"

# (position, origin, last): an entry of the index of the log.
IndexEntry = tuple[int, int, int]


@dataclass(frozen=True)
class ReadSalvage:
    """A request for the items after number `position`, about `bytes_max` bytes of them."""

    position: int
    bytes_max: int


def gap(origin: int, last: int) -> Block:
    """The demand to hold the effects of `origin` up to the counter `last`."""
    return Block(origin, last, last, b"", NO_CHAIN)


def is_gap(block: Block) -> bool:
    """Whether an item is a gap."""
    return not block.body


def item_columns(number: int, block: Block) -> tuple[object, ...]:
    """The parameters of `INSERT_ITEM` for an item. Numbers ascend from 1 without gaps."""
    numbers = (number, block.origin, block.first, block.last, 0, 0)
    return (*numbers, block.chain, block.body, sums.of_log(*numbers, block.chain, block.body))


def sound_row(columns: Sequence[object]) -> LogRow | None:
    """The row of these COLUMNS; None if it is damaged."""
    try:
        return read_row(columns)
    except (Malformed, AssertionError):
        return None


def fits(rows: Iterable[LogRow], index: Iterable[IndexEntry]) -> bool:
    """Whether the index lists exactly the blocks among the sound rows, and possibly others.

    Both ascend by position.
    """
    entries = iter(index)
    entry = next(entries, None)
    for row in rows:
        while entry is not None and entry[0] < row.position:
            entry = next(entries, None)
        listed = entry if entry is not None and entry[0] == row.position else None
        found = None
        if isinstance(row, BlockRow):
            found = (row.position, row.block.origin, row.block.last)
        if listed != found:
            return False
    return all(entry[1] > 0 for entry in entries)


def items_by_index(rows: Iterable[LogRow], index: Iterable[IndexEntry]) -> Iterator[Block]:
    """The blocks of the sound rows, with a gap for each block that the index lists beside them."""
    blocks = _blocks_of(rows)
    block = next(blocks, None)
    for position, origin, last in index:
        if block is not None and block.position == position:
            yield block.block
            block = next(blocks, None)
        else:
            yield gap(origin, last)


def _blocks_of(rows: Iterable[LogRow]) -> Iterator[BlockRow]:
    # A function, because mypyc would make a list of a generator expression.
    for row in rows:
        if isinstance(row, BlockRow):
            yield row


def items_without_index(rows: Iterable[LogRow], own: int) -> Iterator[Block]:
    """The blocks of the sound rows, with an unknown gap where a position is missing."""
    expected = 1
    for row in rows:
        if row.position != expected:
            yield gap(own, UNKNOWN)
        expected = row.position + 1
        if isinstance(row, BlockRow):
            yield row.block


def floor_items(floor: Vector) -> Iterator[Block]:
    """The gaps that stand for everything that the log no longer holds."""
    for origin, counter in sorted(floor.items()):
        yield gap(origin, counter)
