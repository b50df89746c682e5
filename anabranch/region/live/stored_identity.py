"""The identity of the region in a data directory, read without changing the directory.

A start reads it before it opens the database for writing, so that the database of another program
is refused untouched.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final, Optional

from anabranch.region.engine.errors import Damaged, StorageError
from anabranch.region.live.data_files import MARK_NAME, read_only_uri
from anabranch.region.live.database import FILE_NAME
from anabranch.region.live.sql_safety import defend, refusal, strange_schema
from anabranch.region.option_values import ConfigError, parse_members
from anabranch.region.storage.schema import IDENTITY_ROWS


class StoredIdentity:
    """The identity that a data directory has kept since the first start (S1.1)."""

    def __init__(self, cluster: str, name: str, region_id: int, members: dict[str, int]) -> None:
        self.cluster: Final = cluster
        self.name: Final = name
        self.region_id: Final = region_id
        # Region name → region_id, this region included.
        self.members: Final = members


def read_identity(directory: Path) -> Optional[StoredIdentity]:
    """The identity in a data directory; None if it has no database, or one without contents.

    Raises:
        StorageError: The database cannot be read, or is not that of a region.
        Damaged: It was one, as the mark beside it shows, and cannot be read; or its schema has what
            no region makes.
    """
    path = directory / FILE_NAME
    if not path.exists():
        return None
    try:
        with closing(_opened(path)) as connection:
            tables = {str(name) for (name,) in connection.execute(_TABLES)}
            if not tables:
                return None
            if "meta" not in tables and not (directory / MARK_NAME).exists():
                raise StorageError(_foreign(path, f"it has the tables {_some(tables)}"))
            if "meta" not in tables:
                raise Damaged(f"{path} is damaged: it has no table meta")
            rows = dict(connection.execute("SELECT name, value FROM meta"))
            found = strange_schema(connection) if "log" in tables else ""
    except sqlite3.Error as error:
        if (directory / MARK_NAME).exists():
            raise Damaged(f"{path} is damaged: {error}") from error
        if "no such column" in str(error) or "not a database" in str(error):
            raise StorageError(_foreign(path, str(error))) from error
        raise StorageError(f"cannot read {path}: {error}") from error
    if found and (not rows or "schema" in rows):
        raise Damaged(refusal(path, found))
    if not rows and "log" in tables:
        return None  # The first start ended between its two transactions.
    try:
        _, cluster, name, region_id, members = (bytes(rows[row]).decode() for row in IDENTITY_ROWS)
        return StoredIdentity(cluster, name, int(region_id), parse_members(members))
    except (KeyError, TypeError, ValueError, ConfigError) as error:
        if "schema" in rows or (directory / MARK_NAME).exists():
            raise Damaged(f"the identity in {path} is damaged: {error!r}") from error
        raise StorageError(_foreign(path, "its table meta names no region")) from None


def check_writable(directory: Path) -> None:
    """StorageError, with the path, if this process may not write the database."""
    files = [directory / (FILE_NAME + suffix) for suffix in ("", "-wal", "-shm")]
    for path in (directory, *files):
        if path.exists() and not os.access(path, os.W_OK):
            raise StorageError(
                f"{path} is read-only for this process (user id {os.geteuid()}):"
                " a region must be able to write it"
            )


_TABLES: Final = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')"


def _opened(path: Path) -> sqlite3.Connection:
    """A connection that writes nothing; sqlite3.Error if the file is no database.

    Without a write-ahead log the file is complete. Opened as immutable, it gets no files beside it.
    """
    log = path.with_name(path.name + "-wal")
    is_whole = not (log.exists() and log.stat().st_size)
    uri = read_only_uri(path) + ("&immutable=1" if is_whole else "")
    connection = sqlite3.connect(uri, uri=True)
    try:
        defend(connection)
        connection.execute("PRAGMA schema_version")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _foreign(path: Path, reason: str) -> str:
    return (
        f"{path} is not the database of a region, and is left as it is ({reason}):"
        " give another --data"
    )


def _some(tables: set[str]) -> str:
    names = sorted(tables)
    return ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
