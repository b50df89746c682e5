"""Packed nodes, region logs, merge and trim, compared with lists (S12, S5.2, S7.1)."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.crdt import merge
from anabranch.crdt.cursor import LogCursor, ReverseCursor
from anabranch.crdt.effects import AddRun
from anabranch.crdt.ids import make
from anabranch.crdt.node import encode_names, encode_values
from anabranch.crdt.region_log import NodeLimits, RegionLog
from anabranch.crdt.slices import Entries
from tests.crdt import naive_log
from tests.crdt.naive_log import Fields, NaiveEntry, NaiveLog
from tests.crdt.support import MAX_ID, add_run

SHAPES: tuple[Fields, ...] = (
    (b"f", b"v"),
    (b"f", b""),
    (b"a", b"1", b"b", b"2" * 20),
    (b"b", b"2", b"a", b"1"),
    (b"a", b"1", b"a", b"2"),
    (b"\xff\x00", b"\r\n" * 60),
)
LIMITS = (
    NodeLimits(1, 0),
    NodeLimits(2, 0),
    NodeLimits(3, 60),
    NodeLimits(0, 90),
    NodeLimits(5, 4096),
    NodeLimits(0, 0),
)


def append(log: RegionLog, entry_id: int, counter: int, fields: Fields) -> None:
    log.append(
        entry_id >> 64,
        entry_id & ((1 << 64) - 1),
        counter,
        encode_names(list(fields[::2])),
        encode_values(list(fields[1::2])),
    )


def upward(cursor: LogCursor) -> Iterator[tuple[int, int]]:
    while cursor.valid:
        yield cursor.id(), cursor.counter
        cursor.step()


def downward(cursor: ReverseCursor) -> Iterator[tuple[int, int]]:
    while cursor.valid:
        yield cursor.id(), cursor.counter
        cursor.step()


def same(log: RegionLog, naive: NaiveLog) -> None:
    """Asserts that log and list agree in every query, and checks the nodes' invariants (S12.2)."""
    assert log.length == len(naive.entries)
    for node in log.node_map.nodes:
        assert node.live() > 0, "the log keeps an empty node"
        assert node.deleted * 2 <= node.count, "the log keeps a node of which over half is deleted"
    assert log.node_map.first_counters == sorted(log.node_map.first_counters)
    assert log.node_map.first_ids == sorted(log.node_map.first_ids)
    found = merge.forward({log.region_id: log}, 0, MAX_ID, -1).listed()
    assert [
        NaiveEntry(e.entry_id, e.region_id, e.counter, tuple(e.fields)) for e in found
    ] == naive.entries
    pairs = [(entry.entry_id, entry.counter) for entry in naive.entries]
    for counter in sorted({0, *(each + near for _, each in pairs for near in (-1, 0, 1))}):
        expected = next((entry for entry in naive.entries if entry.counter == counter), None)
        assert log.has_counter(counter) == (expected is not None)
        assert log.id_at(counter) == (-1 if expected is None else expected.entry_id)
        assert log.fields_at(counter) == (None if expected is None else list(expected.fields))
        assert log.last_counter_up_to(counter) == naive.last_counter_up_to(counter)
        assert log.count_above(counter) == sum(
            1 for entry in naive.entries if entry.counter > counter
        )
        cursor = LogCursor(log)
        cursor.seek_counter(counter)
        assert list(upward(cursor)) == [pair for pair in pairs if pair[1] > counter]
    for entry_id in sorted({0, *(each + near for each, _ in pairs for near in (-1, 0, 1))}):
        assert log.last_counter_not_above(entry_id) == naive.last_counter_not_above(entry_id)
        assert log.counter_of_id(entry_id) == next(
            (counter for each, counter in pairs if each == entry_id), 0
        )
        cursor = LogCursor(log)
        cursor.seek_id(entry_id)
        assert list(upward(cursor)) == [pair for pair in pairs if pair[0] >= entry_id]
        backward = ReverseCursor(log)
        backward.seek_id(entry_id)
        assert list(downward(backward)) == [pair for pair in reversed(pairs) if pair[0] <= entry_id]


def relaid(log: RegionLog, limits: NodeLimits) -> RegionLog:
    """A log with the same entries, in nodes of other limits."""
    other = RegionLog(log.region_id, limits)
    for entry in merge.forward({log.region_id: log}, 0, MAX_ID, -1).listed():
        append(other, entry.entry_id, entry.counter, tuple(entry.fields))
    return other


