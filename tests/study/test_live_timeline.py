"""Timelines of a key's history in live regions: real engines with real logs, as the CLI asks them.

Each region has a clock of its own, and a driver that answers from its disk.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from anabranch.crdt.cursor import LogCursor
from anabranch.crdt.vector import Dot
from anabranch.study.diagram import draw
from anabranch.study.diagram.layout import laid_out
from anabranch.study.diagram.model import LOGGED, NOTE, OWN, Arrow, Point, Timeline
from anabranch.study.diagram.narrowing import TooManyEvents
from anabranch.study.diagram.tags import REMOVED, REMOVES, STAYS, meaning_of
from anabranch.study.history.steps import RegionAnswer
from anabranch.study.history.timeline import NoEvents, Range, timeline_of
from anabranch.study.replies.histories import KeyHistory, KeyState
from tests.storage.direct import position_for
from tests.study.drawings import overlaps, parsed, texts
from tests.study.test_explanation import NAMES, Cluster
from tests.study.test_layout import check_dots
from tests.support.engines import execute

REGIONS = ("us", "eu", "ap")


class Live(Cluster):
    """Three regions, and the questions of `anabranch log --svg`."""

    def join(self, source: str, target: str) -> None:
        """The target joins a snapshot of the source."""
        peer, region = self.regions[source], self.regions[target]
        cut = peer.engine.peers.snapshots.cut()
        peer.commit_all()
        region.engine.peers.snapshots.join(
            list(cut.chunks(200)), peer.region_id, self.now_ms(target)
        )
        region.commit_all()

    def bring(self, source: str, target: str) -> None:
        """Like `sync`, or by a snapshot if the source's log does not reach back far enough."""
        peer, region = self.regions[source], self.regions[target]
        reaches = position_for(peer.database, peer.driver.log.tail, region.engine.vector)
        (self.join if reaches is None else self.sync)(source, target)

    def attempt(self, name: str, *words: str) -> None:
        """Performs a command, which may be refused: a deadline may just have passed."""
        region = self.regions[name]
        argv = [word.encode() for word in words]
        execute(region.engine, region.session, argv, self.now_ms(name))
        region.commit_all()

    def answer(self, name: str, key: str, part: Range, newest: int = 1000) -> RegionAnswer:
        state = None
        if part.until_ms is None:
            state = KeyState(self.call(name, "CRDT.EXPLAIN", key, "NOHISTORY"))
        words = ["NEWEST", str(newest)]
        for option, value in (("UNTIL", part.until_ms), ("ID", part.entry_id)):
            words += [option, str(value)] if value else []
        history = KeyHistory(self.call(name, "CRDT.HISTORY", key, *words))
        return RegionAnswer(history, state, part.until_ms)

    def timeline(
        self,
        key: str = "k",
        part: Range | None = None,
        silent: tuple[str, ...] = (),
        newest: int = 1000,
    ) -> Timeline:
        chosen = part or Range()
        asked = [name for name in REGIONS if name not in silent]
        answers = [self.answer(name, key, chosen, newest) for name in asked]
        return timeline_of(answers, silent, NAMES, chosen)


def point_texts(timeline: Timeline, region: int) -> list[str]:
    return [point.text for point in timeline.points if point.region == region]


def carried(timeline: Timeline) -> set[tuple[Dot, int, int]]:
    """(dot, via, to) of each effect in an arrow."""
    return {
        ((arrow.origin, counter), arrow.via, arrow.to)
        for arrow in timeline.arrows
        for counter in range(arrow.first, arrow.last + 1)
    }


def check(timeline: Timeline) -> None:
    """What holds for every timeline of whole logs: dots, order, and a drawing without overlaps."""
    order_of: dict[tuple[int, Dot], int] = {}
    events: list[Point | Arrow] = [*timeline.points, *timeline.arrows]
    orders = Counter(event.when.order for event in events)
    assert set(orders.values()) == {1}
    for event in sorted(events, key=lambda one: one.when.order):
        if isinstance(event, Point):
            new = [(event.region, dot) for dot in event.dots()]
        else:
            dots = [(event.origin, one) for one in range(event.first, event.last + 1)]
            new = [(event.to, dot) for dot in dots]
            for dot in dots:
                assert (event.origin, dot) in order_of, "an arrow ends above the issue"
                assert (event.via, dot) in order_of, "an arrow ends above the region that sent it"
        assert not set(new) & set(order_of), "an effect is drawn twice in one lane"
        order_of |= dict.fromkeys(new, event.when.order)
    layout = laid_out(timeline)
    check_dots(timeline, layout)
    assert overlaps(timeline) == []
    # On the page: effects leave a region below the place where they came to it.
    arrived: dict[tuple[float, str], float] = {}
    for arrow in sorted(layout.arrows, key=lambda one: one.y0):
        tags = [piece.text for line in arrow.label.lines for piece in line if piece.is_whole]
        for tag in tags:
            came = [y for (x, one), y in arrived.items() if one == tag and abs(x - arrow.x0) < 12]
            assert all(y <= arrow.y0 for y in came), (tag, came, arrow.y0)
            arrived[arrow.x1, tag] = arrow.y1


