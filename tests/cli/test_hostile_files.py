"""T18: files of a region that somebody has changed are refused before they are used."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from anabranch.region.engine.errors import Damaged
from anabranch.region.live import inspection
from anabranch.region.live.database import FILE_NAME, Database
from anabranch.region.live.sql_safety import defend, strange_schema
from anabranch.region.live.stored_identity import read_identity
from anabranch.region.storage import schema
from tests.storage.test_data_files import run_once

TRIGGER = "CREATE TRIGGER evil AFTER INSERT ON log BEGIN DELETE FROM meta WHERE name = 'lost'; END"
VERSION_1 = ("meta", "log", "staged", "key_state", "part", "node")
# What was done to the schema, and the words that name it.
CHANGES = {
    "a trigger": ([TRIGGER], "the trigger evil"),
    "a view": (["CREATE VIEW shown AS SELECT body FROM log"], "the view shown"),
    "a table": (["CREATE TABLE notes (text)"], "the table notes"),
    "an index": (["CREATE INDEX slow ON log (clock_ms)"], "the index slow"),
    "an index by an expression": (
        [
            "DROP INDEX log_by_origin",
            "CREATE INDEX log_by_origin ON log (origin, abs(last)) WHERE origin > 0",
        ],
        "the index log_by_origin",
    ),
    "a column": (["ALTER TABLE log ADD COLUMN more INTEGER"], "the table log"),
    "a default": (["ALTER TABLE log ADD COLUMN sum2 INTEGER DEFAULT 1"], "the table log"),
    "a computed column": (
        ["ALTER TABLE meta ADD COLUMN long INTEGER AS (length(value)) VIRTUAL"],
        "the table meta",
    ),
    "a view in place of a table": (
        ["ALTER TABLE staged RENAME TO hidden", "CREATE VIEW staged AS SELECT * FROM hidden"],
        "the view staged",
    ),
}


@pytest.fixture(scope="module")
def backup(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sound backup of a region with three entries."""
    directory = tmp_path_factory.mktemp("sound")
    asyncio.run(run_once(directory / "us"))
    asyncio.run(inspection.back_up(directory / "us", directory / "us.backup"))
    return directory / "us.backup"


@pytest.fixture(params=CHANGES)
def changed(request: pytest.FixtureRequest, backup: Path, tmp_path: Path) -> tuple[Path, str]:
    """A backup whose schema was changed, and the words that name the change."""
    statements, words = CHANGES[request.param]
    file = tmp_path / "changed.backup"
    file.write_bytes(backup.read_bytes())
    with closing(sqlite3.connect(file)) as database, database:
        for statement in statements:
            database.execute(statement)
    return file, words


def test_t18_a_changed_backup_is_not_restored(changed: tuple[Path, str], tmp_path: Path) -> None:
    """A backup with a trigger passed `restore`, `check` and the start."""
    file, words = changed
    with pytest.raises(Damaged, match=words):
        asyncio.run(inspection.restore(file, tmp_path / "us"))
    assert not (tmp_path / "us" / FILE_NAME).exists()


def test_t18_changed_files_are_found_and_not_started(
    changed: tuple[Path, str], tmp_path: Path
) -> None:
    file, words = changed
    (tmp_path / "us").mkdir()
    file.rename(tmp_path / "us" / FILE_NAME)
    (finding,) = asyncio.run(inspection.inspect(tmp_path / "us")).findings
    assert words in finding and "put another backup back" in finding
    with pytest.raises(Damaged, match=words):
        read_identity(tmp_path / "us")


def test_t18_a_trigger_in_a_file_without_rows_is_found(tmp_path: Path) -> None:
    """A file without rows is that of a first start which ended early."""
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as database, database:
        for statement in (*schema.TABLES, TRIGGER):
            database.execute(statement)
    with pytest.raises(Damaged, match="the trigger evil"):
        read_identity(tmp_path)


def made_now(database: sqlite3.Connection) -> None:
    for statement in schema.TABLES:
        database.execute(statement)


def version_1(database: sqlite3.Connection) -> None:
    """The tables of schema version 1, which had no column `sum`."""
    for statement in schema.TABLES:
        if any(f" {name} (" in statement for name in VERSION_1):
            database.execute(statement.replace(", sum INTEGER", ""))


def upgraded(database: sqlite3.Connection) -> None:
    version_1(database)
    for statement in schema.UPGRADES[1]:
        database.execute(statement)
    made_now(database)


@pytest.mark.parametrize("make", [made_now, version_1, upgraded])
def test_t18_what_regions_made_is_not_strange(make: Callable[[sqlite3.Connection], None]) -> None:
    with closing(sqlite3.connect(":memory:")) as database:
        make(database)
        assert strange_schema(database) == ""


def test_t18_functions_with_effects_do_not_run_from_a_schema() -> None:
    with closing(sqlite3.connect(":memory:")) as database:
        database.create_function("effect", 0, lambda: 1)
        database.execute("CREATE VIEW seen AS SELECT effect()")
        assert database.execute("SELECT * FROM seen").fetchall() == [(1,)]
        defend(database)
        with pytest.raises(sqlite3.OperationalError, match="unsafe use of effect"):
            database.execute("SELECT * FROM seen").fetchall()


async def test_t18_a_region_opens_its_database_defensively(tmp_path: Path) -> None:
    database = Database(tmp_path)
    await database.open()
    try:
        assert database._writer is not None and database._reader is not None
        for connection in (database._writer, database._reader):
            (row,) = await connection.execute_fetchall("PRAGMA trusted_schema")
            assert row == (0,)
    finally:
        await database.close()
