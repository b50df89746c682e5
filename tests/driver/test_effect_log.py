"""The effect log as `EffectLog` knows it: size, floor and tail, against SQLite and a list."""

from __future__ import annotations

import sqlite3
from typing import Any, Optional

from hypothesis import given
from hypothesis import strategies as st

from anabranch.crdt.block import Block
from anabranch.crdt.encoding import Reader
from anabranch.crdt.vector import includes, raise_to
from anabranch.region.driver.effect_log import EffectLog
from anabranch.region.engine.rows import BlockRow, ClockRow, Commit, LogRow, RecordsRow, SnapshotRow
from anabranch.region.engine.settings import Settings
from anabranch.region.storage import log, schema
from anabranch.region.storage.log import LogSize, OldRow

CHAIN = bytes(16)


class Story:
    """An effect log, the SQLite tables that it speaks of, and a list of all rows.

    A snapshot is joined with a vector that nothing here holds, so that it always raises the floor.
    """

    def __init__(self, tail_bytes: int, effects_max: int, bytes_max: int) -> None:
        self.settings = Settings(
            {"crdt-log-max-effects": effects_max, "crdt-log-max-bytes": bytes_max}
        )
        self.log = EffectLog(0, {}, LogSize(0, 0, 0), self.settings, tail_bytes)
        self.tail_bytes = tail_bytes
        self.database = sqlite3.connect(":memory:")
        for table in schema.TABLES:
            self.database.execute(table)
        self.vector: dict[int, int] = {}
        self.position = 0
        self.rows: list[LogRow] = []
        self.floor: dict[int, int] = {}
        self.snapshot = 0

    def row(self, kind: str, origin: int, count: int) -> LogRow:
        self.position += 1
        if kind == "records":
            return RecordsRow(self.position, 1, b"r" * count)
        if kind == "clock":
            return ClockRow(self.position, 1)
        if kind == "snapshot":
            self.vector[origin] = self.vector.get(origin, 0) + count
            return SnapshotRow(self.position, 1, 2, dict(self.vector), [b"chunk"])
        first = self.vector.get(origin, 0) + 1
        self.vector[origin] = last = first + count - 1
        block = Block(origin, first, last, b"b" * (10 * count), CHAIN)
        return BlockRow(self.position, 1, block, 0)

    def commit(self, kinds: list[tuple[str, int, int]]) -> None:
        rows = [self.row(*kind) for kind in kinds]
        commit = Commit(self.position, rows, dict(self.vector), {}, 1)
        statements = self.log.statements(commit)
        for row in rows:
            if isinstance(row, SnapshotRow):
                raise_to(self.floor, row.vector)
                self.snapshot = row.position
        self.compare_floor()
        self.run(statements)
        self.rows += rows
        self.log.committed(commit)

    def run(self, statements: list[schema.Statement]) -> None:
        for sql, parameters in statements:
            self.database.execute(sql, parameters)

    def retain(self, up_to: int, count: int) -> Optional[int]:
        """One step of retention; how many rows went, None for none."""
        columns = self.database.execute(log.OLDEST, (up_to, count)).fetchall()
        dropped = self.log.drop([OldRow(*one) for one in columns])
        if dropped is None:
            return None
        statements, gone = dropped
        for row in self.rows[: gone.rows]:
            if isinstance(row, BlockRow):
                raise_to(self.floor, {row.block.origin: row.block.last})
        self.compare_floor()
        self.run(statements)
        self.rows = self.rows[gone.rows :]
        self.log.dropped(gone)
        return gone.rows

    # -- what must hold

    def compare(self) -> None:
        self.compare_floor()
        size = self.log.size
        (in_tables,) = self.database.execute(log.SIZE).fetchall()
        effects = sum(
            row.block.last - row.block.first + 1 for row in self.rows if isinstance(row, BlockRow)
        )
        in_list = (len(self.rows), sum(len(log.body_of(row)) for row in self.rows), effects)
        assert (size.rows, size.bytes, size.effects) == in_tables == in_list
        stored = self.database.execute("SELECT value FROM meta WHERE name = 'log_floor'").fetchone()
        assert (Reader(stored[0]).vector() if stored else {}) == self.floor
        self.compare_tail()

    def compare_floor(self) -> None:
        tail = self.log.tail
        assert tail.floor == self.floor
        assert tail.reaches_back(self.vector) == includes(self.vector, self.floor)

    def compare_tail(self) -> None:
        tail = self.log.tail
        assert tail.position == self.position
        blocks = [row for row in self.rows if isinstance(row, BlockRow)]
        for position in range(self.position + 1):
            found = tail.rows_after(position, 1 << 30)
            after = [row for row in blocks if row.position > position]
            if found is None:
                assert not tail.holds_all_after(position)
            else:
                assert found == after
                assert position >= self.snapshot, "a place before a snapshot is none any more"
            if not after and position >= self.snapshot and position == self.position:
                assert found == []
        held = [row for row in blocks if row.position > self.snapshot]
        if held:
            assert tail.rows_after(held[-1].position - 1, 1) == held[-1:]
        assert tail.bytes <= max(self.tail_bytes, 0) or tail.bytes <= 10 * 5 + 320


