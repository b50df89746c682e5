"""The effect log as rows (S13.1): one INSERT writes the rows of a usual commit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Optional

from xxhash import xxh3_64_digest

from anabranch.crdt.block import Block, chain_after
from anabranch.crdt.encoding import Reader, put_vector
from anabranch.crdt.keyspace import Keyspace
from anabranch.crdt.vector import Vector
from anabranch.region.engine.rows import BlockRow, ClockRow, Commit, LogRow, RecordsRow, SnapshotRow
from anabranch.region.storage import sums
from anabranch.region.storage.schema import Statement, meta

# Values of the column `origin` for rows that are no blocks.
LOCAL: Final = 0
SNAPSHOT: Final = -1
# SQLite accepts at most 32766 parameters in one statement, and a row has nine.
_ROWS_PER_STATEMENT: Final = 2000

COLUMNS: Final = "position, origin, first, last, source, clock_ms, chain, body, sum"


class LogSize:
    """The numbers of rows, bytes of their bodies, and effects, of a log or a part of it."""

    def __init__(self, rows: int, size_bytes: int, effects: int) -> None:
        self.rows = rows
        self.bytes = size_bytes
        self.effects = effects


class OldRow:
    """One of the oldest rows, as read by `OLDEST`.

    `origin` is the region of a block; for other rows it is 0 or less, and `effects` is 0.
    """

    def __init__(
        self, position: int, origin: int, last: int, size_bytes: int, effects: int
    ) -> None:
        self.position: Final = position
        self.origin: Final = origin
        self.last: Final = last
        self.bytes: Final = size_bytes
        self.effects: Final = effects if origin > 0 else 0


@dataclass(frozen=True)
class ReadOldest:
    """A request for at most `count` of the oldest rows, none after the position `up_to`."""

    up_to: int
    count: int


def commit_statements(commit: Commit) -> list[Statement]:
    """The statements that write a commit, all in one transaction."""
    statements: list[Statement] = []
    for start in range(0, len(commit.rows), _ROWS_PER_STATEMENT):
        rows = commit.rows[start : start + _ROWS_PER_STATEMENT]
        parameters: list[object] = []
        for row in rows:
            parameters += _columns(row)
        values = ", ".join(["(?, ?, ?, ?, ?, ?, ?, ?, ?)"] * len(rows))
        statements.append((f"INSERT INTO log ({COLUMNS}) VALUES {values}", tuple(parameters)))
    insert = "INSERT INTO staged (position, part, body, sum) VALUES (?, ?, ?, ?)"
    for row in commit.rows:
        if isinstance(row, SnapshotRow):
            for part, chunk in enumerate(row.chunks):
                total = sums.of_staged(row.position, part, chunk)
                statements.append((insert, (row.position, part, chunk, total)))
    for name, value in commit.meta.items():
        statements.append(meta(name, value))
    if commit.meta.get("recovery") == b"0":
        # No recovery is under way, so nothing of a damaged log is to be merged any more.
        statements.append(DELETE_SALVAGE)
    return statements


def _columns(row: LogRow) -> list[object]:
    """A row as COLUMNS."""
    if isinstance(row, BlockRow):
        block = row.block
        numbers = (row.position, block.origin, block.first, block.last, row.source, row.clock_ms)
        chain, body = block.chain, block.body
    else:
        kind, source = LOCAL, 0
        if isinstance(row, SnapshotRow):
            kind, source = SNAPSHOT, row.source
        body = body_of(row)
        numbers = (row.position, kind, 0, 0, source, row.clock_ms)
        chain = _checksum(row, body)
    return [*numbers, chain, body, sums.of_log(*numbers, chain, body)]


def body_of(row: LogRow) -> bytes:
    """The column `body`: a block's bytes, the records, a snapshot's vector, or nothing."""
    if isinstance(row, BlockRow):
        return row.block.body
    if isinstance(row, RecordsRow):
        return row.records
    if isinstance(row, SnapshotRow):
        out = bytearray()
        put_vector(out, row.vector)
        return bytes(out)
    return b""


def _checksum(row: LogRow, body: bytes) -> bytes:
    chunks = row.chunks if isinstance(row, SnapshotRow) else []
    return xxh3_64_digest(b"".join([body, *chunks]))


def check_of(row: LogRow, keyspace: Keyspace) -> bytes:
    """The column `chain` of a valid row.

    For a block it is the chain value after the blocks in `keyspace`, for other rows a checksum.
    """
    if isinstance(row, BlockRow):
        return chain_after(keyspace.chain(row.block.origin), row.block.body)
    return _checksum(row, body_of(row))


def is_snapshot(columns: Sequence[object]) -> bool:
    """Whether these COLUMNS are those of a `SnapshotRow`."""
    return columns[1] == SNAPSHOT


def read_row(columns: Sequence[object], chunks: Optional[list[bytes]] = None) -> LogRow:
    """Makes a row from COLUMNS. `chunks` are the chunks of a joined snapshot.

    Raises:
        Malformed: The checksum is wrong, or the body is not that of a row.
    """
    position, origin, first, last, source, clock_ms, chain, body, found = columns
    assert isinstance(position, int) and isinstance(origin, int) and isinstance(first, int)
    assert isinstance(last, int) and isinstance(source, int) and isinstance(clock_ms, int)
    assert isinstance(chain, bytes) and isinstance(body, bytes)
    assert found is None or isinstance(found, int)
    wanted = sums.of_log(position, origin, first, last, source, clock_ms, chain, body)
    sums.require(found, wanted)
    if origin > 0:
        return BlockRow(position, clock_ms, Block(origin, first, last, body, chain), source)
    if origin == SNAPSHOT:
        return SnapshotRow(position, clock_ms, source, Reader(body).vector(), chunks or [])
    return RecordsRow(position, clock_ms, body) if body else ClockRow(position, clock_ms)


def read_block_row(columns: Sequence[object]) -> BlockRow:
    """Makes a block row from COLUMNS, which must be those of a block."""
    row = read_row(columns)
    assert isinstance(row, BlockRow)
    return row


# Most rows that one read returns, however small they are.
_ROWS_MAX: Final = 512


def bounded(table: str, condition: str, order: str = "position") -> str:
    """Selects the first rows that meet a condition, with about so many bytes of bodies.

    The first row is selected even if it is larger. The bytes are the parameter `?1`, and those of
    `condition` begin with `?2`. SQLite finds the length of a body without reading it, so nothing is
    read that is not returned.

    Args:
        table: `log`, or a table with the same columns.
        condition: What follows WHERE.
        order: The column in whose order the rows come.
    """
    return f"""SELECT {COLUMNS} FROM {table} WHERE {condition} AND {order} <= (
        SELECT MAX({order}) FROM (
            SELECT {order}, ROW_NUMBER() OVER so_far AS number, SUM(bytes) OVER so_far AS total
            FROM (SELECT {order}, LENGTH(body) AS bytes FROM {table} WHERE {condition}
                ORDER BY {order} LIMIT {_ROWS_MAX})
            WINDOW so_far AS (ORDER BY {order} ROWS UNBOUNDED PRECEDING)
        ) WHERE number = 1 OR total <= ?1
    ) ORDER BY {order}"""


ROWS_AFTER: Final = bounded("log", "position > ?2")
BLOCKS_AFTER: Final = bounded("log", "position > ?2 AND origin > 0")
BLOCK_WITH: Final = (
    f"SELECT {COLUMNS} FROM log WHERE origin = ? AND last >= ? AND origin > 0 ORDER BY last LIMIT 1"
)
BLOCK_ENDING_AT: Final = f"SELECT {COLUMNS} FROM log WHERE origin = ? AND last = ? AND origin > 0"
DELETE_SALVAGE: Final[Statement] = ("DELETE FROM salvage", ())
STAGED: Final = "SELECT body FROM staged WHERE position = ? ORDER BY part"
SIZE: Final = (
    "SELECT COUNT(*), COALESCE(SUM(LENGTH(body)), 0), "
    "COALESCE(SUM(CASE WHEN origin > 0 THEN last - first + 1 ELSE 0 END), 0) FROM log"
)
# The blocks that do not begin right after the block of their region before them, with that end.
_STEPS: Final = (
    "SELECT position, origin, LAG(last) OVER of_origin AS before, first FROM log"
    " WHERE origin > 0 WINDOW of_origin AS (PARTITION BY origin ORDER BY position)"
)
JUMPS: Final = f"SELECT * FROM ({_STEPS}) WHERE first > before + 1 ORDER BY position"
SNAPSHOTS: Final = f"SELECT {COLUMNS} FROM log WHERE origin = {SNAPSHOT} ORDER BY position"
OLDEST: Final = (
    "SELECT position, origin, last, LENGTH(body), last - first + 1 FROM log "
    "WHERE position <= ? ORDER BY position LIMIT ?"
)


@dataclass(frozen=True)
class Gap:
    """Effects that are in no block of the log, although later ones of their region are (S13.10).

    `position` is that of the first block after them. `first` and `last` are counters of region
    `origin`.
    """

    position: int
    origin: int
    first: int
    last: int


def gaps(jumps: Iterable[tuple[int, int, int, int]], snapshots: Sequence[SnapshotRow]) -> list[Gap]:
    """The gaps of a log, from the answers to JUMPS and SNAPSHOTS.

    Effects that came with a snapshot joined before the block are no gap (S11.2).
    """
    return [
        Gap(position, origin, before + 1, first - 1)
        for position, origin, before, first in jumps
        if not any(
            row.position < position and row.vector.get(origin, 0) >= first - 1 for row in snapshots
        )
    ]


def first_lacking(vector: Vector, origins: list[int]) -> Statement:
    """Selects the position before the first block that `vector` lacks; NULL if it lacks none."""
    selects: list[str] = []
    parameters: list[object] = []
    for origin in origins:
        # "+?": a SQLite that plans queries by the values of parameters would otherwise plan this
        # one again for each execution, at several times the cost of the search.
        selects.append(
            "SELECT * FROM (SELECT position FROM log "
            "WHERE origin = +? AND last > ? AND origin > 0 ORDER BY last LIMIT 1)"
        )
        parameters += [origin, vector.get(origin, 0)]
    return f"SELECT MIN(position) - 1 FROM ({' UNION ALL '.join(selects)})", tuple(parameters)