def test_each_effect_has_a_point_and_arrows_to_each_region_that_applied_it() -> None:
    cluster = Live()
    first = cluster.call("us", "XADD", "k", "*", "a", "1")
    cluster.sync("us", "eu")
    cluster.sync("eu", "ap")
    cluster.call("eu", "XDEL", "k", first)
    second = cluster.call("ap", "XADD", "k", "*", "b", "two words")
    cluster.sync("eu", "us")
    cluster.sync("ap", "us")
    cluster.sync("us", "eu")
    cluster.sync("eu", "ap")
    timeline = cluster.timeline()
    check(timeline)
    assert point_texts(timeline, 1) == [f"XADD {first} a 1"]
    assert point_texts(timeline, 2) == [f"XDEL {first}"]
    assert point_texts(timeline, 3) == [f'XADD {second} b "two words"']
    assert {point.kind for point in timeline.points} == {LOGGED}
    assert carried(timeline) == {
        ((1, 1), 1, 2),
        ((1, 1), 2, 3),
        ((2, 1), 2, 1),
        ((2, 1), 2, 3),
        ((3, 1), 3, 1),
        ((3, 1), 1, 2),
    }
    assert {arrow.to for arrow in timeline.arrows if arrow.removes == ((1, 1),)} == {1, 3}
    assert timeline.fates[1, 1].removed_by() == ((2, 1),)
    assert [region for region, _ in timeline.fates[1, 1].arrivals] == [1, 2, 3]
    assert meaning_of(timeline, (1, 1)) == REMOVED and meaning_of(timeline, (2, 1)) == REMOVES
    assert meaning_of(timeline, (3, 1)) == STAYS
    assert {final.entries for final in timeline.finals} == {((3, 1),)}
    shown = texts(parsed(draw(timeline)))
    assert sum(one.startswith(f"✕ {first} a 1") for one in shown) == 3
    assert sum(one.startswith(f"■ {second} b") for one in shown) == 3
    assert timeline.gaps == () and timeline.outages == () and timeline.marks == ()


def test_commands_are_named_with_what_they_did() -> None:
    cluster = Live()
    for number in "123":
        cluster.call("us", "XADD", "k", f"{number}0", "n", number)
    cluster.call("us", "XADD", "k", "MAXLEN", "2", "50", "n", "4")
    cluster.call("us", "XTRIM", "k", "MAXLEN", "1")
    cluster.call("us", "EXPIRE", "k", "100")
    cluster.call("us", "PERSIST", "k")
    cluster.call("us", "XGROUP", "CREATE", "k", "g", "$")
    cluster.call("us", "XGROUP", "DESTROY", "k", "g")
    cluster.call("us", "XSETID", "k", "90-1")
    pair = cluster.call("us", "XADD", "k", "IDMP", "p", "i", "*", "n", "5")
    cluster.call("us", "RENAME", "k", "other")
    cluster.call("us", "RENAME", "other", "k")
    cluster.call("us", "UNLINK", "k")
    cluster.call("us", "FLUSHALL")
    timeline = cluster.timeline()
    check(timeline)
    assert point_texts(timeline, 1) == [
        "XADD 10-1 n 1",
        "XADD 20-1 n 2",
        "XADD 30-1 n 3",
        "XADD 50-1 n 4; trims up to us:2",
        "XTRIM up to us:3",
        "EXPIRE at 1970-01-01 00:18:20.006 UTC",
        "PERSIST",
        "XGROUP CREATE g $",
        "XGROUP DESTROY g",
        "XSETID 90-1",
        f"XADD {pair} n 5 (IDMP p i)",
        "RENAME → other",
        f"RENAME ← other: adds 50-1, {pair}",
        "UNLINK",
        "FLUSHALL",
    ]
    point = next(one for one in timeline.points if one.text.startswith("RENAME ←"))
    kinds = [timeline.effects[dot].kind for dot in point.dots()]
    assert kinds.count("add") == 2


