"""The judges of invariants 7, 8, 11 and 12 accept right histories and reject wrong ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Optional

import pytest

from anabranch.crdt.block import Block, BlockWriter, chain_after
from anabranch.crdt.effects import (
    Acknowledge,
    CreateGroup,
    Delete,
    DestroyGroup,
    Effect,
    Flush,
    RemoveEntries,
    SetDeadline,
    SetId,
    Trim,
)
from anabranch.crdt.ids import parse
from anabranch.crdt.node import encode_names, encode_values
from anabranch.crdt.spans import Spans
from anabranch.region.engine.replies import NULL_ARRAY, OK, ErrorReply, MapReply, Reply
from anabranch.sim.checkers.group_reads import GroupReads
from anabranch.sim.checkers.liveness import Liveness
from anabranch.sim.checkers.redelivery import Redelivery
from anabranch.sim.checkers.same_trace import compare
from anabranch.sim.history import (
    Began,
    Checker,
    Committed,
    End,
    Moved,
    Operation,
    Setup,
    Shown,
    Stopped,
    Vector,
    Words,
)

KEY = b"jobs"
NOTHING = NULL_ARRAY


def entry(text: str, token: int) -> list[Reply]:
    return [text.encode(), [b"t", b"%d" % token]]


def read(*entries: list[Reply]) -> Reply:
    """A reply of XREADGROUP or XREAD."""
    return [[KEY, list(entries)]]


A, B, C, D = entry("10-1", 1), entry("20-1", 2), entry("30-2", 3), entry("40-1", 4)


class Story:
    """A history made by hand for one judge.

    The effects of a region are on its disk at once, unless `holds` is set.
    """

    def __init__(self, judge: type[Checker], regions: int = 2) -> None:
        self.late_arrivals = 0
        ids = tuple(range(1, regions + 1))
        settings = {one: {"crdt-start-patience-ms": "100"} for one in ids}
        self.judge = judge(Setup(0, ids, settings, (KEY,), self.ask))
        self.is_received = True
        self.vectors: dict[int, Vector] = {one: {} for one in ids}
        self.starts = dict.fromkeys(ids, 1)
        self.unsaved: dict[int, list[Block]] = {one: [] for one in ids}
        self.holds = False
        self.at_ms = 1000
        self.number = 0
        for one in ids:
            self.judge.began(Began(one, 1, "first", 1, {}, self.at_ms))

    def ask(self, region: int, words: Words) -> Reply:
        """The replies to the questions of the judge."""
        if words[0] == b"CRDT.PEERS":
            return [MapReply([b"name", b"eu", b"receives_from_here", int(self.is_received)])]
        return b"crdt_xread_late_arrivals:%d\r\n" % self.late_arrivals

    def _issue(self, region: int, effects: list[Effect], adds: list[tuple[str, int]]) -> Vector:
        """Issues effects. Returns the vector after them."""
        vector = dict(self.vectors[region])
        writer = BlockWriter(region, vector.get(region, 0) + 1, 100, 4096)
        for text, token in adds:
            entry_id = parse(text.encode())
            writer.add(
                KEY,
                entry_id >> 64,
                entry_id & (1 << 64) - 1,
                encode_names([b"t"]),
                encode_values([b"%d" % token]),
            )
        for effect in effects:
            writer.put(effect)
        if writer.last >= writer.first:
            body = writer.body()
            self.unsaved[region].append(
                Block(region, writer.first, writer.last, body, chain_after(bytes(16), body))
            )
            vector[region] = writer.last
        return vector

    def run(
        self,
        region: int,
        words: str,
        reply: Reply,
        *effects: Effect,
        adds: Optional[list[tuple[str, int]]] = None,
        queued: tuple[str, ...] = (),
        waited: bool = False,
        always: bool = False,
        answered: bool = True,
        number: int = 0,
    ) -> Operation:
        """One command with its reply and its effects."""
        self.at_ms += 10
        self.number += 1
        before = self.vectors[region]
        split = [tuple(one.encode().split()) for one in (words, *queued)]
        operation = Operation(
            number or self.number,
            1,
            region,
            self.starts[region],
            split[0],
            tuple(split[1:]),
            self.at_ms,
            self.at_ms,
            before,
            always,
        )
        operation.after = self.vectors[region] = self._issue(region, list(effects), adds or [])
        operation.reply, operation.has_reply, operation.waited = reply, True, waited
        self.judge.executed(operation)
        if not self.holds:
            self.commit(region)
        if answered:
            operation.answered_ms = self.at_ms
            self.judge.answered(operation)
        return operation

    def add(self, region: int, text: str, token: int) -> None:
        self.run(region, f"XADD jobs * t {token}", text.encode(), adds=[(text, token)])

    def create(self, region: int, start: str = "0") -> None:
        vector = dict(self.vectors[region])
        effect = CreateGroup(
            KEY, b"g", 0 if start == "$" else parse(start.encode()), start == "$", vector
        )
        self.run(region, f"XGROUP CREATE jobs g {start}", OK, effect)

    def take(self, region: int, reply: Reply, more: str = "", always: bool = False) -> Operation:
        return self.run(region, f"XREADGROUP GROUP g c {more} STREAMS jobs >", reply, always=always)

    def ack(self, region: int, ids: str, reply: int, always: bool = False) -> Operation:
        return self.run(region, f"XACK jobs g {ids}", reply, always=always)

    def tick(self, region: int, *effects: Effect) -> None:
        """Effects that a region issues without a command."""
        self._move(region, "tick", self._issue(region, list(effects), []))

    def announce(
        self,
        region: int,
        origin: int,
        start: int,
        end: int,
        creates: Optional[list[tuple[int, int]]] = None,
    ) -> None:
        spans = Spans()
        spans.add(start, end, 0)
        self.tick(region, Acknowledge(KEY, b"g", creates or [(1, 1)], {origin: spans}))

    def merge(self, region: int, how: str = "merge") -> None:
        """The region receives all that the others have on their disks."""
        vector = dict(self.vectors[region])
        for other in self.vectors.values():
            for origin, counter in other.items():
                vector[origin] = max(counter, vector.get(origin, 0))
        self._move(region, how, vector)

    def _move(self, region: int, how: str, after: Vector) -> None:
        self.at_ms += 10
        before, self.vectors[region] = self.vectors[region], after
        learned = how != "tick" and after.get(region, 0) > before.get(region, 0)
        self.judge.moved(
            Moved(region, self.starts[region], how, before, after, self.at_ms, self.at_ms, learned)
        )
        if not self.holds:
            self.commit(region)

    def commit(self, region: int) -> None:
        blocks, self.unsaved[region] = self.unsaved[region], []
        vector = dict(self.vectors[region])
        # Steps from before the end of a commit are certain at the end of the next commit.
        for _ in range(2):
            self.judge.committed(Committed(region, self.starts[region], vector, blocks, self.at_ms))
            blocks = []

    def restart(self, region: int, how: str, vector: Vector) -> None:
        self.at_ms += 10
        self.judge.stopped(Stopped(region, self.starts[region], how, vector, self.at_ms))
        self.starts[region] += 1
        self.vectors[region] = dict(vector)
        self.unsaved[region] = []
        self.judge.began(Began(region, self.starts[region], how, 2, dict(vector), self.at_ms))

    def end(self, converged_ms: Optional[int] = 50) -> list[str]:
        """The texts of the judge's violations."""
        self.judge.healed(self.at_ms)
        for _ in range(2):
            self.at_ms += 1000
            shown = {
                one: Shown(one, dict(vector), b"", self.at_ms)
                for one, vector in self.vectors.items()
            }
            self.judge.shown(shown)
        self.judge.finish(End(converged_ms, 20_000, self.at_ms, shown, "because"))
        return [violation.text for violation in self.judge.violations]