kinds = st.lists(
    st.tuples(
        st.sampled_from(["block", "block", "block", "block", "records", "clock", "snapshot"]),
        st.integers(1, 3),
        st.integers(1, 5),
    ),
    min_size=1,
    max_size=6,
)
steps = st.lists(
    kinds.map(lambda one: ("commit", one))
    | st.tuples(st.integers(0, 60), st.integers(1, 9)).map(lambda one: ("retain", one)),
    max_size=25,
)


@given(
    st.sampled_from([1, 300, 700, 1 << 20]),
    st.sampled_from([0, 3, 20]),
    st.sampled_from([0, 100, 1 << 20]),
    steps,
)
def test_the_log_is_what_is_known_of_it(
    tail_bytes: int, effects_max: int, bytes_max: int, story: Any
) -> None:
    one = Story(tail_bytes, effects_max, bytes_max)
    for what, how in story:
        if what == "commit":
            one.commit(how)
        else:
            one.retain(*how)
        one.compare()


@given(st.sampled_from([1, 5, 20]), st.integers(1, 9), st.lists(kinds, max_size=10))
def test_retention_drops_the_oldest_and_no_more_than_need_be(
    effects_max: int, count: int, commits: Any
) -> None:
    one = Story(1 << 20, effects_max, 1 << 20)
    for commit in commits:
        one.commit(commit)
    before = list(one.rows)
    while one.log.is_too_large():
        assert one.retain(one.position, count)
        one.compare()
    kept = len(one.rows)
    effects = [
        row.block.last - row.block.first + 1 if isinstance(row, BlockRow) else 0 for row in before
    ]
    assert sum(effects[len(before) - kept :]) <= effects_max
    if kept < len(before):
        assert sum(effects[len(before) - kept - 1 :]) > effects_max
    assert one.retain(one.position, count) is None


def test_rows_that_a_start_still_needs_stay() -> None:
    """S13.1: nothing beyond the position of the checkpoint goes, however large the log is."""
    one = Story(1 << 20, 1, 1 << 20)
    one.commit([("block", 1, 1)] * 10)
    assert one.retain(4, 100) == 4
    assert one.log.is_too_large()
    assert one.retain(4, 100) is None
    assert one.log.tail.floor == {1: 4}
    assert [row.position for row in one.log.tail.rows_after(4, 1) or []] == [5]


def test_the_floor_rises_before_anything_is_gone() -> None:
    """An answer that was read meanwhile must not count: a sender asks after it has come."""
    one = Story(1 << 20, 3, 1 << 20)
    one.commit([("block", 1, 1)] * 5)
    columns = one.database.execute(log.OLDEST, (5, 100)).fetchall()
    dropped = one.log.drop([OldRow(*columns_of) for columns_of in columns])
    assert dropped is not None
    assert not one.log.tail.reaches_back({1: 1})
    assert one.log.tail.reaches_back({1: 2})
    assert one.log.size.rows == 5, "they are still there"
    one.log.dropped(dropped[1])
    assert one.log.size.rows == 3


def test_a_snapshot_raises_the_floor_when_its_commit_begins() -> None:
    """S11.2: rows that are read as soon as they are on disk come after the floor has risen."""
    one = Story(1 << 20, 0, 1 << 20)
    one.commit([("block", 1, 2)])
    row = one.row("snapshot", 2, 7)
    one.log.statements(Commit(one.position, [row], dict(one.vector), {}, 1))
    assert one.log.tail.floor == {1: 2, 2: 7}
    assert not one.log.tail.reaches_back({1: 2})


def test_figures_show_the_size() -> None:
    one = Story(1 << 20, 0, 1 << 20)
    one.commit([("block", 1, 2), ("records", 1, 3)])
    assert one.log.figures() == {
        "crdt_log_rows": 2,
        "crdt_log_bytes": 23,
        "crdt_log_effects": 2,
        "crdt_log_tail_bytes": 340,
    }