def test_deliveries_and_acknowledgements_are_points() -> None:
    cluster = Live()
    entry = cluster.call("us", "XADD", "k", "*", "a", "1")
    cluster.call("us", "XGROUP", "CREATE", "k", "g", "0")
    read = ("XREADGROUP", "GROUP", "g", "alice", "STREAMS", "k", ">")
    cluster.call("us", *read)
    cluster.call("us", "XCLAIM", "k", "g", "bob", "0", entry)
    cluster.call("us", "XACK", "k", "g", entry)
    cluster.sync("us", "eu")
    cluster.call("us", "XGROUP", "SETID", "k", "g", "0")
    later = cluster.call("us", "XADD", "k", "*", "a", "2")
    cluster.call("us", *read)
    cluster.call("us", "XGROUP", "DELCONSUMER", "k", "g", "bob")
    timeline = cluster.timeline()
    check(timeline)
    assert point_texts(timeline, 1) == [
        f"XADD {entry} a 1",
        "XGROUP CREATE g 0-0",
        f"group g delivers {entry} to alice, a new consumer",
        f"group g: bob claims {entry}",
        f"group g: {entry} acknowledged",
        "group g: floor 0-0",
        f"XADD {later} a 2",
        f"group g delivers {entry}, {later} to alice",
        "group g: consumer bob deleted",
    ]
    assert point_texts(timeline, 2) == []


def test_effects_without_a_command_are_the_regions_own() -> None:
    cluster = Live()
    entry = cluster.call("us", "XADD", "k", "*", "a", "1")
    cluster.call("us", "XGROUP", "CREATE", "k", "g", "0")
    cluster.call("us", "XREADGROUP", "GROUP", "g", "c", "STREAMS", "k", ">")
    cluster.call("us", "XACK", "k", "g", entry)
    cluster.clock.passes(100)  # A sync round is due; it begins with the next commit.
    cluster.call("us", "XADD", "other", "*", "a", "1")
    (own,) = [point for point in cluster.timeline().points if point.kind == OWN]
    assert own.text == "by itself: acknowledged in g" and own.dots() == [(1, 4)]


def test_a_write_to_an_expired_key_is_one_point() -> None:
    cluster = Live()
    cluster.call("us", "XADD", "k", "*", "a", "1")
    cluster.call("us", "PEXPIRE", "k", "5")
    cluster.clock.passes(100)
    entry = cluster.call("us", "XADD", "k", "*", "a", "2")
    timeline = cluster.timeline()
    check(timeline)
    assert point_texts(timeline, 1)[-1] == f"XADD {entry} a 2; clears the key; no deadline"
    assert timeline.points[-1].dots() == [(1, 3), (1, 4), (1, 5)]


@pytest.mark.parametrize("ahead_ms", [-60_000, 60_000])
def test_clocks_that_disagree_turn_no_arrow_round(ahead_ms: int) -> None:
    """By times alone, eu would apply the effect a minute before us issued it, or the reverse."""
    cluster = Live()
    cluster.ahead_ms["eu"] = ahead_ms
    cluster.call("us", "XADD", "k", "*", "a", "1")
    cluster.sync("us", "eu")
    cluster.call("eu", "DEL", "k")
    cluster.sync("eu", "us")
    cluster.call("us", "XADD", "k", "*", "a", "2")
    timeline = cluster.timeline()
    check(timeline)
    events: list[Point | Arrow] = [*timeline.points, *timeline.arrows]
    by_order = sorted(events, key=lambda one: one.when.order)
    assert [type(one).__name__ for one in by_order] == ["Point", "Arrow", "Point", "Arrow", "Point"]
    if ahead_ms < 0:
        # The engine of eu reads the time of the start, which its clock does not run behind.
        assert by_order[1].when.ms < by_order[0].when.ms
    assert "own clock" in timeline.notes[0]