def begun(judge: type[Checker] = GroupReads) -> Story:
    """A group at 0, created by dot (1, 1), and entries A (1, 2), B (1, 3) and C (2, 1) of region 2.

    Both regions have all effects.
    """
    story = Story(judge)
    story.create(1)
    story.add(1, "10-1", 1)
    story.add(1, "20-1", 2)
    story.merge(2)
    story.add(2, "30-2", 3)
    story.merge(1)
    return story


# -- 7: the right histories


def test_what_is_read_acknowledged_and_announced_as_it_must_be() -> None:
    story = begun()
    story.take(1, read(A, B), more="COUNT 2")
    story.run(1, "XREADGROUP GROUP g c STREAMS jobs 0", read(A, B))
    story.run(1, "XPENDING jobs g", [2, b"10-1", b"20-1", [[b"c", b"2"]]])
    story.ack(1, "10-1", 1)
    story.announce(1, 1, 0, 2)
    story.merge(2)
    # A is acknowledged. B is not, so region 2 delivers it, too.
    story.take(2, read(B, C), more="NOACK")
    story.announce(2, 1, 2, 3)
    story.announce(2, 2, 0, 1)
    story.merge(1)
    story.run(1, "XREADGROUP GROUP g c STREAMS jobs 0", read())  # region 2's announcement took B
    story.take(1, NOTHING)
    story.take(2, NOTHING)
    assert story.end() == []


