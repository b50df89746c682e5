"""The connection to SQLite, through aiosqlite (S13.1): runs what `region.storage` says, and reads the log for sync.

One connection writes, crossing to its thread once a commit; one reads. Rows just committed stay in memory for a while, so that a live
peer is served without the disk.
"""

from __future__ import annotations

import sqlite3
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, Final, Optional, Protocol

import aiosqlite

from anabranch.crdt.block import Block
from anabranch.crdt.encoding import Malformed, Reader, put_vector
from anabranch.crdt.idempotency import PairLimits
from anabranch.crdt.region_log import NodeLimits
from anabranch.crdt.vector import Vector, includes, raise_to
from anabranch.region.engine.errors import StorageError
from anabranch.region.engine.rows import BlockRow, Commit, SnapshotRow
from anabranch.region.storage import loading, log, schema
from anabranch.region.storage.loading import Stored

FILE_NAME: Final = "region.sqlite"
_TAIL_BYTES: Final = 2 << 20
_READ_ROWS: Final = 512
_DELETE_ROWS: Final = 2000


class Connection(Protocol):
    """What is used of an aiosqlite connection; sqlite3's errors say what fails."""

    async def execute_fetchall(self, sql: str, parameters: Any = ()) -> Iterable[Any]: ...

    async def executemany(self, sql: str, parameters: Any) -> Any: ...

    async def rollback(self) -> None: ...

    async def close(self) -> None: ...


Connect = Callable[[Path, bool], Awaitable[Connection]]
"""(file, for reading only) → a connection that begins no transaction by itself."""


async def _connect(path: Path, reads_only: bool) -> Connection:
    path.parent.mkdir(parents=True, exist_ok=True)
    connection: Any = await aiosqlite.connect(
        f"file:{path}?mode=ro" if reads_only else path, uri=reads_only, isolation_level=None
    )
    return connection  # type: ignore[no-any-return]