def test_a_region_that_does_not_answer() -> None:
    cluster = Live()
    cluster.call("us", "XADD", "k", "*", "a", "1")
    cluster.sync("us", "ap")
    late = cluster.call("ap", "XADD", "k", "*", "a", "2")
    cluster.sync("ap", "eu")
    timeline = cluster.timeline(silent=("ap",))
    (mark,) = timeline.marks
    assert (mark.kind, mark.regions) == (NOTE, (3,)) and "did not answer" in mark.text
    assert [lane.is_unknown for lane in timeline.lanes] == [False, False, True]
    assert point_texts(timeline, 3) == []
    # The effect of ap is known from eu, its time of issue is not.
    arrow = next(one for one in timeline.arrows if one.origin == 3)
    assert (arrow.via, arrow.to, arrow.issued_ms) == (3, 2, None)
    assert timeline.effects[3, 1].text == late
    assert [final.region for final in timeline.finals] == [1, 2]
    shown = texts(parsed(draw(timeline)))
    assert "ap at the end is not known" in shown and "its log is not known" in shown
    answers = [cluster.answer(name, "k", Range()) for name in ("us", "eu")]
    asked = timeline_of(answers, (), NAMES)
    assert asked.marks[0].text.startswith("was not asked")
    by_address = timeline_of(answers, ("127.0.0.1:7003",), NAMES)
    assert by_address.marks[0].text.startswith("did not answer")


def test_a_snapshot_is_a_thick_arrow() -> None:
    cluster = Live()
    first = cluster.call("us", "XADD", "k", "*", "a", "1")
    cluster.sync("us", "eu")
    cluster.sync("us", "ap")
    cluster.call("us", "XDEL", "k", first)
    cluster.call("us", "XADD", "k", "*", "a", "2")
    cluster.call("us", "XADD", "other", "*", "a", "2")
    cluster.call("us", "XADD", "k", "*", "a", "3")
    cluster.join("us", "eu")
    timeline = cluster.timeline()
    snapshots = [arrow for arrow in timeline.arrows if arrow.is_snapshot]
    assert {(one.via, one.to) for one in snapshots} == {(1, 2)}
    assert (snapshots[-1].first, snapshots[-1].last) == (5, 5)
    assert point_texts(timeline, 2) == ["joins a snapshot of us, which holds us:5"]
    assert [final.entries for final in timeline.finals] == [
        ((1, 3), (1, 5)),
        ((1, 3), (1, 5)),
        ((1, 1),),
    ]
    assert all(not final.note for final in timeline.finals)
    draw(timeline)


def test_a_log_that_does_not_reach_back_says_so() -> None:
    cluster = Live(**{"crdt-log-max-effects": 5})
    for number in range(8):
        cluster.call("us", "XADD", "k", "*", "n", str(number))
    cluster.regions["us"].checkpoint()
    for number in range(2):
        cluster.call("us", "XADD", "k", "*", "n", str(number))
    timeline = cluster.timeline()
    (mark,) = timeline.marks
    assert mark.regions == (1,) and "older effects are not in it" in mark.text
    final = timeline.finals[0]
    told = len(timeline.fates)
    assert 0 < told < 10 and len(final.entries) == told
    assert final.note == f"and {10 - told} older entries, which the logs do not tell"
    until = cluster.timeline(part=Range(until_ms=cluster.clock.wall_ms))
    assert "more may be there" in until.finals[0].note


def test_events_that_were_not_read_are_counted() -> None:
    cluster = Live()
    for number in range(8):
        cluster.call("us", "XADD", "k", "*", "n", str(number))
    timeline = cluster.timeline(newest=3)
    assert [mark.text for mark in timeline.marks] == ["5 older events were not read"]
    assert timeline.finals[0].note == "and 5 older entries, which the logs do not tell"


def test_a_part_of_the_history() -> None:
    cluster = Live()
    ids = [cluster.call("us", "XADD", "k", "*", "n", str(number)) for number in range(8)]
    cluster.sync("us", "eu")
    from_ms = cluster.clock.wall_ms - 3
    cluster.call("eu", "XDEL", "k", ids[0])
    since = cluster.timeline(part=Range(since_ms=from_ms))
    assert point_texts(since, 1) == [f"XADD {one} n {ids.index(one)}" for one in ids[-3:]]
    assert "only events since" in since.left_out
    assert len(since.finals[1].entries) == 7
    until = cluster.timeline(part=Range(until_ms=from_ms - 2))
    assert point_texts(until, 1) == [f"XADD {one} n {ids.index(one)}" for one in ids[:4]]
    assert [len(final.entries) for final in until.finals] == [4, 0, 0]
    newest = cluster.timeline(part=Range(newest=2))
    assert len(newest.points) == 1 and len(newest.arrows) == 1
    assert newest.left_out == "only the newest 2 of 17 events"
    one = cluster.timeline(part=Range(entry_id=ids[0]))
    assert [point.text for point in one.points] == [f"XADD {ids[0]} n 0", f"XDEL {ids[0]}"]
    with pytest.raises(NoEvents, match="no event of k in this range of time"):
        cluster.timeline(part=Range(since_ms=cluster.clock.wall_ms + 10))
    with pytest.raises(NoEvents, match="no event of nothing: there is nothing to draw"):
        cluster.timeline("nothing")