def test_claims_and_consumers_move_pending_entries() -> None:
    story = begun()
    story.take(1, read(A, B, C))
    idle = story.at_ms
    story.run(1, "XCLAIM jobs g d 0 10-1 20-1 RETRYCOUNT 5", [A, B])
    story.run(
        1,
        "XPENDING jobs g - + 9",
        [
            [b"10-1", b"d", 10, 5],
            [b"20-1", b"d", 10, 5],
            [b"30-2", b"c", story.at_ms + 10 - idle, 1],
        ],
    )
    story.run(1, "XAUTOCLAIM jobs g e 0 - COUNT 2 JUSTID", [b"30-2", [b"10-1", b"20-1"], []])
    story.run(1, "XAUTOCLAIM jobs g e 5000 -", [b"0-0", [], []])
    story.run(1, "XDEL jobs 10-1", 1, RemoveEntries(KEY, [(1, 2)]))
    story.run(1, "XREADGROUP GROUP g e STREAMS jobs 0", read([b"10-1", NOTHING], B))
    story.run(1, "XAUTOCLAIM jobs g f 0 -", [b"0-0", [B, C], [b"10-1"]])
    story.run(1, "XGROUP DELCONSUMER jobs g f", 2)
    story.run(1, "XPENDING jobs g", [0, None, None, NOTHING])
    story.run(1, "XCLAIM jobs g f 99 20-1 FORCE JUSTID", [b"20-1"])
    story.run(
        1,
        "XINFO GROUPS jobs",
        [MapReply([b"name", b"g", b"consumers", 4, b"pending", 1, b"lag", 0])],
    )
    story.merge(2)
    story.take(2, read(B, C))
    assert story.end() == []


def test_setid_and_lastid_jump_and_go_back() -> None:
    story = begun()
    story.run(1, "XGROUP SETID jobs g 10-1", OK)
    story.take(1, read(B), more="COUNT 1")
    story.run(1, "XCLAIM jobs g c 0 20-1 LASTID 30-2", [B])
    story.take(1, NOTHING)
    story.run(1, "XGROUP SETID jobs g 0", OK)
    story.take(1, read(A, B, C))
    story.take(2, read(A, B, C))
    assert story.end() == []


def test_a_group_begins_anew_once_none_of_its_creates_is_left() -> None:
    story = begun()
    story.take(1, read(A, B, C))
    story.run(1, "XGROUP DESTROY jobs g", 1, DestroyGroup(KEY, b"g"))
    story.take(1, ErrorReply("NOGROUP No such key 'jobs' or consumer group 'g'"))
    story.create(1)
    story.take(1, read(A, B, C))
    story.merge(2, "join")
    story.take(2, read(A, B, C))
    assert story.end() == []


def test_a_woken_reader_may_be_reported_after_the_command_behind_the_one_that_woke_it() -> None:
    story = begun()
    story.take(1, read(A, B, C))
    story.number += 1
    waiting = story.number
    story.holds = True
    story.run(1, "XADD jobs * t 4", b"40-1", adds=[("40-1", 4)])
    story.at_ms -= 10
    # The client that added D reads in the same pipeline; the waiting reader had D before.
    story.take(1, NOTHING)
    story.run(
        1, "XREADGROUP GROUP g d BLOCK 99 STREAMS jobs >", read(D), waited=True, number=waiting
    )
    story.holds = False
    story.commit(1)
    story.run(1, "XREADGROUP GROUP g d STREAMS jobs 0", read(D))
    assert story.judge.violations == []


def test_a_transaction_acknowledges_before_it_deletes() -> None:
    story = begun()
    story.take(1, read(A, B, C))
    vector = dict(story.vectors[1])
    again = CreateGroup(KEY, b"g", 0, False, {**vector, 1: vector[1] + 1})
    story.run(
        1,
        "EXEC",
        [1, 1, OK, 0],
        Delete(KEY, vector),
        again,
        queued=(
            "XACK jobs g 10-1",
            "DEL jobs",
            "XGROUP CREATE jobs g 0 MKSTREAM",
            "XACK jobs g 20-1",
        ),
    )
    story.merge(2)
    assert story.end() == []


def test_in_a_transaction_what_changed_nothing_issued_nothing() -> None:
    story = begun()
    queued = ("PERSIST jobs", "XREADGROUP GROUP g c STREAMS jobs >", "EXPIRE jobs 0")
    story.run(1, "EXEC", [0, [[KEY, [A, B, C]]], 1], SetDeadline(KEY, 0, []), queued=queued)
    assert story.judge.violations == []


def test_in_a_transaction_an_xadd_that_trimmed_nothing_leaves_the_trim_to_the_xtrim() -> None:
    story = begun()
    read_new = "XREADGROUP GROUP g c STREAMS jobs >"
    queued = (
        read_new,
        "XADD jobs MAXLEN ~ 9 * t 4",
        read_new,
        "XTRIM jobs MAXLEN 0",
        "XREADGROUP GROUP g d STREAMS jobs 0",
    )
    replies: Reply = [[[KEY, [A, B, C]]], b"40-1", [[KEY, [D]]], 4, [[KEY, []]]]
    story.run(1, "EXEC", replies, Trim(KEY, {1: 4, 2: 1}, False), adds=[("40-1", 4)], queued=queued)
    assert story.judge.violations == []


