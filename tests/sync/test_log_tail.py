"""The log's tail in memory, and the place of a sender in the log (S2.1, S2.6)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.crdt.block import Block
from anabranch.sync.session.log_reader import LogReader
from anabranch.sync.session.log_requests import Locate, ReadLog
from anabranch.sync.session.log_tail import LogTail
from tests.sync.fakes import WHOLE_TAIL, FakeRow, World, mesh

CHAIN = bytes(16)


def row(position: int, size: int = 10) -> Any:
    """A block's row."""
    return FakeRow(position, Block(1, position, position, bytes(size), CHAIN))


# -- against a list


class NaiveTail:
    """A list of the block rows on disk. Nothing up to `since` is served from memory."""

    def __init__(self, position: int) -> None:
        self.rows: list[Any] = []
        # A position up to which no row is in memory.
        self.since = position
        self.position = position
        self.floor: dict[int, int] = {}

    def after(self, position: int, bytes_max: int) -> list[int]:
        """Positions of the rows that one question gets: about so many bytes, at least one."""
        found: list[int] = []
        size = 0
        for one in self.rows:
            if one.position > position:
                size += len(one.block.body)
                if found and size > bytes_max:
                    break
                found.append(one.position)
        return found


append = st.tuples(st.just("append"), st.integers(0, 300), st.integers(0, 3))
steps = st.lists(
    append
    | append
    | append
    | st.tuples(st.just("snapshot"), st.just(0), st.integers(0, 2))
    | st.tuples(st.just("cut off"), st.integers(0, 40), st.just(0))
    | st.tuples(st.just("release"), st.integers(0, 40), st.just(0)),
    max_size=60,
)


@given(st.integers(0, 5), st.integers(1, 1500), steps)
def test_the_tail_is_the_end_of_a_list(begin: int, bytes_max: int, story: Any) -> None:
    """It serves exactly what a list of all rows would, or says that it does not reach back so far.

    `skipped` positions are those of rows that are no blocks.
    """
    tail, naive = LogTail(begin, {}, bytes_max), NaiveTail(begin)
    for what, number, skipped in story:
        if what == "append":
            naive.position += skipped + 1
            naive.rows.append(row(naive.position, number))
            tail.append(naive.rows[-1])
        elif what == "snapshot":
            naive.position += skipped + 1
            naive.since = naive.position
            tail.restart(naive.position)
        elif what == "release":
            read = min(begin + number, naive.position)
            unread = [one for one in range(read, naive.position) if tail.holds_all_after(one)]
            tail.release(read)
            assert all(map(tail.holds_all_after, unread))
            gone = [one.position for one in naive.rows if one.position <= read]
            if not tail.bytes:
                naive.since = max([naive.since, *gone])
        else:
            cut = min(begin + number, naive.position)
            if cut > naive.floor.get(1, 0):
                naive.floor = {1: cut}
            naive.rows = [one for one in naive.rows if one.position > cut]
            tail.cut_off(cut, {1: cut})
        tail.committed(naive.position)
        _compare(tail, naive, begin, bytes_max)


def _compare(tail: LogTail, naive: NaiveTail, begin: int, bytes_max: int) -> None:
    assert tail.position == naive.position
    assert tail.floor == naive.floor
    for counter in range(naive.position + 1):
        assert tail.reaches_back({1: counter}) == (counter >= naive.floor.get(1, 0))
    served = 0
    for position in range(naive.position + 1):
        for size in (1, 200, 1 << 20):
            found = tail.rows_after(position, size)
            assert (found is not None) == tail.holds_all_after(position)
            if found is not None:
                assert position >= naive.since
                assert [one.position for one in found] == naive.after(position, size)
                served = max(served, len(found))
    assert tail.holds_all_after(naive.position)
    newest = naive.rows[-1:] if naive.rows and naive.rows[-1].position > naive.since else []
    if newest:
        assert tail.rows_after(newest[0].position - 1, 1) == newest, "the newest is always here"
    assert tail.bytes <= bytes_max or served <= 1


def test_a_dropped_row_is_not_kept_in_memory() -> None:
    """The lists are cleared now and then, so that they hold few rows that are gone.

    Up to 512 blocks that were gone were kept until then once, and a block can have 640 kB.
    """
    tail = LogTail(0, {}, 1000)
    for position in range(1, 5000):
        tail.append(row(position))
        tail.committed(position)
        kept = [one for one in tail._rows if one is not None]
        assert len(kept) <= 4 and kept[-1].position == position
    assert tail.bytes <= 1000
    assert len(tail._rows) == len(tail._positions) < 1000
    assert [one.position for one in tail.rows_after(4998, 1) or []] == [4999]
    assert tail.rows_after(4000, 1) is None


# -- the place of one sender


def located(tail: LogTail, position: int, batch_bytes: int = 1000) -> LogReader:
    reader = LogReader(tail, batch_bytes)
    reader.locate()
    request = reader.request({}, {}, False)
    assert isinstance(request, Locate)
    assert reader.located(request, position)
    return reader


def shipped(reader: LogReader) -> list[int]:
    """Positions of the rows at hand, all of which are done with."""
    positions = []
    while (one := reader.next_row()) is not None:
        positions.append(one.position)
        reader.step()
    return positions