Step = tuple[int, int, int]
steps = st.lists(st.tuples(st.integers(0, 11), st.integers(0, 40), st.integers(0, 5)), max_size=60)


def take(log: RegionLog, naive: NaiveLog, step: Step, counter: int) -> int:
    """Takes one step on log and list. Returns the last counter used."""
    what, one, two = step
    fields = SHAPES[two]
    # IDs ascend only above the present entries: after an expiry an ID can come again, a counter
    # cannot (S6.4).
    if what < 4:
        entry_id = (
            (naive.entries[-1].entry_id if naive.entries else make(one % 3, 0))
            + 1
            + (one % 5 << 63)
        )
        counter += 1 + one % 3
        append(log, entry_id, counter, fields)
        naive.append(entry_id, counter, fields)
    elif what < 7:
        first_id = (naive.entries[-1].entry_id if naive.entries else 0) + 1
        adds = [(first_id + offset * (1 + (two << 63)), fields) for offset in range(1 + one % 9)]
        run: AddRun = add_run(b"k", adds, counter + 1)
        log.append_run(
            run.names,
            run.data,
            run.base_counter,
            run.count,
            run.last_ms,
            run.last_seq,
            counter + run.count,
        )
        for entry_id, _ in adds:
            counter += 1
            naive.append(entry_id, counter, fields)
    elif what < 10:
        chosen = (
            naive.entries[one % len(naive.entries)].counter if naive.entries and one % 7 else one
        )
        assert log.remove(chosen) == naive.remove(chosen)
    elif what == 10:
        chosen = (
            naive.entries[one * 2 % len(naive.entries)].counter + two % 2 if naive.entries else one
        )
        assert log.remove_prefix(chosen) == naive.remove_prefix(chosen)
    else:
        # Fills the caches of hashes, so that later steps must keep them up to date.
        log.digest_share()
    return counter


@settings(max_examples=400)
@given(st.sampled_from(LIMITS), st.sampled_from(LIMITS), steps)
def test_region_log_is_a_list(limits: NodeLimits, others: NodeLimits, history: list[Step]) -> None:
    log, naive, counter = RegionLog(3, limits), NaiveLog(3), 0
    for step in history:
        counter = take(log, naive, step, counter)
    same(log, naive)
    other = relaid(log, others)
    assert other.digest_share() == log.digest_share(), "the digest depends on the layout"


@settings(max_examples=60)
@given(st.sampled_from(LIMITS), steps)
def test_region_log_is_a_list_after_every_step(limits: NodeLimits, history: list[Step]) -> None:
    log, naive, counter = RegionLog(3, limits), NaiveLog(3), 0
    for step in history:
        counter = take(log, naive, step, counter)
        same(log, naive)
        assert relaid(log, NodeLimits(2, 0)).digest_share() == log.digest_share()


def test_entry_that_changes_changes_the_share() -> None:
    """The digest share depends on every part of an entry.

    The parts are region, counter, ID, fields, their order, and the boundaries between them.
    """
    variants: list[tuple[int, int, int, Fields]] = [
        (1, 1, 5, (b"a", b"1")),
        (2, 1, 5, (b"a", b"1")),
        (1, 2, 5, (b"a", b"1")),
        (1, 1, 6, (b"a", b"1")),
        (1, 1, 5, (b"a1", b"")),
        (1, 1, 5, (b"", b"a1")),
        (1, 1, 5, (b"a", b"1", b"b", b"2")),
        (1, 1, 5, (b"b", b"2", b"a", b"1")),
        (1, 1, 5, (b"a", b"1", b"a", b"1")),
    ]
    shares = set()
    for region_id, counter, entry_id, fields in variants:
        log = RegionLog(region_id, NodeLimits())
        append(log, entry_id, counter, fields)
        shares.add(log.digest_share())
    assert len(shares) == len(variants)


def test_share_is_the_same_whether_names_are_the_nodes_or_the_entrys() -> None:
    """The digest share does not depend on where the field names are stored (S12.1).

    An entry whose names differ from those of its node carries its own names.
    """
    one, other = RegionLog(1, NodeLimits(10, 0)), RegionLog(1, NodeLimits(1, 0))
    for log in (one, other):
        append(log, 5, 1, (b"a", b"1"))
        append(log, 6, 2, (b"b", b"2"))
    assert (len(one.node_map.nodes), len(other.node_map.nodes)) == (1, 2)
    assert one.digest_share() == other.digest_share()