def test_in_a_transaction_a_rename_onto_itself_issues_nothing() -> None:
    """Seed 1011257: the judge took the adds after the RENAME for effects of the RENAME."""
    story = begun()
    queued = (
        "RENAME jobs jobs",
        "XREADGROUP GROUP g c STREAMS jobs >",
        "XADD jobs * t 4",
        "XSETID jobs 50-1",
    )
    story.run(
        1,
        "EXEC",
        [OK, [[KEY, [A, B, C]]], b"40-1", OK],
        SetId(KEY, (50 << 64) + 1),
        adds=[("40-1", 4)],
        queued=queued,
    )
    assert story.judge.violations == []


def test_in_a_transaction_that_cannot_be_followed_a_group_may_begin() -> None:
    """Seed 1305662: two commands may have issued the trim. The group after it counted as known."""
    story = Story(GroupReads)
    queued = (
        "XADD jobs MAXLEN 3 * t 1",
        "XGROUP CREATE jobs g 0",
        "XREADGROUP GROUP g c STREAMS jobs >",
        "XADD jobs MAXLEN 6 1-1 t 2",
    )
    replies: Reply = [b"10-1", OK, read(A), ErrorReply("ERR The ID is equal or smaller")]
    create = CreateGroup(KEY, b"g", 0, False, {1: 2})
    story.run(
        1, "EXEC", replies, Trim(KEY, {2: 9}, False), create, adds=[("10-1", 1)], queued=queued
    )
    story.run(1, "XINFO GROUPS jobs", [MapReply([b"name", b"g", b"pending", 1, b"lag", 1])])
    assert story.judge.violations == []


def test_a_reader_whose_time_was_over_was_not_woken() -> None:
    """Seed 1011968: a read and the destroy of its group waited for the end of a start.

    The read had its reply before the group went.
    """
    story = begun()
    story.take(1, read(A, B, C))
    story.holds = True
    story.run(1, "XREADGROUP GROUP g c BLOCK 9 NOACK STREAMS jobs >", NOTHING, waited=True)
    story.at_ms -= 10  # at the same moment
    story.run(1, "XGROUP DESTROY jobs g", 1, DestroyGroup(KEY, b"g"), waited=True)
    story.commit(1)
    assert story.judge.violations == []


# -- 7: the wrong ones


@pytest.mark.parametrize(
    ("reply", "what"),
    [
        (read(A, C), "skipped 20-1 (token 2)"),
        (read(B, C), "skipped 10-1 (token 1)"),
        (NOTHING, "skipped 10-1 (token 1)"),
        (read(A, B), "skipped 30-2 (token 3)"),
        (read(A, C, B), "skipped 20-1 (token 2)"),
        (read(A, B, C, C), "repeated 30-2"),
        (read(A, B, entry("25-1", 9), C), "25-1, which is not in the stream"),
        (ErrorReply("NOGROUP No such key 'jobs' or consumer group 'g'"), "every group is live"),
    ],
)
def test_a_wrong_reply_to_a_group_read_is_found(reply: Reply, what: str) -> None:
    story = begun()
    story.take(1, reply)
    found = story.end()
    assert found
    assert what in found[0] or (what.startswith("repeated") and "out of order" in found[0])


def test_a_repeat_is_found() -> None:
    story = begun()
    story.take(1, read(A, B, C))
    story.take(1, read(B))
    assert "repeated 20-1 (token 2)" in story.end()[0]


def test_an_entry_below_the_floor_is_found() -> None:
    story = begun()
    story.run(1, "XGROUP SETID jobs g 20-1", OK)
    story.take(1, read(B, C))
    assert "20-1 (token 2), which lies below the floor" in story.end()[0]


def test_an_entry_acknowledged_elsewhere_is_not_handed_out() -> None:
    story = begun()
    story.take(1, read(A, B, C), more="NOACK")
    story.announce(1, 1, 0, 3)
    story.merge(2)
    story.take(2, read(A, B, C))
    assert "repeated 10-1" in story.end()[0]


@pytest.mark.parametrize(
    ("end", "what"),
    [(2, "which is pending for c"), (3, "which was not delivered"), (9, "does not have")],
)
def test_a_false_announcement_is_found(end: int, what: str) -> None:
    story = begun()
    story.take(1, read(A), more="COUNT 1")
    story.announce(1, 1, 0, 2) if end == 2 else None
    if end == 3:
        story.ack(1, "10-1", 1)
        story.announce(1, 1, 0, 3)
    if end == 9:
        story.ack(1, "10-1", 1)
        story.announce(1, 1, 0, 2)
        story.add(2, "35-2", 5)
        story.announce(1, 2, 1, 2)
    assert any(what in text for text in story.end())


def test_an_announcement_of_what_went_with_its_consumer_is_found() -> None:
    story = begun()
    story.take(1, read(A, B, C))
    story.run(1, "XGROUP DELCONSUMER jobs g c", 3)
    story.announce(1, 1, 0, 2)
    assert "which DELCONSUMER dropped" in story.end()[0]


@pytest.mark.parametrize("is_received", [False, True])
def test_an_acknowledgement_that_is_never_announced_is_found(is_received: bool) -> None:
    story = begun()
    story.take(1, read(A, B, C))
    story.ack(1, "10-1", 1)
    story.take(2, read(A, B, C))
    story.is_received = is_received
    assert (
        story.end()
        == ["group g of jobs: 10-1 acknowledged here, but never announced"] * is_received
    )


