"""Transactions in SQLite or PostgreSQL, with one interface.

Each region has its own database: a file of SQLite, or a schema in a PostgreSQL database. Every
transaction is serializable. One that the database cannot serialize runs again.

SQL is written with `?` for parameters.
"""

from __future__ import annotations

import random
import re
import sqlite3
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    import psycopg

ATTEMPTS_MAX = 50
BUSY_PATIENCE_S = 30.0
SQLITE_PREFIX = "sqlite:"
POSTGRES_PREFIXES = ("postgresql://", "postgres://")

Row = tuple[Any, ...]
T = TypeVar("T")


class DatabaseError(Exception):
    """The database cannot be used. The text says why, and what to do."""


class Conflict(DatabaseError):
    """A transaction could not be serialized with others, in `ATTEMPTS_MAX` attempts."""


class Transaction(Protocol):
    """The statements of one open transaction."""

    def rows(self, sql: str, parameters: Sequence[object] = ()) -> list[Row]:
        """The rows that a statement returns."""

    def write(self, sql: str, parameters: Sequence[object] = ()) -> None:
        """Runs a statement that returns nothing."""

    def write_many(self, sql: str, parameters: Sequence[Sequence[object]]) -> None:
        """Runs a statement once for each row of parameters."""


class Database(Protocol):
    """The database of one region."""

    # The type of a column of numbers that the database assigns, and never assigns twice.
    identity_type: str

    def run(self, work: Callable[[Transaction], T]) -> T:
        """Runs `work` in one serializable transaction, and returns its result once committed.

        If `work` raises, the transaction rolls back. If the database cannot serialize it, it rolls
        back and `work` runs again, so `work` must change nothing outside the transaction.

        Raises:
            Conflict: `ATTEMPTS_MAX` attempts could not be serialized.
        """

    def close(self) -> None:
        """Closes the connection."""


def open_database(url: str, region: str, *, is_new: bool = False) -> Database:
    """The database of one region; its tables may not exist yet (`tables.create`).

    Arguments:
        url: ``sqlite:DIRECTORY``, or a URL that begins with ``postgresql://``.
        region: Names the file in the directory, or the schema.
        is_new: Whether the file is made if it is missing.

    Raises:
        DatabaseError: The URL is neither, the file or psycopg is missing, or the server refuses.
    """
    if url.startswith(SQLITE_PREFIX) and url != SQLITE_PREFIX:
        path = Path(url.removeprefix(SQLITE_PREFIX), f"{region}.sqlite")
        if not is_new and not path.exists():
            raise DatabaseError(
                f"there is no {path.absolute()}: give the --database of a run, {SQLITE_PREFIX}"
                "and the directory that holds its databases"
            )
        return SqliteDatabase(path)
    if url.startswith(POSTGRES_PREFIXES):
        return PostgresDatabase(url, schema(region))
    raise DatabaseError(f"no such database: {url}; give {SQLITE_PREFIX}DIRECTORY or postgresql://…")


def schema(region: str) -> str:
    """The name of the PostgreSQL schema of a region."""
    return "rocket_rides_" + re.sub(r"[^a-z0-9_]", "_", region.lower())


def _pause(attempt: int) -> None:
    time.sleep(random.uniform(0, min(0.001 * 2**attempt, 0.1)))


class _SqliteTransaction:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def rows(self, sql: str, parameters: Sequence[object] = ()) -> list[Row]:
        return self._connection.execute(sql, parameters).fetchall()

    def write(self, sql: str, parameters: Sequence[object] = ()) -> None:
        self._connection.execute(sql, parameters)

    def write_many(self, sql: str, parameters: Sequence[Sequence[object]]) -> None:
        self._connection.executemany(sql, parameters)


class SqliteDatabase:
    """One file. A transaction takes the write lock at its beginning, so it is serializable."""

    identity_type = "INTEGER PRIMARY KEY AUTOINCREMENT"

    def __init__(self, path: Path) -> None:
        try:
            self._connection = sqlite3.connect(path, timeout=BUSY_PATIENCE_S, isolation_level=None)
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = FULL")
        except sqlite3.Error as error:
            raise DatabaseError(f"{path}: {error}") from None

    def run(self, work: Callable[[Transaction], T]) -> T:
        """See `Database.run`. The lock is waited for, so there is one attempt."""
        try:
            self._connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            raise Conflict(f"SQLite: {error}") from error
        try:
            result = work(_SqliteTransaction(self._connection))
            self._connection.execute("COMMIT")
        except BaseException:
            # SQLite rolls back by itself after some errors, for example on a full disk.
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise
        return result

    def close(self) -> None:
        """Closes the connection."""
        self._connection.close()


class _PostgresTransaction:
    def __init__(self, connection: psycopg.Connection[Row]) -> None:
        self._connection = connection

    def rows(self, sql: str, parameters: Sequence[object] = ()) -> list[Row]:
        return self._connection.execute(_dialect(sql), parameters).fetchall()

    def write(self, sql: str, parameters: Sequence[object] = ()) -> None:
        self._connection.execute(_dialect(sql), parameters)

    def write_many(self, sql: str, parameters: Sequence[Sequence[object]]) -> None:
        with self._connection.cursor() as cursor:
            cursor.executemany(_dialect(sql), parameters)


def _dialect(sql: str) -> bytes:
    return sql.replace("?", "%s").encode()


class PostgresDatabase:
    """One schema of a PostgreSQL database, at the isolation level SERIALIZABLE."""

    identity_type = "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY"

    def __init__(self, url: str, name: str) -> None:
        try:
            import psycopg
        except ImportError:
            raise DatabaseError("PostgreSQL needs psycopg: pip install 'psycopg[binary]'") from None
        try:
            self._connection = psycopg.connect(url, autocommit=True)
        except psycopg.OperationalError as error:
            raise DatabaseError(f"PostgreSQL: {error}") from error
        self._retried = (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected)
        self._connection.execute(f"SET search_path TO {name}".encode())
        self._connection.isolation_level = psycopg.IsolationLevel.SERIALIZABLE

    def run(self, work: Callable[[Transaction], T]) -> T:
        """See `Database.run`."""
        for attempt in range(ATTEMPTS_MAX):
            try:
                with self._connection.transaction():
                    return work(_PostgresTransaction(self._connection))
            except self._retried as error:
                last = error
                _pause(attempt)
        raise Conflict(f"PostgreSQL: {last}") from last

    def close(self) -> None:
        """Closes the connection."""
        self._connection.close()