def test_a_peer_that_keeps_up_causes_no_read() -> None:
    tail = LogTail(7, {}, 500)
    reader = located(tail, 7)
    for position in range(8, 60, 2):
        tail.append(row(position))
        tail.committed(position + 1)  # a local record followed
        assert reader.request({}, {}, True) is None
        assert shipped(reader) == [position]
        assert reader.next_row() is None
        assert reader.request({}, {}, True) is None


def test_a_peer_that_falls_behind_is_served_from_the_disk_until_the_tail_reaches_back() -> None:
    tail = LogTail(0, {}, 700)  # two rows of ten bytes
    reader = located(tail, 0)
    rows = [row(position) for position in range(1, 11)]
    for one in rows:
        tail.append(one)
        tail.committed(one.position)
    assert shipped(reader) == []
    request = reader.request({}, {1: 3}, True)
    assert request == ReadLog(0, 10, 1000, {1: 3})
    assert reader.request({}, {}, True) is None, "one question at a time"
    assert reader.rows_read(request, rows[:6])
    assert shipped(reader) == [1, 2, 3, 4, 5, 6]
    request = reader.request({}, {}, True)
    assert isinstance(request, ReadLog) and request.position == 6
    assert reader.rows_read(request, rows[6:8])
    assert shipped(reader) == [7, 8, 9, 10], "the last two come from memory"
    assert reader.request({}, {}, True) is None


def test_no_rows_means_none_up_to_where_the_log_stood() -> None:
    """Rows that are no blocks are skipped by one question, and by no more."""
    tail = LogTail(100, {}, 500)
    reader = located(tail, 50)
    request = reader.request({}, {}, True)
    assert isinstance(request, ReadLog)
    tail.append(row(101))
    tail.committed(101)
    assert reader.rows_read(request, [])
    assert shipped(reader) == [101]


def test_nothing_is_read_while_there_is_no_room() -> None:
    reader = located(LogTail(10, {}, 500), 0)
    assert reader.request({}, {}, False) is None
    assert isinstance(reader.request({}, {}, True), ReadLog)


def test_a_log_that_was_cut_off_meanwhile_answers_nothing() -> None:
    tail = LogTail(10, {}, 500)
    reader = located(tail, 0)
    request = reader.request({}, {1: 4}, True)
    assert isinstance(request, ReadLog)
    tail.cut_off(5, {1: 5})
    assert not reader.rows_read(request, [row(6)])
    assert shipped(reader) == [] and not reader.is_located
    assert reader.request({}, {}, True) is None
    reader.locate()
    again = reader.request({1: 4}, {1: 4}, True)
    assert again == Locate({1: 4}, 10)
    assert not reader.located(again, 5)
    reader.locate()
    again = reader.request({1: 5}, {1: 5}, True)
    assert isinstance(again, Locate)
    assert reader.located(again, 5) and reader.cursor == 5


def test_rows_that_come_after_the_place_was_given_up_are_not_shipped() -> None:
    """The sender has refused its peer meanwhile, or holds back at a gap."""
    reader = located(LogTail(10, {}, 500), 0)
    request = reader.request({}, {}, True)
    assert isinstance(request, ReadLog)
    reader.leave()
    assert reader.rows_read(request, [row(1)])
    assert shipped(reader) == [] and reader.cursor == 0
    assert reader.request({}, {}, True) is None


def test_a_place_is_looked_up_again_when_the_question_that_is_out_is_answered() -> None:
    tail = LogTail(10, {}, 500)
    reader = located(tail, 0)
    request = reader.request({}, {}, True)
    assert isinstance(request, ReadLog)
    reader.locate()
    assert reader.request({1: 9}, {}, True) is None
    reader.rows_read(request, [row(1)])
    again = reader.request({1: 9}, {}, True)
    assert again == Locate({1: 9}, 10)
    assert reader.located(again, None)
    assert reader.cursor == 10, "it lacks none of the log"


# -- in a network


@pytest.mark.parametrize("bytes_max", [2000, WHOLE_TAIL])
def test_peers_that_keep_up_are_served_from_memory(bytes_max: int) -> None:
    world = World(mesh(1, 2, 3), tail_bytes=bytes_max)
    world.run(300)
    before = {rid: engine.log.reads for rid, engine in world.engines.items()}
    for _ in range(200):
        world.engines[1].write("w" * 100)
        world.engines[2].write("w" * 100)
        world.step()
    world.settle()
    assert {rid: engine.log.reads for rid, engine in world.engines.items()} == before


def test_a_peer_that_was_away_is_served_from_the_disk_and_then_from_memory() -> None:
    world = World([(2, 1)], tail_bytes=2000)
    world.engines[1].write("first")
    world.settle()
    log = world.engines[1].log
    world.cut(1, 2)
    for _ in range(100):
        world.engines[1].write("w" * 100)
        world.step()
    assert log.reads == 0
    world.heal(1, 2)
    world.settle()
    assert log.reads > 0
    caught_up = log.reads
    for _ in range(100):
        world.engines[1].write("w" * 100)
        world.step()
    world.settle()
    assert log.reads == caught_up