def test_an_entry_that_is_never_handed_out_is_found() -> None:
    story = begun()
    story.take(1, read(A, B, C))
    assert story.end() == ["group g of jobs: 10-1 was never delivered and never acknowledged"]


Wrong = Callable[[Story], object]


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        (
            lambda s: s.run(1, "XREADGROUP GROUP g d STREAMS jobs 0", read(A)),
            "pending for d are none",
        ),
        (
            lambda s: s.run(1, "XREADGROUP GROUP g c STREAMS jobs 0", read(A, C)),
            "pending for c are 10-1 20-1 30-2",
        ),
        (
            lambda s: s.run(1, "XREADGROUP GROUP g c STREAMS jobs 0", read(A, C, B)),
            "pending for c is 20-1, shown is 30-2",
        ),
        (
            lambda s: s.run(1, "XPENDING jobs g", [2, b"10-1", b"20-1", [[b"c", b"2"]]]),
            "the summary of XPENDING",
        ),
        (
            lambda s: s.run(1, "XPENDING jobs g", [0, None, None, NOTHING]),
            "the summary of XPENDING",
        ),
        (
            lambda s: s.run(1, "XPENDING jobs g - + 9 d", [[b"10-1", b"d", 10, 1]]),
            "the range of XPENDING is",
        ),
        (
            lambda s: s.run(1, "XPENDING jobs g - + 1", [[b"10-1", b"c", 10, 2]]),
            "the range of XPENDING is",
        ),
        (lambda s: s.ack(1, "10-1 20-1", 1), "1 acknowledged where 2 were pending"),
        (lambda s: s.ack(1, "11-1", 1), "1 acknowledged where 0 were pending"),
        (lambda s: s.run(1, "XCLAIM jobs g d 0 10-1 20-1", [A]), "claimed 10-1 where 10-1 20-1"),
        (lambda s: s.run(1, "XCLAIM jobs g d 5000 10-1", [A]), "claimed 10-1 where nothing"),
        (lambda s: s.run(1, "XAUTOCLAIM jobs g d 0 - COUNT 1", [b"0-0", [A], []]), "must be"),
        (lambda s: s.run(1, "XGROUP DELCONSUMER jobs g c", 1), "where 3 were pending for it"),
        (
            lambda s: s.run(
                1, "XINFO CONSUMERS jobs g", [MapReply([b"name", b"c", b"pending", 2])]
            ),
            "pending for consumers",
        ),
        (
            lambda s: s.run(
                1, "XINFO GROUPS jobs", [MapReply([b"name", b"g", b"pending", 3, b"lag", 1])]
            ),
            "lag is 1, not 0",
        ),
        (lambda s: s.run(1, "XINFO GROUPS jobs", []), "groups [] shown where"),
        (lambda s: s.run(1, "XPENDING jobs h", [0, None, None, NOTHING]), "is not live"),
        (lambda s: s.run(1, "XACK jobs h 10-1", 1), "is not live"),
    ],
)
def test_a_wrong_reply_about_what_is_pending_is_found(wrong: Wrong, what: str) -> None:
    story = begun()
    story.take(1, read(A, B, C))
    wrong(story)
    assert what in story.end()[0]


def test_delref_takes_pending_entries_along() -> None:
    for keeps in (False, True):
        story = begun()
        story.take(2, read(A, B, C))
        story.run(1, "XTRIM jobs MAXLEN 2 DELREF", 1, Trim(KEY, {1: 2}, True))
        story.merge(2)
        count, first = (3, b"10-1") if keeps else (2, b"20-1")
        story.run(2, "XPENDING jobs g", [count, first, b"30-2", [[b"c", b"%d" % count]]])
        assert bool(story.judge.violations) == keeps


def test_a_reader_woken_before_its_entry_goes_with_delref_in_the_same_merge() -> None:
    """Seed 1016914: the judge counted the delivered entry as pending, and XACK found none."""
    for acknowledged in (0, 1):
        story = begun()
        story.take(1, read(A, B, C))
        story.add(2, "40-2", 4)
        story.run(2, "XTRIM jobs MAXLEN 0 DELREF", 4, Trim(KEY, {1: 3, 2: 2}, True))
        waiting = story.number = story.number + 1
        story.holds = True
        story.merge(1)
        story.run(
            1,
            "XREADGROUP GROUP g d BLOCK 99 STREAMS jobs >",
            read(entry("40-2", 4)),
            waited=True,
            number=waiting,
        )
        story.commit(1)
        story.ack(1, "40-2", acknowledged)
        story.commit(1)
        assert bool(story.judge.violations) == bool(acknowledged), story.judge.violations


