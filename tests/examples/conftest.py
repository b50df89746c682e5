"""Databases of the example, as SQLite files and as schemas of a real PostgreSQL server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from examples.rocket_rides import tables
from examples.rocket_rides.database import Database, open_database
from tests.examples.postgresql import PostgresServer

CONSUMERS = [
    tables.Registration("one", tables.LOG_WAY),
    tables.Registration("two", tables.LOG_WAY),
    tables.Registration("old", tables.ONE_ID_WAY),
]
Open = Callable[[str], Database]


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A running PostgreSQL server; without PostgreSQL the test fails with a message."""
    with PostgresServer() as server:
        yield server


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.examples)])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of empty databases, once of each kind."""
    if request.param == "sqlite":
        return f"sqlite:{tmp_path}"
    return str(request.getfixturevalue("postgres_server").new_database())


@pytest.fixture
def opened(database_url: str) -> Iterator[Open]:
    """Opens a further connection to the database of a region, which is made at the first call."""
    made: dict[str, list[Database]] = {}

    def open_one(region: str) -> Database:
        if region not in made:
            tables.create(database_url, region, CONSUMERS)
        database = open_database(database_url, region)
        made.setdefault(region, []).append(database)
        return database

    yield open_one
    for databases in made.values():
        for database in databases:
            database.close()
