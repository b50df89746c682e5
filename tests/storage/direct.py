"""The real `Database` on a plain sqlite3 connection in memory.

Its coroutines never wait, so a test runs them to their end without an event loop.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Optional

from anabranch.crdt.vector import Vector
from anabranch.region.live.database import Database
from anabranch.region.live.sql_thread import Done, Group, transact
from anabranch.region.storage import schema
from anabranch.sim.world.vfs import run
from anabranch.sync.session.log_reader import LogReader
from anabranch.sync.session.log_requests import Locate
from anabranch.sync.session.log_tail import LogTail


class Connection:
    """The methods of a connection that `Database` uses."""

    def __init__(self, plain: sqlite3.Connection) -> None:
        self.plain = plain

    async def execute_fetchall(self, sql: str, parameters: tuple[object, ...] = ()) -> list[Any]:
        return self.plain.execute(sql, parameters).fetchall()

    async def transact(self, groups: Sequence[Group]) -> None:
        transact(self.plain, groups)

    def begin_transaction(self, groups: Sequence[Group], done: Done) -> None:
        error: Optional[sqlite3.Error] = None
        try:
            transact(self.plain, groups)
        except sqlite3.Error as found:
            error = found
        done(None, error)

    async def close(self) -> None:
        pass


def new_disk() -> sqlite3.Connection:
    disk = sqlite3.connect(":memory:", isolation_level=None)
    for table in schema.TABLES:
        disk.execute(table)
    return disk


def copy_of(disk: sqlite3.Connection) -> sqlite3.Connection:
    """A copy of the disk as a crash would leave it now."""
    twin = sqlite3.connect(":memory:", isolation_level=None)
    disk.backup(twin)
    return twin


class DirectDatabase(Database):
    """A `Database` on `disk`, which outlives it as a file does."""

    def __init__(self, disk: sqlite3.Connection) -> None:
        super().__init__(Path("memory"))
        self.disk = disk

    async def open(self) -> dict[str, bytes]:
        self._writer = self._reader = Connection(self.disk)
        return {
            name: bytes(value) for name, value in self.disk.execute("SELECT name, value FROM meta")
        }


def position_for(
    database: Database, tail: LogTail, vector: Vector, meanwhile: Callable[[], None] = lambda: None
) -> int | None:
    """The position from which a peer that holds `vector` reads; None: the peer needs a snapshot.

    `meanwhile` happens after the database answered and before the sender gets the answer.
    """
    reader = LogReader(tail, 1000)
    reader.locate()
    request = reader.request(vector, vector, False)
    assert isinstance(request, Locate)
    position = run(database.answer(request))
    meanwhile()
    return reader.cursor if reader.located(request, position) else None