class Database:
    """One region's database; `StorageError` when it cannot be opened or holds what it cannot hold. `connect`: how files are opened."""

    def __init__(self, directory: Path, connect: Connect = _connect) -> None:
        self.path = directory / FILE_NAME
        self._connect = connect
        self.last_position = 0  # committed
        # What a peer must hold for the log to reach back to what it lacks (S2.6).
        self.log_floor: Vector = {}
        self.log_rows = 0
        self.log_bytes = 0
        self.log_effects = 0
        self._origins: list[int] = []
        self._tail: deque[BlockRow] = deque()
        self._tail_bytes = 0
        self._tail_max_bytes = _TAIL_BYTES
        self._writer: Optional[Connection] = None
        self._reader: Optional[Connection] = None

    # -- opening -----------------------------------------------------------------------------------------------------

    async def open(self) -> dict[str, bytes]:
        """Opens or creates the file; its meta rows, empty for a new one."""
        try:
            self._writer = await self._connect(self.path, False)
            for pragma in schema.PRAGMAS:
                await self._writer.execute_fetchall(pragma)
            for table in schema.TABLES:
                await self._writer.execute_fetchall(table)
            self._reader = await self._connect(self.path, True)
            rows = await self._writer.execute_fetchall("SELECT name, value FROM meta")
        except (sqlite3.Error, OSError) as error:
            raise StorageError(f"cannot open {self.path}: {error}") from error
        return {str(name): bytes(value) for name, value in rows}

    async def load(
        self,
        meta: dict[str, bytes],
        region_id: int,
        members: list[int],
        limits: NodeLimits,
        pair_limits: PairLimits,
    ) -> Stored:
        """State as of the last commit: checkpoint and log."""
        try:
            stored = loading.begin(meta, region_id, limits, pair_limits)
            await self._load_keys(stored)
            await self._drop_unfinished(stored)
            await self._replay(stored)
            size = next(iter(await self._read(log.SIZE, ())))
        except sqlite3.Error as error:
            raise StorageError(f"cannot read {self.path}: {error}") from error
        self.log_rows, self.log_bytes, self.log_effects = size
        self._origins = members
        self.last_position = stored.position
        floor = meta.get("log_floor")
        if floor is not None:
            try:
                raise_to(self.log_floor, Reader(floor).vector())
            except Malformed as error:
                raise StorageError(f"log_floor in the database is damaged: {error}") from error
        return stored

    async def _load_keys(self, stored: Stored) -> None:
        keys = list(await self._read("SELECT key, number, cut, position FROM key_state", ()))
        for key, number, cut, position in keys:
            parts = await self._read(
                "SELECT body FROM part WHERE number = ? AND cut = ? ORDER BY part", (number, cut)
            )
            rows = await self._read(
                "SELECT region, node, body FROM node WHERE number = ? AND cut <= ? ORDER BY region, node, cut",
                (number, cut),
            )
            newest: dict[tuple[int, int], Optional[bytes]] = {
                (region_id, node): body for region_id, node, body in rows
            }
            nodes = [
                (region_id, node, body)
                for (region_id, node), body in newest.items()
                if body is not None
            ]
            loading.load_key(stored, key, number, cut, position, [part for (part,) in parts], nodes)

    async def _drop_unfinished(self, stored: Stored) -> None:
        """Drops the rows that a checkpoint wrote and a stop kept from becoming valid: a later one may give their numbers again."""
        statements: list[schema.Statement] = []
        for table in ("part", "node"):
            for number, cut in await self._read(
                f"SELECT number, MAX(cut) FROM {table} GROUP BY number", ()
            ):
                valid = stored.cuts.get(number, -1)
                if cut > valid:
                    statements.append(
                        (f"DELETE FROM {table} WHERE number = ? AND cut > ?", (number, valid))
                    )
        if statements:
            await self.write(statements)

    async def _replay(self, stored: Stored) -> None:
        while True:
            found = list(await self._read(log.ROWS_AFTER, (stored.position, _READ_ROWS)))
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
                    raise StorageError(
                        f"row {columns[0]} of the log is damaged: {error}"
                    ) from error
                loading.replay(stored, row, columns[6])
                if isinstance(row, SnapshotRow):
                    raise_to(self.log_floor, row.vector)

    async def close(self) -> None:
        for connection in (self._reader, self._writer):
            if connection is not None:
                await connection.close()
        self._reader = self._writer = None

    # -- writing -----------------------------------------------------------------------------------------------------

    async def write(self, statements: list[schema.Statement]) -> None:
        """Runs the statements in one transaction; StorageError when it fails, and then nothing of it is there."""
        writer = self._writer
        assert writer is not None
        try:
            if len(statements) == 1:
                await writer.execute_fetchall(*statements[0])
                return
            await writer.execute_fetchall("BEGIN IMMEDIATE")
            try:
                for sql, parameters in _grouped(statements):
                    if len(parameters) == 1:
                        await writer.execute_fetchall(sql, parameters[0])
                    else:
                        await (await writer.executemany(sql, parameters)).close()
                await writer.execute_fetchall("COMMIT")
            except BaseException:
                await writer.rollback()
                raise
        except sqlite3.Error as error:
            raise StorageError(str(error)) from error

    async def commit(self, commit: Commit) -> None:
        """Writes a commit; afterwards it is on disk (synchronous=FULL)."""
        statements = log.commit_statements(commit)
        for row in commit.rows:
            if isinstance(row, SnapshotRow):
                # The log no longer reaches back beyond it (S11.2).
                raise_to(self.log_floor, row.vector)
                statements.append(self._floor())
        if statements:
            await self.write(statements)
        for row in commit.rows:
            self.log_rows += 1
            self.log_bytes += len(log.body_of(row))
            if isinstance(row, BlockRow):
                self.log_effects += row.block.last - row.block.first + 1
                self._tail.append(row)
                self._tail_bytes += len(row.block.body) + 200
            elif isinstance(row, SnapshotRow):
                self._tail.clear()
                self._tail_bytes = 0
        while self._tail_bytes > self._tail_max_bytes and len(self._tail) > 1:
            self._tail_bytes -= len(self._tail.popleft().block.body) + 200
        self.last_position = commit.position

    def _floor(self) -> schema.Statement:
        out = bytearray()
        put_vector(out, self.log_floor)
        return schema.meta("log_floor", bytes(out))

    async def truncate(self, up_to: int, max_bytes: int, max_effects: int) -> None:
        """Drops the oldest rows, at most up to a position, while the log is larger than it may be (S14)."""
        while self.log_bytes > max_bytes or (max_effects and self.log_effects > max_effects):
            oldest = list(await self._read(log.OLDEST, (up_to, _DELETE_ROWS)))
            last = freed_bytes = freed_effects = count = 0
            floor = dict(self.log_floor)
            for position, origin, last_counter, size, effects in oldest:
                if self.log_bytes - freed_bytes <= max_bytes and (
                    not max_effects or self.log_effects - freed_effects <= max_effects
                ):
                    break
                last = position
                freed_bytes += size
                count += 1
                if origin > 0:
                    freed_effects += effects
                    raise_to(floor, {origin: last_counter})
            if count == 0:
                return
            self.log_floor = floor
            await self.write([("DELETE FROM log WHERE position <= ?", (last,)), self._floor()])
            self.log_rows -= count
            self.log_bytes -= freed_bytes
            self.log_effects -= freed_effects
            while self._tail and self._tail[0].position <= last:
                self._tail_bytes -= len(self._tail.popleft().block.body) + 200

    # -- reading for sync --------------------------------------------------------------------------------------------

    async def _read(self, sql: str, parameters: tuple[object, ...]) -> Any:
        reader = self._reader
        assert reader is not None
        return await reader.execute_fetchall(sql, parameters)

    async def rows_after(self, position: int, bytes_max: int) -> list[BlockRow]:
        """Committed block rows after a position, ascending; at least one if there is any."""
        found: list[BlockRow] = []
        size = 0
        if self._tail and position >= self._tail[0].position - 1:
            rows: Any = (row for row in self._tail if row.position > position)
        else:
            rows = (
                log.read_block_row(columns)
                for columns in await self._read(log.BLOCKS_AFTER, (position, _READ_ROWS))
            )
        for row in rows:
            if found and size + len(row.block.body) > bytes_max:
                break
            found.append(row)
            size += len(row.block.body)
        return found

    def reaches_back(self, vector: Vector) -> bool:
        """Whether the log holds every block that `vector` lacks (S2.6)."""
        return includes(vector, self.log_floor)

    async def position_for(self, vector: Vector) -> Optional[int]:
        """A position after which lies every block that `vector` lacks; None when the log no longer reaches back."""
        # The read sees the log at least up to here. More may be committed, or cut off, before it is heard of: so who lacks nothing stands
        # at this end, and whether the log reaches back is asked afterwards.
        committed = self.last_position
        before = next(iter(await self._read(*log.first_lacking(vector, self._origins))))[0]
        if not self.reaches_back(vector):
            return None
        return committed if before is None else int(before)

    async def block_with(self, origin: int, counter: int) -> Optional[Block]:
        """The block that holds that dot."""
        for columns in await self._read(log.BLOCK_WITH, (origin, counter)):
            block = log.read_block_row(columns).block
            if block.first <= counter:
                return block
        return None

    async def chain_at(self, origin: int, counter: int) -> Optional[bytes]:
        """The chain value after the block that ends at that counter; None when it is no longer known."""
        for (chain,) in await self._read(log.CHAIN_AT, (origin, counter)):
            return bytes(chain)
        return None


def _grouped(statements: list[schema.Statement]) -> list[tuple[str, list[tuple[object, ...]]]]:
    """Statements of one text that follow each other, together: each group is one call to the database's thread."""
    groups: list[tuple[str, list[tuple[object, ...]]]] = []
    for sql, parameters in statements:
        if groups and groups[-1][0] == sql:
            groups[-1][1].append(parameters)
        else:
            groups.append((sql, [parameters]))
    return groups