def test_too_many_events_are_refused() -> None:
    cluster = Live()
    for number in range(251):
        cluster.call("us", "XADD", "k", "*", "n", str(number))
    with pytest.raises(TooManyEvents):
        draw(cluster.timeline())
    draw(cluster.timeline(part=Range(newest=250)))


def test_one_timeline_has_one_drawing_and_names_do_no_harm() -> None:
    cluster = Live()
    for key in ("<&>", 'a"b\\'):
        cluster.call("us", "XADD", key, "*", "<f>", "\x1b[31m")
        timeline = cluster.timeline(key)
        assert draw(timeline) == draw(cluster.timeline(key))
        assert any("\\x1b[31m" in one for one in texts(parsed(draw(timeline))))


# -- random histories


@pytest.mark.parametrize("seed", range(40))
def test_random_histories(seed: int) -> None:
    """The logs alone tell the state that each region holds, and every event stands in order."""
    draw_of = Random(seed)
    cluster = Live()
    cluster.ahead_ms = {name: draw_of.choice([0, 0, 500, 20_000]) for name in REGIONS}
    joins = draw_of.random() < 0.3
    for _ in range(draw_of.randint(5, 40)):
        if draw_of.random() < 0.35:
            source, target = draw_of.sample(REGIONS, 2)
            is_join = joins and draw_of.random() < 0.3
            (cluster.join if is_join else cluster.bring)(source, target)
        else:
            _command(draw_of, cluster, draw_of.choice(REGIONS))
    cluster.clock.passes(1000)  # The short deadlines have passed, whenever a region is asked.
    try:
        timeline = cluster.timeline()
    except NoEvents:
        assert all(cluster.call(name, "CRDT.DIGEST", "k") == "0" * 32 for name in REGIONS)
        return
    has_snapshots = any(point.text.startswith("joins") for point in timeline.points)
    if not has_snapshots:
        check(timeline)
    assert overlaps(timeline) == []
    last_ms = max(cluster.clock.wall_ms + ms for ms in cluster.ahead_ms.values())
    by_logs = cluster.timeline(part=Range(until_ms=last_ms + 1))
    for final, alone in zip(timeline.finals, by_logs.finals, strict=True):
        assert not final.note
        assert has_snapshots or not alone.note
        assert set(final.entries) == _held(cluster, NAMES[final.region])
        assert replace(alone, note="") == final


def _held(cluster: Live, name: str) -> set[Dot]:
    """The dots of the entries in the region's memory, also of a key that a deadline hides."""
    stream = cluster.regions[name].engine.keyspace.get(b"k")
    held: set[Dot] = set()
    for origin, log in stream.logs.items() if stream is not None else ():
        cursor = LogCursor(log)
        cursor.seek_counter(0)
        while cursor.valid:
            held.add((origin, cursor.counter))
            cursor.step()
    return held


def _command(draw_of: Random, cluster: Live, name: str) -> None:
    ids = [entry[0] for entry in cluster.call(name, "XRANGE", "k", "-", "+")]
    group = draw_of.choice("gh")
    moves = draw_of.choice([("k", "l"), ("l", "k")])
    xgroup = draw_of.choice([("CREATE", "k", group, draw_of.choice("0$")), ("DESTROY", "k", group)])
    command = draw_of.choice(
        [
            *[("XADD", "k", "*", "n", str(draw_of.randrange(9)))] * 5,
            ("XDEL", "k", draw_of.choice(ids or ["1-1"])),
            ("XTRIM", "k", "MAXLEN", str(draw_of.randrange(3))),
            (draw_of.choice(["DEL", "UNLINK"]), "k"),
            ("FLUSHALL",),
            *[("XGROUP", *xgroup)] * 2,
            ("XREADGROUP", "GROUP", group, "c", "STREAMS", "k", ">"),
            ("XACK", "k", group, draw_of.choice(ids or ["1-1"])),
            *[("RENAME", *moves)] * 2,
            ("PEXPIRE", "k", draw_of.choice(["3", "100000"])),
            ("PERSIST", "k"),
        ]
    )
    cluster.attempt(name, *command)
