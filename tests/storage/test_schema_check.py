"""The check of a schema, without files: what no region makes is named, and nothing else."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest

from anabranch.region.live.sql_safety import strange_schema
from anabranch.region.storage import schema, schema_check


@pytest.fixture
def database() -> Iterator[sqlite3.Connection]:
    """A database with the tables of a region."""
    with closing(sqlite3.connect(":memory:")) as opened:
        for table in schema.TABLES:
            opened.execute(table)
        yield opened


def test_the_tables_of_a_region_are_not_strange(database: sqlite3.Connection) -> None:
    assert strange_schema(database) == ""


def test_a_table_with_another_definition_is_named(database: sqlite3.Connection) -> None:
    database.execute("ALTER TABLE log ADD COLUMN sum2 INTEGER DEFAULT 1")
    assert strange_schema(database) == "the table log with another definition"


def test_few_of_many_strange_objects_are_named(database: sqlite3.Connection) -> None:
    """A file with a million views must not make a message of a million names."""
    for number in range(7):
        database.execute(f"CREATE VIEW view{number} AS SELECT 1")
    assert strange_schema(database) == (
        "the view view0, the view view1, the view view2, the view view3, the view view4, 2 more"
    )


def test_an_index_without_sql_belongs_to_a_table_of_a_region() -> None:
    """SQLite makes such an index for a PRIMARY KEY or a UNIQUE column."""
    key = ("index", "sqlite_autoindex_staged_1", "staged", None)
    assert schema_check.strange([key], {}) == ""
    other = ("index", "sqlite_autoindex_notes_1", "notes", None)
    assert schema_check.strange([key, other], {}) == "the index sqlite_autoindex_notes_1"
