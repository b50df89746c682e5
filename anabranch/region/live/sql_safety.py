"""Connections to files that may come from somebody else, and what is strange in these files.

A cursor of `WholeCursor` leaves no statement active.

A file of SQLite holds more than rows: triggers, views and expressions, which run when the tables
are used. `storage.schema_check` finds them, and the settings here let them reach nothing.
"""

from __future__ import annotations

import sqlite3
from typing import Any, Final

from anabranch.region.storage import schema_check

# Functions with effects outside of the database do not run from its schema, and damaged pages are
# noticed. Both hold for one connection.
PRAGMAS: Final = ["PRAGMA trusted_schema=OFF", "PRAGMA cell_size_check=ON"]


class WholeCursor(sqlite3.Cursor):
    """A cursor that closes when its rows were fetched, or could not be.

    A statement that breaks off in the midst of its rows stays active, and with it what the
    connection sees of the file. All later reads would find the log as it was then.
    """

    def fetchall(self) -> list[Any]:
        try:
            return super().fetchall()
        finally:
            self.close()


def defend(connection: sqlite3.Connection) -> None:
    """Makes a connection defensive: no SQL of the file corrupts it or reaches beyond it."""
    for pragma in PRAGMAS:
        connection.execute(pragma)
    # Python 3.12 has the switch of SQLite that forbids writing to its own tables.
    configure = getattr(connection, "setconfig", None)
    if configure is not None:
        configure(sqlite3.SQLITE_DBCONFIG_DEFENSIVE, True)  # type: ignore[attr-defined]


def strange_schema(connection: sqlite3.Connection) -> str:
    """What the schema of a database has that no region makes, in words; empty if nothing."""
    objects = connection.execute(schema_check.OBJECTS).fetchall()
    columns = {
        str(name): connection.execute(schema_check.COLUMNS, (name,)).fetchall()
        for kind, name, _, _ in objects
        if kind == "table"
    }
    return schema_check.strange(objects, columns)


def refusal(path: object, found: str) -> str:
    """The words with which a file with a strange schema is refused."""
    return (
        f"{path} is not as a region makes it, and is not used: it has {found}. Somebody has changed"
        " it; put another backup back"
    )
