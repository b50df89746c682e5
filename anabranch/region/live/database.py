"""The connections to SQLite (S13.1): they run the SQL of `region.storage`.

This module makes no decisions. One connection writes (`SqlThread`) and one reads (aiosqlite), each
with a thread of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, Optional

from anabranch.crdt.encoding import Malformed, Reader
from anabranch.crdt.idempotency import PairLimits
from anabranch.crdt.region_log import NodeLimits
from anabranch.crdt.vector import raise_to
from anabranch.region.driver.work import LogQuestion
from anabranch.region.engine.errors import Damaged, StorageError
from anabranch.region.engine.rows import SnapshotRow
from anabranch.region.live.data_files import DataFiles
from anabranch.region.live.log_answers import LogAnswers
from anabranch.region.live.sql_connections import (
    Connector,
    LiveConnector,
    SqlReader,
    SqlWriter,
    require_thread,
)
from anabranch.region.live.sql_errors import storage_error
from anabranch.region.storage import loading, log, salvage, schema
from anabranch.region.storage.key_loading import load_keys
from anabranch.region.storage.loading import Stored
from anabranch.region.storage.log import LogSize

FILE_NAME: Final = "region.sqlite"
# Bytes of bodies that a start, and a search for damage, read at once.
_READ_BYTES: Final = 4 << 20
_CHECK: Final = "PRAGMA integrity_check(3)"
_IS_SOUND: Final = "ok"


Written = Callable[[Optional[BaseException]], None]
"""Takes the error of a write: None if the statements are on disk."""


class Database:
    """One region's database.

    Methods raise `StorageError` when the file cannot be opened, read or written, or when its
    contents are invalid, and its subclass `Damaged` when bytes have changed. Without `files` there
    are no checks of the files as such: a file that was put back is not recognised, as after a
    rollback of the whole volume.
    """

    def __init__(
        self,
        directory: Path,
        connector: Optional[Connector] = None,
        files: Optional[DataFiles] = None,
    ) -> None:
        self.path: Final = directory / FILE_NAME
        # What is damaged in the write-ahead log as it was found; empty if it was sound.
        self.wal_damage = ""
        self._connector: Final = connector or LiveConnector()
        self._files: Final = files
        # How the open files are no longer those at their paths; empty if they are.
        self._lost = ""
        self._writer: Optional[SqlWriter] = None
        self._reader: Optional[SqlReader] = None
        self.log: Final = LogAnswers(self._read)

    # -- opening

    async def open(self) -> dict[str, bytes]:
        """Opens or creates the file. Returns its meta rows, none for a new file.

        Raises:
            Damaged: The file is no database, or a meta row is damaged.
            StorageError: The file cannot be opened.
        """
        if self._files is not None:
            self.wal_damage = await asyncio.to_thread(self._files.wal_damage)
        try:
            self._writer = await self._connector.writer(self.path)
            for pragma in schema.PRAGMAS:
                await self._writer.execute_fetchall(pragma)
            for table in schema.TABLES:
                await self._writer.execute_fetchall(table)
            await self._upgrade()
            self._reader = await self._connector.reader(self.path)
            rows = list(await self._writer.execute_fetchall("SELECT name, value, sum FROM meta"))
            if not rows and self._files is not None:
                # The file is new, and will be written to, or it has lost its rows.
                await self._check_structure()
            if self._files is not None:
                self._files.opened()
        except (sqlite3.Error, OSError) as error:
            raise storage_error(f"cannot open {self.path}", error) from error
        return loading.read_meta(rows)

    async def open_read_only(self) -> dict[str, bytes]:
        """Opens a file that no region uses, to look at it. Returns its meta rows.

        Raises:
            Damaged: The file is no database, or its structure or a meta row is damaged.
            StorageError: The file cannot be opened.
        """
        try:
            self._reader = await self._connector.reader(self.path)
            self._require_sound(await self._read(_CHECK, ()))
            return loading.read_meta(await self._read("SELECT name, value, sum FROM meta", ()))
        except (sqlite3.Error, OSError) as error:
            raise storage_error(f"cannot open {self.path}", error) from error

    async def damaged_rows(self) -> AsyncIterator[str]:
        """Reads every row of the log and the salvage; yields what is damaged in them, in words.

        `load` reads the other tables whole, but of the log only what a start replays.
        """
        tables = {"log": log.ROWS_AFTER}
        if list(await self._read(salvage.IS_IN_SCHEMA, ())):
            tables["salvage"] = salvage.SALVAGED_AFTER
        for table, sql in tables.items():
            position = 0
            while found := list(await self._read(sql, (_READ_BYTES, position))):
                for columns in found:
                    position = columns[0]
                    try:
                        log.read_row(columns)
                    except (Malformed, AssertionError) as error:
                        yield f"row {position} of the {table} is damaged: {error}"

    async def _upgrade(self) -> None:
        """Brings the tables of an older schema to this one."""
        assert self._writer is not None
        rows = await self._writer.execute_fetchall("SELECT value FROM meta WHERE name = 'schema'")
        for (value,) in rows:
            version = int(value) if bytes(value).isdigit() else schema.SCHEMA_VERSION
            if version in schema.UPGRADES:
                statements = [(sql, ()) for sql in schema.UPGRADES[version]]
                await self.write([*statements, schema.meta("schema", b"%d" % (version + 1))])

    async def _check_structure(self) -> bool:
        """Checks the trees of the whole file; makes the index of the log again if only it is wrong.

        Returns whether it made the index again.

        Raises:
            Damaged: The structure is damaged.
        """
        assert self._writer is not None
        try:
            self._require_sound(await self._writer.execute_fetchall(_CHECK))
        except Damaged:
            await self._writer.execute_fetchall("REINDEX")
            self._require_sound(await self._writer.execute_fetchall(_CHECK))
            return True
        return False

    def _require_sound(self, rows: Iterable[Any]) -> None:
        """Raises Damaged unless these rows, which `_CHECK` returned, say that all is sound."""
        wrong = [str(row[0]) for row in rows]
        if wrong != [_IS_SOUND]:
            raise Damaged(f"the structure of {self.path} is damaged: {'; '.join(wrong)}")

    async def load(
        self,
        meta: dict[str, bytes],
        region_id: int,
        members: list[int],
        limits: NodeLimits,
        pair_limits: PairLimits,
    ) -> Stored:
        """Loads the state as of the last commit, from the checkpoint and the log after it.

        `meta` is the result of `open`, `members` are the ids of all members. The structure of the
        file is checked meanwhile, and nothing is written before that is done.

        Raises:
            Damaged: The structure of the file, or a row of the state, is damaged.
            StorageError: The file cannot be read.
        """
        try:
            stored = await self._load_checkpoint(
                lambda: loading.begin(meta, region_id, limits, pair_limits)
            )
            needless = stored.needless.statements()
            if needless and self._writer is not None:
                await self.write(needless)
            await self._replay(stored)
            rows, size_bytes, effects = next(iter(await self._read(log.SIZE, ())))
        except sqlite3.Error as error:
            raise storage_error(f"cannot read {self.path}", error) from error
        stored.log_size = LogSize(rows, size_bytes, effects)
        self.log.members = members
        floor = meta.get("log_floor")
        if floor is not None:
            try:
                raise_to(stored.log_floor, Reader(floor).vector())
            except Malformed as error:
                raise Damaged(f"log_floor in the database is damaged: {error}") from error
        return stored

    async def _load_checkpoint(self, begin: Callable[[], Stored]) -> Stored:
        """Loads the keys, and checks the structure of the file, side by side.

        SQLite needs no lock of the interpreter while it checks, so on two cores a start takes as
        long as the slower of both. `begin` makes an empty state.
        """

        async def load() -> Stored:
            stored = begin()
            await self._load_keys(stored)
            return stored

        if self._files is None or self._writer is None:
            return await load()
        check = asyncio.create_task(self._check_structure())
        found, made_again = await asyncio.gather(load(), check, return_exceptions=True)
        if isinstance(made_again, BaseException):
            # Whatever was found in a file of wrong structure follows from that.
            raise made_again
        if made_again:
            return await load()
        if isinstance(found, BaseException):
            raise found
        return found

    async def _load_keys(self, stored: Stored) -> None:
        steps = load_keys(stored)
        rows: Any = None
        while True:
            try:
                # A generator that has not begun accepts only `None`.
                sql, parameters = steps.send(rows)
            except StopIteration:
                return
            rows = await self._read(sql, parameters)

    async def _replay(self, stored: Stored) -> None:
        while True:
            found = list(await self._read(log.ROWS_AFTER, (_READ_BYTES, stored.position)))
            if not found:
                return
            for columns in found:
                chunks: list[bytes] = []
                if log.is_snapshot(columns):
                    staged = await self._read(log.STAGED, (columns[0],))
                    chunks = [chunk for (chunk,) in staged]
                try:
                    row = log.read_row(columns, chunks)
                except Malformed as error:
                    raise Damaged(f"row {columns[0]} of the log is damaged: {error}") from error
                loading.replay(stored, row, columns[6])
                if isinstance(row, SnapshotRow):
                    raise_to(stored.log_floor, row.vector)

    def file_identity(self) -> bytes:
        """The identity of the open file; empty if it is not watched."""
        if self._files is None:
            return b""
        try:
            return self._files.identity()
        except OSError as error:
            raise StorageError(f"cannot reach {self.path}: {error.strerror}") from error

    def has_lost_files(self) -> bool:
        """Looks whether the files were removed or replaced. If they were, `write` fails."""
        if self._files is not None:
            self._lost = self._files.lost()
        return bool(self._lost)

    def require_threads(self) -> None:
        """RuntimeError if the thread of a connection has ended: nobody would answer any more."""
        for connection in (self._reader, self._writer):
            require_thread(connection)

    def mark(self) -> int:
        """The position in the mark: the log on disk had once reached it."""
        return 0 if self._files is None else self._files.read_mark()

    def set_mark(self, position: int) -> None:
        """Notes beside the database that the log on disk reaches `position`."""
        if self._files is not None:
            self._files.write_mark(position)

    async def close(self) -> None:
        for connection in (self._reader, self._writer):
            if connection is not None:
                await connection.close()
        self._reader = self._writer = None
        if self._files is not None:
            self._files.close()

    async def drop_caches(self) -> None:
        """Frees the pages of the file that are kept in memory; those that are needed come again."""
        for connection in (self._reader, self._writer):
            if connection is not None:
                with contextlib.suppress(sqlite3.Error):  # then they are kept
                    await connection.execute_fetchall("PRAGMA shrink_memory")

    async def has_salvage(self) -> bool:
        """Whether a recovery has blocks of a damaged log to merge (`region.storage.salvage`)."""
        try:
            return bool(next(iter(await self._read(salvage.HAS_SALVAGE, ())))[0])
        except sqlite3.Error as error:
            raise storage_error(f"cannot read {self.path}", error) from error

    async def salvage_figures(self, own: int) -> tuple[int, int]:
        """The number of blocks in the salvage, and the highest counter of the effects of `own`.

        Raises:
            StorageError: The file cannot be read.
        """
        try:
            ((blocks, last),) = await self._read(salvage.FIGURES, (own,))
        except sqlite3.Error as error:
            raise storage_error(f"cannot read {self.path}", error) from error
        return blocks, last

    async def gaps(self) -> list[log.Gap]:
        """The effects that are in no block of the log, although later ones are.

        Raises:
            Damaged: The row of a joined snapshot is damaged.
            StorageError: The file cannot be read.
        """
        try:
            jumps = await self._read(log.JUMPS, ())
            rows = [log.read_row(columns) for columns in await self._read(log.SNAPSHOTS, ())]
        except Malformed as error:
            raise Damaged(f"a row of the log is damaged: {error}") from error
        except sqlite3.Error as error:
            raise storage_error(f"cannot read {self.path}", error) from error
        return log.gaps(jumps, [row for row in rows if isinstance(row, SnapshotRow)])

    # -- writing

    async def write(self, statements: Sequence[schema.Statement]) -> None:
        """Runs the statements in one transaction.

        Raises:
            StorageError: The transaction failed, and none of its statements took effect. So do all
                while no start would find what they write (`has_lost_files`).
        """
        if self._lost:
            raise StorageError(self._lost)
        writer = self._writer
        assert writer is not None
        try:
            await writer.transact(_grouped(statements))
        except sqlite3.Error as error:
            raise StorageError(str(error)) from error

    def begin_write(self, statements: Sequence[schema.Statement], done: Written) -> None:
        """Runs the statements in one transaction, as `write` does, and then calls `done`."""
        if self._lost:
            done(StorageError(self._lost))
            return
        writer = self._writer
        assert writer is not None

        def ended(_result: object, error: Optional[BaseException]) -> None:
            done(StorageError(str(error)) if isinstance(error, sqlite3.Error) else error)

        writer.begin_transaction(_grouped(statements), ended)

    # -- reading

    async def _read(self, sql: str, parameters: tuple[object, ...]) -> Any:
        reader = self._reader
        assert reader is not None
        return await reader.execute_fetchall(sql, parameters)

    async def answer(self, request: LogQuestion) -> Any:
        """Answers a request to the log. The class of the request decides the type of the answer.

        Raises:
            Damaged: A row that the answer needs is damaged.
        """
        try:
            return await self.log.answer(request)
        except Malformed as error:
            raise Damaged(f"a row of the log is damaged: {error}") from error
        except sqlite3.Error as error:
            raise storage_error("the log", error) from error


def _grouped(statements: Sequence[schema.Statement]) -> list[tuple[str, list[tuple[object, ...]]]]:
    """Groups consecutive statements of equal SQL, each of which SQLite then prepares once."""
    groups: list[tuple[str, list[tuple[object, ...]]]] = []
    for sql, parameters in statements:
        if groups and groups[-1][0] == sql:
            groups[-1][1].append(parameters)
        else:
            groups.append((sql, [parameters]))
    return groups