def test_sparse_nodes_are_rewritten_and_glued() -> None:
    """S12.2: two full nodes become one when most of their entries are deleted."""
    log = RegionLog(1, NodeLimits(10, 0))
    for counter in range(1, 21):
        append(log, counter, counter, (b"f", b"v"))
    assert len(log.node_map.nodes) == 2
    for counter in range(1, 21):
        if counter % 5:
            log.remove(counter)
    assert [log.length, len(log.node_map.nodes)] == [4, 1]


# -- the logical stream

placements = st.lists(st.tuples(st.integers(1, 3), st.integers(1, 9), st.booleans()), max_size=40)


def streams(placed: list[tuple[int, int, bool]]) -> tuple[dict[int, RegionLog], list[NaiveEntry]]:
    """Region logs and all their entries: IDs ascend in each log, and often coincide across logs."""
    logs: dict[int, RegionLog] = {}
    entries: list[NaiveEntry] = []
    for number, (region_id, step, removes) in enumerate(placed, 1):
        log = logs.setdefault(region_id, RegionLog(region_id, NodeLimits(2, 0)))
        mine = [entry for entry in entries if entry.region_id == region_id]
        entry_id = (mine[-1].entry_id if mine else 0) + step
        append(log, entry_id, number, (b"n", b"%d" % number))
        entries.append(NaiveEntry(entry_id, region_id, number, (b"n", b"%d" % number)))
        if removes:
            log.remove(mine[0].counter if mine else number)
            entries.remove(mine[0] if mine else entries[-1])
    return logs, entries


def as_naive(entries: Entries) -> list[NaiveEntry]:
    found = entries.listed()
    assert entries.count == len(found)
    return [NaiveEntry(e.entry_id, e.region_id, e.counter, tuple(e.fields)) for e in found]


@settings(max_examples=300)
@given(placements, st.integers(0, 60), st.integers(0, 60), st.integers(-1, 8))
def test_merge_is_sorting(
    placed: list[tuple[int, int, bool]], start: int, end: int, count: int
) -> None:
    logs, entries = streams(placed)
    ordered = [entry for entry in naive_log.logical(entries) if start <= entry.entry_id <= end]
    assert as_naive(merge.forward(logs, start, end, count)) == naive_log.page(ordered, count)
    assert as_naive(merge.backward(logs, start, end, count)) == naive_log.page(ordered[::-1], count)
    whole = naive_log.logical(entries)
    first, last = merge.first_entry(logs), merge.last_entry(logs)
    assert (None if first is None else first.entry_id) == (whole[0].entry_id if whole else None)
    assert (None if last is None else last.entry_id) == (whole[-1].entry_id if whole else None)
    for entry_id in range(start, start + 3):
        dots = [(entry.region_id, entry.counter) for entry in whole if entry.entry_id == entry_id]
        assert merge.with_id(logs, entry_id) == dots


def test_count_never_cuts_between_entries_of_one_id() -> None:
    """S7.1, with seed 5's duplicate 100-1 in two regions: a page of one entry holds both.

    Otherwise paging on from 100-1 would skip the second.
    """
    logs, _ = streams([(1, 5, False), (2, 5, False), (1, 3, False)])
    upward = as_naive(merge.forward(logs, 0, MAX_ID, 1))
    assert [(each.entry_id, each.region_id) for each in upward] == [(5, 1), (5, 2)]
    down = as_naive(merge.backward(logs, 0, 7, 1))
    assert [(each.entry_id, each.region_id) for each in down] == [(5, 2), (5, 1)]
    assert merge.forward(logs, 0, MAX_ID, 0).count == 0


@settings(max_examples=200)
@given(placements, st.integers(0, 30), st.integers(0, 60), st.integers(0, 9))
def test_trims_are_prefixes(
    placed: list[tuple[int, int, bool]], length_max: int, least_id: int, limit: int
) -> None:
    logs, entries = streams(placed)
    excess = max(0, len(entries) - length_max)
    for prefix, expected in (
        (merge.prefix_of_count(logs, excess), naive_log.trim_to_length(entries, length_max)),
        (merge.prefix_below_id(logs, least_id), naive_log.trim_below_id(entries, least_id)),
    ):
        assert prefix == expected
        whole = merge.whole_nodes(logs, prefix, limit)
        removed = 0
        for region_id, counter in whole.items():
            assert counter <= prefix[region_id]
            assert all(
                node.last_counter <= counter or node.base_counter >= counter
                for node in logs[region_id].node_map.nodes
            ), "a node is cut"
            removed += sum(
                1 for entry in entries if entry.region_id == region_id and entry.counter <= counter
            )
        assert not limit or removed <= limit
