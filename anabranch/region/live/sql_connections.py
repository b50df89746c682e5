"""Connections to a file of SQLite: what the database needs of them, and those to real files."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Optional, Protocol

import aiosqlite

from anabranch.region.live.data_files import read_only_uri
from anabranch.region.live.sql_safety import PRAGMAS, WholeCursor
from anabranch.region.live.sql_thread import Done, Group, SqlThread


class SqlReader(Protocol):
    """A connection that reads."""

    async def execute_fetchall(self, sql: str, parameters: Any = ...) -> Iterable[Any]: ...

    async def close(self) -> None: ...


class SqlWriter(SqlReader, Protocol):
    """A connection that begins no transaction by itself, as `SqlThread`."""

    async def transact(self, groups: Sequence[Group]) -> None: ...

    def begin_transaction(self, groups: Sequence[Group], done: Done) -> None: ...


def require_thread(connection: Optional[SqlReader]) -> None:
    """RuntimeError if the thread of an open connection has ended, as for want of memory."""
    thread: Any = None
    if isinstance(connection, SqlThread):
        thread = connection.thread
    elif isinstance(connection, aiosqlite.Connection):
        # Of older releases, the connection is the thread.
        thread = getattr(connection, "_thread", connection)
    if thread is not None and not thread.is_alive():
        raise RuntimeError(f"the thread {thread.name} of SQLite has ended")


class Connector(Protocol):
    """Opens connections to a file; the simulator has its own."""

    async def writer(self, path: Path) -> SqlWriter: ...

    async def reader(self, path: Path) -> SqlReader: ...


class _ReadingConnection(sqlite3.Connection):
    """A connection whose cursors are `WholeCursor`."""

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        return self.cursor(WholeCursor).execute(sql, parameters)


class LiveConnector:
    """Opens connections to real files."""

    async def writer(self, path: Path) -> SqlWriter:
        path.parent.mkdir(parents=True, exist_ok=True)
        connection = SqlThread()
        await connection.open(str(path))
        return connection

    async def reader(self, path: Path) -> SqlReader:
        connection = await aiosqlite.connect(
            read_only_uri(path), uri=True, isolation_level=None, factory=_ReadingConnection
        )
        try:
            for pragma in PRAGMAS:
                await connection.execute_fetchall(pragma)
        except BaseException:
            await connection.close()
            raise
        return connection
