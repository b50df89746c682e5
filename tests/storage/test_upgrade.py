"""A database with an older schema is upgraded at its first start by this release."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from anabranch.region.live.data_files import DataFiles
from anabranch.region.live.database import FILE_NAME, Database
from anabranch.region.storage import schema
from tests.storage.test_damage import state_in
from tests.storage.test_data_files import run_once

ALONE = {"us": 1}


def to_version_1(path: Path) -> None:
    """Gives a database the tables of schema version 1, which had no column `sum`."""
    with closing(sqlite3.connect(path)) as database, database:
        for table in ("meta", "log", "staged", "key_state", "part", "node"):
            (sql,) = database.execute(
                "SELECT sql FROM sqlite_master WHERE name = ?", (table,)
            ).fetchone()
            names = [row[1] for row in database.execute(f"PRAGMA table_info({table})")][:-1]
            database.execute(f"ALTER TABLE {table} RENAME TO former")
            former = sql.replace(", sum INTEGER", "")
            assert former != sql
            database.execute(former)
            columns = ", ".join(names)
            database.execute(f"INSERT INTO {table} ({columns}) SELECT {columns} FROM former")
            database.execute("DROP TABLE former")
        database.execute("UPDATE meta SET value = x'31' WHERE name = 'schema'")
        database.execute("DELETE FROM meta WHERE name IN ('file', 'restored')")
        for table in schema.TABLES:
            database.execute(table)  # The index went with the renamed table.


async def test_version_1_is_upgraded_with_all_that_it_holds(tmp_path: Path) -> None:
    await run_once(tmp_path, members=ALONE)
    whole = await state_in(tmp_path)
    to_version_1(tmp_path / FILE_NAME)
    assert await state_in(tmp_path) == whole
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as database:
        meta = dict(database.execute("SELECT name, value FROM meta"))
        assert int(meta["schema"]) == schema.SCHEMA_VERSION
        (unchecked,) = database.execute("SELECT COUNT(*) FROM log WHERE sum IS NULL").fetchone()
    assert unchecked > 0, "rows of the former release have no checksum"
    await run_once(tmp_path, members=ALONE)
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as database:
        (checked,) = database.execute("SELECT COUNT(*) FROM log WHERE sum IS NOT NULL").fetchone()
    assert checked > 0, "new rows have one"


async def test_an_upgrade_that_was_interrupted_has_changed_nothing(tmp_path: Path) -> None:
    """All statements of an upgrade are one transaction."""
    await run_once(tmp_path, members=ALONE)
    to_version_1(tmp_path / FILE_NAME)

    class Dies(Database):
        async def write(self, statements: list[schema.Statement]) -> None:  # type: ignore[override]
            await super().write([*statements, ("INSERT INTO nowhere VALUES (1)", ())])

    database = Dies(tmp_path, files=DataFiles(tmp_path / FILE_NAME))
    try:
        await database.open()
    except Exception as error:
        assert "nowhere" in str(error)
    else:
        raise AssertionError("it did not die")
    finally:
        await database.close()
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as plain:
        names = [row[1] for row in plain.execute("PRAGMA table_info(log)")]
        assert "sum" not in names
        assert plain.execute("SELECT value FROM meta WHERE name = 'schema'").fetchone() == (b"1",)