def test_a_reader_that_is_not_woken_is_found() -> None:
    story = begun()
    story.take(1, read(A, B, C))
    story.add(1, "40-1", 4)
    story.run(1, "XREADGROUP GROUP g d BLOCK 99 STREAMS jobs >", NOTHING, waited=True, number=1)
    assert "skipped 40-1" in story.end()[0]


# -- 7: crashes and backups


def crashed(always: bool) -> Story:
    """Region 1 delivers A and B and receives the XACK of A; then it is killed."""
    story = begun()
    vector = dict(story.vectors[1])
    story.holds = True
    story.take(1, read(A, B), more="COUNT 2", always=always)
    story.ack(1, "10-1", 1, always=always)
    story.restart(1, "kill", vector)
    story.holds = False
    return story


@pytest.mark.parametrize(
    ("reply", "pending"),
    [
        (read(A, B, C), [3, b"10-1", b"30-2", [[b"c", b"3"]]]),  # no record was on disk
        (read(C), [3, b"10-1", b"30-2", [[b"c", b"3"]]]),  # the delivery was on disk
        (read(C), [2, b"20-1", b"30-2", [[b"c", b"2"]]]),  # both records were on disk
    ],
)
def test_a_crash_may_take_the_last_local_records(reply: Reply, pending: Reply) -> None:
    story = crashed(False)
    story.take(1, reply)
    story.run(1, "XPENDING jobs g", pending)
    assert story.judge.violations == []


@pytest.mark.parametrize(
    ("reply", "pending"),
    [
        (NOTHING, None),  # C was never delivered
        (read(B, C), None),  # a delivery survives as a whole or not at all
        # The acknowledgement survives, and the delivery before it does not.
        (read(A, B, C), [2, b"20-1", b"30-2", [[b"c", b"2"]]]),
    ],
)
def test_a_crash_takes_no_more_than_the_last_ones(reply: Reply, pending: Reply) -> None:
    story = crashed(False)
    story.take(1, reply)
    if pending:
        story.run(1, "XPENDING jobs g", pending)
    assert story.judge.violations


def test_what_was_answered_under_always_is_not_handed_out_again() -> None:
    story = crashed(True)
    story.take(1, read(A, B, C))
    assert "repeated 10-1" in story.judge.violations[0].text
    story = crashed(True)
    story.take(1, read(C))
    story.run(1, "XPENDING jobs g", [2, b"20-1", b"30-2", [[b"c", b"2"]]])
    assert story.judge.violations == []


def test_the_refusal_of_a_write_puts_nothing_on_disk() -> None:
    """Seed 901480: the judge took an answered refusal for a sign that earlier steps were on disk.

    A refusal reflects nothing (S13.4), so it overtakes the reply of a read that waits for the disk.
    """
    story = begun()
    vector = dict(story.vectors[1])
    story.holds = True
    story.run(1, "XREADGROUP GROUP g c COUNT 2 STREAMS jobs >", read(A, B), answered=False)
    refusal = ErrorReply("MISCONF this region takes no writes: its last commit to disk failed")
    story.run(1, "XADD jobs * t 9", refusal, always=True)
    story.restart(1, "kill", vector)
    story.holds = False
    story.take(1, read(A, B, C))
    assert story.judge.violations == []


def test_a_clean_stop_takes_nothing() -> None:
    story = begun()
    vector = dict(story.vectors[1])
    story.holds = True
    story.take(1, read(A, B, C))
    story.restart(1, "clean", vector)
    story.holds = False
    story.take(1, read(A, B, C))
    assert "repeated 10-1" in story.judge.violations[0].text


def test_effects_that_only_the_next_start_tells_of_count_as_done() -> None:
    """The process died after its commit was on disk and before it reported the commit."""
    for skips in (False, True):
        story = begun()
        story.take(1, read(A, B, C))
        story.holds = True
        story.add(1, "40-1", 4)
        story.take(1, read(D))
        unsaved = story.unsaved[1]
        story.restart(1, "kill", {1: 4, 2: 1})
        story.unsaved[1] = unsaved
        story.holds = False
        story.commit(1)
        story.add(1, "50-1", 5)
        story.take(1, read(entry("50-1", 5)))
        story.run(
            1,
            "XREADGROUP GROUP g c STREAMS jobs 30-2",
            read(*[entry("50-1", 5)] if skips else [D, entry("50-1", 5)]),
        )
        assert bool(story.judge.violations) == skips


@pytest.mark.parametrize("announced", [False, True])
def test_a_restored_region_has_what_the_backup_had_and_hears_its_own_announcements_as_others(
    announced: bool,
) -> None:
    story = begun()
    vector = dict(story.vectors[1])
    story.take(1, read(A, B, C))
    story.ack(1, "10-1", 1)
    story.announce(1, 1, 0, 2)
    story.merge(2)
    story.restart(1, "backup", vector)
    if announced:
        story.merge(1)
    story.take(1, read(B, C) if announced else read(A, B, C))
    assert story.judge.violations == []


