"""The tables of a region's database.

| table | holds |
|---|---|
| ``rides`` | the rides that the API of this region took: the canonical source |
| ``staged_log_records`` | records that wait for the streamer |
| ``producers`` | one row: the producer ID of this database's streamer, and its double sends |
| ``consumers`` | the running totals of each consumer in this region |
| ``checkpoints`` | the position of each consumer in each log |
| ``consumed_rides`` | the rides in each consumer's total |
| ``spark_batches`` | the last batch of each Spark consumer |
| ``spark_batch_begins`` | the position in each log at which that batch begins |
| ``trimmed_records`` | the records that the trimmer removed from the stream |

The article recognises a double send by a ride ID that is not above the last one. That needs one
order of all rides, which two regions do not have. So a consumer keeps the rides themselves.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from examples.rocket_rides.database import (
    SQLITE_PREFIX,
    Database,
    DatabaseError,
    Transaction,
    open_database,
    schema,
)
from examples.rocket_rides.records import Checkpoint, Position, Ride

_TABLES = """
CREATE TABLE rides (id {identity}, distance_mm BIGINT NOT NULL);
CREATE TABLE staged_log_records (
    id {identity}, action TEXT NOT NULL, object TEXT NOT NULL, data TEXT NOT NULL);
CREATE TABLE producers (
    id TEXT PRIMARY KEY, double_sends BIGINT NOT NULL, sent_elsewhere BIGINT NOT NULL);
CREATE TABLE consumers (
    name TEXT PRIMARY KEY, way TEXT NOT NULL, rides BIGINT NOT NULL, distance_mm BIGINT NOT NULL,
    seen_again BIGINT NOT NULL);
CREATE TABLE checkpoints (
    consumer TEXT NOT NULL, log TEXT NOT NULL, counter BIGINT NOT NULL, entry_id TEXT NOT NULL,
    PRIMARY KEY (consumer, log));
CREATE TABLE consumed_rides (
    consumer TEXT NOT NULL, origin TEXT NOT NULL, ride_id BIGINT NOT NULL,
    distance_mm BIGINT NOT NULL, PRIMARY KEY (consumer, origin, ride_id));
CREATE TABLE spark_batches (
    consumer TEXT PRIMARY KEY, query TEXT NOT NULL, batch BIGINT NOT NULL);
CREATE TABLE spark_batch_begins (
    consumer TEXT NOT NULL, log TEXT NOT NULL, counter BIGINT NOT NULL, entry_id TEXT NOT NULL,
    PRIMARY KEY (consumer, log));
CREATE TABLE trimmed_records (
    entry_id TEXT PRIMARY KEY, origin TEXT NOT NULL, ride_id BIGINT NOT NULL)
"""

# The ways in which a consumer reads: a position in each region's log, one ID for the stream, or a
# Spark query, which reads its last batch again after some crashes.
LOG_WAY = "log"
ONE_ID_WAY = "one-id"
SPARK_WAY = "spark"


class Registration(NamedTuple):
    """A consumer of a region. `way` is `LOG_WAY`, `ONE_ID_WAY` or `SPARK_WAY`."""

    name: str
    way: str


def create(url: str, region: str, consumers: Sequence[Registration]) -> None:
    """Makes the database of one region, and registers its consumers.

    The trimmer heeds a consumer from its registration on.

    Raises:
        DatabaseError: The region has a database already, or there can be none.
    """
    if url.startswith(SQLITE_PREFIX):
        try:
            Path(url.removeprefix(SQLITE_PREFIX)).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DatabaseError(f"cannot make the directory of the databases: {error}") from None
    database = open_database(url, region, is_new=True)
    # The number tells this database from one that had the same record IDs before it.
    producer = f"{region}-{secrets.token_hex(8)}"

    def work(transaction: Transaction) -> None:
        if not url.startswith(SQLITE_PREFIX):
            transaction.write(f"CREATE SCHEMA {schema(region)}")
        for table in _TABLES.format(identity=database.identity_type).split(";"):
            transaction.write(table)
        transaction.write("INSERT INTO producers VALUES (?, 0, 0)", (producer,))
        transaction.write_many("INSERT INTO consumers VALUES (?, ?, 0, 0, 0)", consumers)

    try:
        if exists(database, url, region):
            raise DatabaseError(
                f"the database of {region} holds a former run: take another --database, or remove"
                f" {schema(region) if url.startswith('postgres') else f'{region}.sqlite'} there"
            )
        database.run(work)
    finally:
        database.close()


def exists(database: Database, url: str, region: str) -> bool:
    """Whether the database of a region has the tables of a run."""
    if url.startswith(SQLITE_PREFIX):
        sql, name = "SELECT 1 FROM sqlite_master WHERE name = ?", "rides"
    else:
        sql, name = (
            "SELECT 1 FROM information_schema.schemata WHERE schema_name = ?",
            schema(region),
        )
    return bool(database.run(lambda each: each.rows(sql, (name,))))


def producer_id(database: Database) -> str:
    """The producer ID under which the streamer of this database adds to the stream."""
    return str(database.run(lambda each: each.rows("SELECT id FROM producers"))[0][0])


def registered(transaction: Transaction) -> list[Registration]:
    """The registered consumers of the region, in the order of their names."""
    rows = transaction.rows("SELECT name, way FROM consumers ORDER BY name")
    return [Registration(str(name), str(way)) for name, way in rows]


def checkpoint(transaction: Transaction, consumer: str) -> Checkpoint:
    """The positions of one consumer; empty before its first batch."""
    return _positions(transaction, "checkpoints", consumer)


def read_up_to(transaction: Transaction, consumer: Registration) -> Checkpoint:
    """The positions below which a consumer reads nothing any more, even after a crash."""
    table = "spark_batch_begins" if consumer.way == SPARK_WAY else "checkpoints"
    return _positions(transaction, table, consumer.name)


def _positions(transaction: Transaction, table: str, consumer: str) -> Checkpoint:
    rows = transaction.rows(
        f"SELECT log, counter, entry_id FROM {table} WHERE consumer = ?", (consumer,)
    )
    return {str(log): Position(int(counter), str(entry)) for log, counter, entry in rows}


def consumed(
    transaction: Transaction, consumer: str, origin: str, first: int, last: int
) -> list[Ride]:
    """The rides of one origin in a consumer's total, with IDs from `first` to `last`, in order."""
    rows = transaction.rows(
        "SELECT ride_id, distance_mm FROM consumed_rides WHERE consumer = ? AND origin = ?"
        " AND ride_id BETWEEN ? AND ? ORDER BY ride_id",
        (consumer, origin, first, last),
    )
    return [Ride(origin, int(ride), int(distance)) for ride, distance in rows]


def rides(transaction: Transaction, origin: str, above: int = 0) -> list[Ride]:
    """The rides of the API of this database, with IDs above `above`, in order."""
    rows = transaction.rows("SELECT id, distance_mm FROM rides WHERE id > ? ORDER BY id", (above,))
    return [Ride(origin, int(ride), int(distance)) for ride, distance in rows]


def staged_count(transaction: Transaction) -> int:
    """The number of records that wait for the streamer."""
    return int(transaction.rows("SELECT count(*) FROM staged_log_records")[0][0])
