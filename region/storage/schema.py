"""The tables, and their version."""

from __future__ import annotations

from typing import Final

SCHEMA_VERSION: Final = 1

# One statement and its parameters.
Statement = tuple[str, tuple[object, ...]]

# Settings of every connection that writes. FULL: a commit is on disk when it returns (S13.1).
PRAGMAS: Final = [
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=FULL",
    "PRAGMA wal_autocheckpoint=2000",
    "PRAGMA journal_size_limit=67108864",
    "PRAGMA cache_size=-4000",
]

TABLES: Final = [
    # Who this region is, and what is true of all of it: schema, cluster, members, life, recovery, lost, region_state, log_floor …
    "CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID",
    # The effect log. origin > 0: a block; 0: local records; -1: a snapshot was joined here. source: 0, or the peer it came from.
    # chain: the block's chain value (S13.5), or a checksum of the others.
    """CREATE TABLE IF NOT EXISTS log (
        position INTEGER PRIMARY KEY, origin INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,
        source INTEGER NOT NULL, clock_ms INTEGER NOT NULL, chain BLOB NOT NULL, body BLOB NOT NULL)""",
    "CREATE INDEX IF NOT EXISTS log_by_origin ON log (origin, last) WHERE origin > 0",
    # Chunks of the snapshots that rows with origin -1 speak of.
    "CREATE TABLE IF NOT EXISTS staged (position INTEGER, part INTEGER, body BLOB NOT NULL, PRIMARY KEY (position, part)) WITHOUT ROWID",
    # The checkpoint. Of a key's rows those with the highest cut not above the key's are its state at its position; others are under way or
    # superseded. Number 0: at that position the key was gone.
    """CREATE TABLE IF NOT EXISTS key_state (
        key BLOB PRIMARY KEY, number INTEGER NOT NULL, cut INTEGER NOT NULL, position INTEGER NOT NULL) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS part (
        number INTEGER, cut INTEGER, part INTEGER, body BLOB NOT NULL, PRIMARY KEY (number, cut, part)) WITHOUT ROWID""",
    # body NULL: the node is gone since that cut
    """CREATE TABLE IF NOT EXISTS node (
        number INTEGER, region INTEGER, node INTEGER, cut INTEGER, body BLOB, PRIMARY KEY (number, region, node, cut)) WITHOUT ROWID""",
]


def meta(name: str, value: bytes) -> Statement:
    return "INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?)", (name, value)
