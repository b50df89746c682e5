"""The effect log as rows (S13.1): a commit is one INSERT."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from xxhash import xxh3_64_digest

from anabranch.crdt.block import Block, chain_after
from anabranch.crdt.keyspace import Keyspace
from anabranch.crdt.vector import Vector
from anabranch.region.engine.journal import Commit, Row
from anabranch.region.storage.schema import Statement, meta

LOCAL: Final = 0
SNAPSHOT: Final = -1
# SQLite takes at most 32766 parameters in one statement.
_ROWS_PER_STATEMENT: Final = 2000

COLUMNS: Final = "position, origin, first, last, source, clock_ms, chain, body"


def commit_statements(commit: Commit) -> list[Statement]:
    """What writes a commit; more than one statement must go into one transaction."""
    statements: list[Statement] = []
    staged = dict(commit.staged)
    for start in range(0, len(commit.rows), _ROWS_PER_STATEMENT):
        rows = commit.rows[start : start + _ROWS_PER_STATEMENT]
        parameters: list[object] = []
        for row in rows:
            block = row.block
            if block is not None:
                parameters += [
                    row.position,
                    block.origin,
                    block.first,
                    block.last,
                    row.source,
                    row.clock_ms,
                    block.chain,
                    row.body,
                ]
            else:
                kind = SNAPSHOT if row.snapshot else LOCAL
                check = xxh3_64_digest(b"".join([row.body, *staged.get(row.position, [])]))
                parameters += [row.position, kind, 0, 0, row.source, row.clock_ms, check, row.body]
        values = ", ".join(["(?, ?, ?, ?, ?, ?, ?, ?)"] * len(rows))
        statements.append((f"INSERT INTO log ({COLUMNS}) VALUES {values}", tuple(parameters)))
    for position, chunks in commit.staged:
        for part, chunk in enumerate(chunks):
            statements.append(
                (
                    "INSERT INTO staged (position, part, body) VALUES (?, ?, ?)",
                    (position, part, chunk),
                )
            )
    for name, value in commit.meta.items():
        statements.append(meta(name, value))
    return statements


def check_of(row: Row, chunks: list[bytes], keyspace: Keyspace) -> bytes:
    """What must stand in `chain`: a block's chain value after what is replayed so far, else a checksum."""
    block = row.block
    if block is not None:
        return chain_after(keyspace.chain(block.origin), block.body)
    return xxh3_64_digest(b"".join([row.body, *chunks]))


def read_row(columns: Sequence[object]) -> Row:
    """A row from COLUMNS."""
    position, origin, first, last, source, clock_ms, chain, body = columns
    assert (
        isinstance(position, int)
        and isinstance(origin, int)
        and isinstance(first, int)
        and isinstance(last, int)
    )
    assert (
        isinstance(source, int)
        and isinstance(clock_ms, int)
        and isinstance(chain, bytes)
        and isinstance(body, bytes)
    )
    block = Block(origin, first, last, body, chain) if origin > 0 else None
    return Row(position, block, source, clock_ms, body, origin == SNAPSHOT)


ROWS_AFTER: Final = f"SELECT {COLUMNS} FROM log WHERE position > ? ORDER BY position LIMIT ?"
BLOCKS_AFTER: Final = (
    f"SELECT {COLUMNS} FROM log WHERE position > ? AND origin > 0 ORDER BY position LIMIT ?"
)
BLOCK_WITH: Final = (
    f"SELECT {COLUMNS} FROM log WHERE origin = ? AND last >= ? AND origin > 0 ORDER BY last LIMIT 1"
)
CHAIN_AT: Final = "SELECT chain FROM log WHERE origin = ? AND last = ? AND origin > 0"
SIZE: Final = (
    "SELECT COUNT(*), COALESCE(SUM(LENGTH(body)), 0), "
    "COALESCE(SUM(CASE WHEN origin > 0 THEN last - first + 1 ELSE 0 END), 0) FROM log"
)
OLDEST: Final = "SELECT position, origin, last, LENGTH(body), last - first + 1 FROM log WHERE position <= ? ORDER BY position LIMIT ?"


def first_lacking(vector: Vector, origins: list[int]) -> Statement:
    """The position before the first block that `vector` lacks; NULL when it lacks none."""
    selects: list[str] = []
    parameters: list[object] = []
    for origin in origins:
        # "+?": else a SQLite that plans by values plans anew each time, at several times the cost of the search.
        selects.append(
            "SELECT * FROM (SELECT position FROM log WHERE origin = +? AND last > ? AND origin > 0 ORDER BY last LIMIT 1)"
        )
        parameters += [origin, vector.get(origin, 0)]
    return f"SELECT MIN(position) - 1 FROM ({' UNION ALL '.join(selects)})", tuple(parameters)
