"""The tables of a region's database, and their version."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final

from anabranch.region.storage import sums

# Version 2 added the column `sum` to every table. `UPGRADES` brings a database of version 1 there.
SCHEMA_VERSION: Final = 2

# One statement and its parameters.
Statement = tuple[str, tuple[object, ...]]

# Pragmas of the connection that writes. With FULL a commit is on disk when COMMIT returns (S13.1).
PRAGMAS: Final = [
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=FULL",
    "PRAGMA wal_autocheckpoint=2000",
    "PRAGMA journal_size_limit=67108864",
    "PRAGMA cache_size=-4000",
]

# Each row's `sum` is its checksum (`sums`).
TABLES: Final[list[str]] = [
    # Identity and state of the region as a whole: schema, cluster, members, life, recovery, lost,
    # region_state, log_floor and others.
    """CREATE TABLE IF NOT EXISTS meta (
        name TEXT PRIMARY KEY, value BLOB NOT NULL, sum INTEGER) WITHOUT ROWID""",
    # The effect log. origin > 0: a block; 0: local records, or only the clock; -1: a snapshot was
    # joined here. source: the peer that sent the block or snapshot, else 0. chain: the chain value
    # of a block (S13.5), a checksum of other rows.
    """CREATE TABLE IF NOT EXISTS log (
        position INTEGER PRIMARY KEY, origin INTEGER NOT NULL,
        first INTEGER NOT NULL, last INTEGER NOT NULL, source INTEGER NOT NULL,
        clock_ms INTEGER NOT NULL, chain BLOB NOT NULL, body BLOB NOT NULL, sum INTEGER)""",
    "CREATE INDEX IF NOT EXISTS log_by_origin ON log (origin, last) WHERE origin > 0",
    # The index of the log by key: a filter of the keys that the rows `first` to `last` change
    # (`key_index`).
    """CREATE TABLE IF NOT EXISTS log_keys (
        last INTEGER PRIMARY KEY, first INTEGER NOT NULL, filter BLOB NOT NULL, sum INTEGER)""",
    # Its rows about entries: the IDs of these, and a filter of the keys that other rows change.
    """CREATE TABLE IF NOT EXISTS log_ids (
        last INTEGER PRIMARY KEY, first INTEGER NOT NULL, low BLOB NOT NULL, high BLOB NOT NULL,
        others BLOB NOT NULL, sum INTEGER)""",
    # Blocks of a damaged log, which a recovery merges (`salvage`). Empty outside a recovery.
    """CREATE TABLE IF NOT EXISTS salvage (
        position INTEGER PRIMARY KEY, origin INTEGER NOT NULL,
        first INTEGER NOT NULL, last INTEGER NOT NULL, source INTEGER NOT NULL,
        clock_ms INTEGER NOT NULL, chain BLOB NOT NULL, body BLOB NOT NULL, sum INTEGER)""",
    # Chunks of the joined snapshots, by the position of their row in `log`.
    """CREATE TABLE IF NOT EXISTS staged (
        position INTEGER, part INTEGER, body BLOB NOT NULL, sum INTEGER,
        PRIMARY KEY (position, part)) WITHOUT ROWID""",
    # The checkpoint. The state of a key at its position consists of its parts with the key's cut,
    # and of each of its nodes with the highest cut not above the key's. Other rows are under way or
    # superseded. Number 0: the key was gone at that position.
    """CREATE TABLE IF NOT EXISTS key_state (
        key BLOB PRIMARY KEY, number INTEGER NOT NULL, cut INTEGER NOT NULL,
        position INTEGER NOT NULL, sum INTEGER) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS part (
        number INTEGER, cut INTEGER, part INTEGER, body BLOB NOT NULL, sum INTEGER,
        PRIMARY KEY (number, cut, part)) WITHOUT ROWID""",
    # body NULL: the node is gone since that cut.
    """CREATE TABLE IF NOT EXISTS node (
        number INTEGER, region INTEGER, node INTEGER, cut INTEGER, body BLOB, sum INTEGER,
        PRIMARY KEY (number, region, node, cut)) WITHOUT ROWID""",
]

# How many rows one statement of `in_bulk` has. Few numbers mean few statements to compile.
_ROWS: Final = (64, 8, 1)

# The meta rows that a first start writes: they say whose database it is.
IDENTITY_ROWS: Final = ("schema", "cluster", "name", "region_id", "members")

# All other meta rows but the floor of the log, `log_floor`.
STATE_ROWS: Final = (
    "life",
    "recovery",
    "restored",
    "rebuild_from",
    "file",
    "lost",
    "called_lost",
    "region_state",
    "cut",
    "collected",
    "clock",
    "id_floor",
    "patience",
    "lost_at",
    "never_served",
    "clock_reset",
    "clock_reset_at",
)

UPGRADES: Final = {
    1: [
        f"ALTER TABLE {table} ADD COLUMN sum INTEGER"
        for table in ("meta", "log", "staged", "key_state", "part", "node")
    ]
}
"""Version of the schema → the statements that make the next version of it."""


def meta(name: str, value: bytes) -> Statement:
    statement = "INSERT OR REPLACE INTO meta (name, value, sum) VALUES (?, ?, ?)"
    return statement, (name, value, sums.of_meta(name, value))


def in_bulk(
    sql: str, rows: Sequence[tuple[object, ...]], last: tuple[object, ...] = ()
) -> Iterator[Statement]:
    """Statements that do for many rows what `sql` says for one.

    SQLite's thread needs the interpreter's lock after each statement, and the engine may hold it
    for milliseconds. So many rows share a statement.

    Args:
        sql: Its ``{}`` stands for the rows, as in ``VALUES {}``.
        rows: The parameters of each row, all of the same length.
        last: The parameters after the rows.
    """
    start = 0
    while start < len(rows):
        count = next(one for one in _ROWS if one <= len(rows) - start)
        some = rows[start : start + count]
        one = f"({', '.join('?' * len(some[0]))})"
        yield sql.format(", ".join([one] * count)), (*chain.from_iterable(some), *last)
        start += count
