"""Reads what is sound in the effect log of a damaged database, for the salvage (`repair`).

SQLite may fail in the middle of a damaged table. Reading then goes on behind the place.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from typing import Final

from anabranch.crdt.block import Block
from anabranch.crdt.encoding import Malformed, Reader
from anabranch.crdt.vector import Vector
from anabranch.region.engine.errors import Damaged
from anabranch.region.engine.rows import LogRow
from anabranch.region.storage import loading, log, salvage
from anabranch.region.storage.salvage import IndexEntry, gap, is_gap
from anabranch.region.storage.schema import IDENTITY_ROWS, STATE_ROWS

# Behind a place that cannot be read, so many positions are tried one by one, as a page holds few
# rows. After them the distance doubles.
_SINGLE_STEPS: Final = 1000

_OTHER_ROWS: Final = frozenset((*IDENTITY_ROWS, *STATE_ROWS))
_META: Final = "SELECT name, value, sum FROM meta"
_INDEX: Final = (
    "SELECT position, origin, last FROM log INDEXED BY log_by_origin"
    " WHERE origin > 0 ORDER BY position"
)
_FIRST: Final = "SELECT position FROM log ORDER BY position LIMIT 1"
_HAS_STAGED: Final = "SELECT EXISTS (SELECT 1 FROM staged)"


class Salvaged:
    """The figures of a salvage, for operators.

    `blocks` is the number of blocks from the log, `carried` the number of those that a former
    repair had kept. `last` is the highest counter of the region's own effects in both,
    `unreadable` the number of places that could not be read.
    """

    def __init__(self) -> None:
        self.blocks = 0
        self.carried = 0
        self.last = 0
        self.unreadable = 0


class DamagedLog:
    """The log in a damaged database. `own` is the region_id of its region."""

    def __init__(self, database: sqlite3.Connection, own: int) -> None:
        self._database: Final = database
        self._own: Final = own

    def copy_to(self, target: sqlite3.Connection) -> Salvaged:
        """Writes the items of the salvage into the table of another database; returns figures.

        Raises:
            sqlite3.Error: They cannot be written.
        """
        figures = Salvaged()
        target.executemany(
            salvage.INSERT_ITEM,
            (
                salvage.item_columns(number, block)
                for number, block in enumerate(self._counted(figures), 1)
            ),
        )
        return figures

    def _counted(self, figures: Salvaged) -> Iterator[Block]:
        yield from self._floor()
        for block in self._items():
            if is_gap(block):
                figures.unreadable += 1
            else:
                figures.blocks += 1
                self._count_own(figures, block)
            yield block
        # A database that is damaged before the end of a recovery has a salvage of its own.
        for block in salvage.items_without_index(self._sound_rows("salvage"), self._own):
            if not is_gap(block):
                figures.carried += 1
                self._count_own(figures, block)
            elif block.last == salvage.UNKNOWN:
                # The other gaps were counted by the former repair, or are the floor of its log.
                figures.unreadable += 1
            yield block

    def _count_own(self, figures: Salvaged, block: Block) -> None:
        if block.origin == self._own:
            figures.last = max(figures.last, block.last)

    # -- the parts of the log

    def _items(self) -> Iterator[Block]:
        try:
            is_whole = salvage.fits(self._sound_rows("log"), self._index())
        except sqlite3.Error:
            is_whole = False
        if is_whole:
            return salvage.items_by_index(self._sound_rows("log"), self._index())
        return salvage.items_without_index(self._sound_rows("log"), self._own)

    def _index(self) -> Iterator[IndexEntry]:
        return iter(self._database.execute(_INDEX))

    def _sound_rows(self, table: str) -> Iterator[LogRow]:
        """The sound rows of a table, by ascending position."""
        sql = f"SELECT {log.COLUMNS} FROM {table} WHERE position > ? ORDER BY position"
        after, step = 0, 0
        while after + step < salvage.UNKNOWN:
            try:
                for columns in self._database.execute(sql, (after + step,)):
                    row = salvage.sound_row(columns)
                    if row is not None:
                        after, step = row.position, 0
                        yield row
                return
            except sqlite3.Error:
                step = step + 1 if step < _SINGLE_STEPS else step * 2

    def _floor(self) -> Iterable[Block]:
        """The demands for everything that the log no longer holds (S2.6)."""
        try:
            floor = {} if self._is_complete() else self._stored_floor()
        except (sqlite3.Error, Damaged, Malformed):
            return [gap(self._own, salvage.UNKNOWN)]
        return salvage.floor_items(floor)

    def _is_complete(self) -> bool:
        """Whether no row was ever dropped, and no snapshot joined."""
        first: object = self._database.execute(_FIRST).fetchone()
        has_staged: object = self._database.execute(_HAS_STAGED).fetchone()
        return first == (1,) and has_staged == (0,)

    def _stored_floor(self) -> Vector:
        """The floor as stored, empty if none was; Damaged if it, or a row of no known name, is."""
        rows = self._database.execute(_META).fetchall()
        meta = loading.read_meta(row for row in rows if row[0] not in _OTHER_ROWS)
        return Reader(meta["log_floor"]).vector() if "log_floor" in meta else {}