def test_a_restored_region_skips_nothing() -> None:
    story = begun()
    vector = dict(story.vectors[1])
    story.add(1, "40-1", 4)
    story.merge(2)
    story.take(1, read(A, B, C, D))
    story.restart(1, "backup", vector)
    story.merge(1)
    story.take(1, read(A, B, C))
    assert "skipped 40-1" in story.judge.violations[0].text


# -- 7: XREAD


def test_xread_shows_what_lies_above_the_id_and_counts_what_comes_below() -> None:
    story = begun()
    story.run(1, "XREAD STREAMS jobs 10-1", read(B, C))
    story.run(1, "XREAD COUNT 1 STREAMS jobs 0", read(A))
    story.run(1, "XREAD STREAMS jobs 30-2", NOTHING)
    story.run(1, "XREAD STREAMS jobs +", read(C))
    story.add(2, "30-5", 7)
    story.add(2, "30-7", 8)
    story.merge(1)
    story.run(
        1, "XREAD BLOCK 9 STREAMS jobs $", read(entry("30-5", 7), entry("30-7", 8)), waited=True
    )
    story.run(2, "XREAD STREAMS jobs 30-2", read(entry("30-5", 7), entry("30-7", 8)))
    story.add(1, "30-6", 9)
    story.merge(2)
    for region in (1, 2):
        story.take(region, read(A, B, C, entry("30-5", 7), entry("30-6", 9), entry("30-7", 8)))
    judge = story.judge
    assert isinstance(judge, GroupReads)
    story.end()
    assert judge.models[2].late_arrivals == 1
    assert [violation.region for violation in judge.violations] == [2]  # INFO shows 0
    assert "the region counts 0" in judge.violations[0].text


def test_a_read_that_a_command_of_the_same_step_makes_the_region_forget() -> None:
    """Seed 505398: an XREAD, the XADD that woke it and a FLUSHALL waited for the end of a start.

    The region forgot the read with the key; the judge counted what came below its ID later.
    """
    for is_flushed in (True, False):
        story = begun()
        story.run(2, "XADD jobs 35-1 t 5", b"35-1", adds=[("35-1", 5)])
        effects: list[Effect] = [Flush({1: 4})] if is_flushed else []
        waiting = story.number = story.number + 1
        story.holds = True
        story._move(1, "waited", story._issue(1, effects, [("40-1", 4)]))
        story.run(1, "XREAD BLOCK 9 STREAMS jobs 30-2", read(D), waited=True, number=waiting)
        story.commit(1)
        story.merge(1)
        story.commit(1)
        judge = story.judge
        assert isinstance(judge, GroupReads) and judge.models[1].late_arrivals == 1
        assert any("the region counts 0" in text for text in story.end()) != is_flushed


@pytest.mark.parametrize(
    ("words", "reply"),
    [
        ("XREAD STREAMS jobs 10-1", read(C)),
        ("XREAD STREAMS jobs 10-1", read(A, B, C)),
        ("XREAD STREAMS jobs 10-1", NOTHING),
        ("XREAD COUNT 2 STREAMS jobs 0", read(A, B, C)),
        ("XREAD STREAMS jobs +", read(B, C)),
        ("XREAD STREAMS jobs $", read(C)),
        ("XREAD STREAMS none 0", [[b"none", [A]]]),
    ],
)
def test_a_wrong_xread_is_found(words: str, reply: Reply) -> None:
    story = begun()
    story.run(1, words, reply)
    assert len(story.judge.violations) == 1


# -- 8


def acknowledged() -> Story:
    """A and B are acknowledged in region 1; C is pending."""
    story = begun(Redelivery)
    story.take(1, read(A, B, C))
    story.ack(1, "10-1 20-1", 2)
    return story


def test_what_was_acknowledged_does_not_come_again() -> None:
    story = acknowledged()
    story.run(1, "XREADGROUP GROUP g c STREAMS jobs 0", read(C))
    story.run(1, "XPENDING jobs g - + 9", [[b"30-2", b"c", 0, 1]])
    story.take(2, read(A, B, C))  # the acknowledgement may not have arrived in region 2
    story.restart(1, "kill", story.vectors[1])
    story.take(1, NOTHING)
    assert story.end() == []


@pytest.mark.parametrize(
    ("words", "reply"),
    [
        ("XREADGROUP GROUP g c STREAMS jobs >", read(A)),
        ("XREADGROUP GROUP g c STREAMS jobs 0", read(B, C)),
        ("XCLAIM jobs g d 0 10-1", [A]),
        ("XAUTOCLAIM jobs g d 0 -", [b"0-0", [A, C], []]),
        ("XPENDING jobs g - + 9", [[b"10-1", b"c", 0, 1]]),
    ],
)
def test_a_redelivery_is_found(words: str, reply: Reply) -> None:
    for restarts in (False, True):
        story = acknowledged()
        if restarts:
            story.restart(1, "kill", story.vectors[1])
        story.run(1, words, reply)
        assert len(story.end()) == 1


@pytest.mark.parametrize(
    "reason",
    [
        lambda s: s.run(1, "XGROUP SETID jobs g 0", OK),
        lambda s: s.run(1, "XCLAIM jobs g c 0 10-1 FORCE", [A]),
        lambda s: s.run(1, "XGROUP DESTROY jobs g", 1, DestroyGroup(KEY, b"g")),
        lambda s: s.run(1, "DEL jobs", 1, Delete(KEY, s.vectors[1])),
        lambda s: s.restart(1, "backup", {1: 3, 2: 1}),
        # RENAMEs in two regions make two copies of one entry.
        lambda s: s.add(2, "10-1", 1),
    ],
)
def test_what_comes_again_for_a_reason_is_right(reason: Wrong) -> None:
    story = acknowledged()
    reason(story)
    story.run(1, "XREADGROUP GROUP g c STREAMS jobs >", read(A))
    assert story.end() == []


def test_a_command_that_waited_comes_before_the_reads_that_it_woke() -> None:
    """Seed 814139: the SETID and a read waited for the end of a start.

    The history reports the SETID after the read, which could deliver because of it.
    """
    for is_right in (True, False):
        story = begun(Redelivery)
        story.take(1, read(A, B, C))
        story.ack(1, "10-1 20-1", 2)
        story.holds = True
        story.run(1, "XREADGROUP GROUP g c BLOCK 9 STREAMS jobs >", read(A, B, C), waited=True)
        if is_right:
            story.at_ms -= 10  # at the same moment
            story.run(1, "XGROUP SETID jobs g 0", OK, waited=True)
        story.commit(1)
        assert bool(story.end()) != is_right


def test_a_crash_may_take_an_acknowledgement() -> None:
    story = begun(Redelivery)
    story.take(1, read(A, B, C))
    story.holds = True
    story.ack(1, "10-1", 1)
    story.restart(1, "power", story.vectors[1])
    story.run(1, "XREADGROUP GROUP g c STREAMS jobs 0", read(A, B, C))
    assert story.end() == []


# -- 11


def busy(story: Story, for_ms: int, every_ms: int = 10) -> None:
    """Commands of region 1 that have nothing to do with the waiting one."""
    until_ms = story.at_ms + for_ms
    while story.at_ms < until_ms:
        story.at_ms += every_ms - 10
        story.run(1, "PING", b"PONG")


def waiting(story: Story, words: str) -> Operation:
    """A command that waits for its reply."""
    return Operation(
        900,
        1,
        1,
        story.starts[1],
        tuple(words.encode().split()),
        (),
        story.at_ms,
        story.at_ms,
        {},
        False,
    )


def test_regions_converge() -> None:
    assert Story(Liveness).end() == []
    assert "no convergence within 20000 ms" in Story(Liveness).end(None)[0]
    assert "convergence took 30000 ms" in Story(Liveness).end(30_000)[0]


@pytest.mark.parametrize(
    "words",
    [
        "XADD jobs * t 1",
        "XREADGROUP GROUP g c BLOCK 50 STREAMS jobs >",
        "WAIT 1 50",
        "CRDT.SYNC 50",
    ],
)
def test_a_command_that_waits_for_ever_is_found(words: str) -> None:
    for is_late in (False, True):
        story = Story(Liveness)
        operation = waiting(story, words)
        busy(story, 800 if is_late else 300)
        story.judge.lost(operation)
        assert [("did not answer" in text) for text in story.end()] == [True] * is_late


def test_a_late_answer_is_found_and_one_of_a_paused_region_is_not() -> None:
    for is_awake in (True, False):
        story = Story(Liveness)
        operation = waiting(story, "XREAD BLOCK 50 STREAMS jobs $")
        busy(story, 1000, 20 if is_awake else 200)
        operation.has_reply = operation.waited = True
        operation.reply = NULL_ARRAY
        story.judge.executed(operation)
        operation.answered_ms = story.at_ms
        story.judge.answered(operation)
        assert bool(story.end()) == is_awake


def test_what_may_wait_for_ever_does() -> None:
    story = Story(Liveness)
    operation = waiting(story, "XREAD BLOCK 0 STREAMS jobs $")
    busy(story, 9000)
    story.judge.lost(operation)
    assert story.end() == []


def test_a_reply_that_never_leaves_is_found() -> None:
    story = Story(Liveness)
    story.run(1, "XADD jobs * t 1", b"10-1", adds=[("10-1", 1)], answered=False)
    assert "computed a reply and never sent it" in story.end()[0]


def test_only_a_restored_region_refuses_writes() -> None:
    for restored in (False, True):
        story = Story(Liveness)
        if restored:
            story.restart(1, "backup", {})
        story.run(
            1, "XADD jobs * t 1", ErrorReply("READONLY region us is in recovery, waiting for eu")
        )
        assert bool(story.end()) != restored


# -- 12


def test_traces_are_compared() -> None:
    assert compare(7, "abc", "abc") is None
    violation = compare(7, "abc", "abd")
    assert violation is not None
    assert "seed 7" in str(violation)
