"""The twin accepts what engines do, and reports a wrong reply, effect, record or start.

The calls come from a real engine in a tap, without network and disks. A test that plants a fault
changes one call before the twin receives it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Optional

import pytest

from anabranch.crdt.effects import AddRun, Delete, RemoveEntries
from anabranch.region.engine.replies import OK, ErrorReply, MapReply, Reply, VerbatimText
from anabranch.region.engine.setting import Value
from anabranch.region.engine.settings import Settings
from anabranch.sim import calls
from anabranch.sim.calls import Call, EngineFacts, Issued, RowFacts
from anabranch.sim.checkers.refusals import Refusals
from anabranch.sim.draw import draw_plan
from anabranch.sim.history import Checker, End, Operation, Setup, Shown, Words
from anabranch.sim.run import run_plan
from anabranch.sim.twin.join import Frozen, join
from anabranch.sim.twin.judge import Twin
from anabranch.sim.twin.state import Pair, State
from tests.sim.tapped import tapped

Change = Callable[[Call], Optional[Call]]
NOW_MS = 1_700_000_000_000
SETTINGS: dict[str, Value] = dict(Settings().values)


def setup() -> Setup:
    return Setup(0, (1, 2), {}, (b"k",), lambda region, argv: None)


def run_changed(seed: int, change: Change) -> list[str]:
    """Runs a seed with a twin that sees changed calls; the texts of its violations.

    `change` returns the call that the twin gets instead; None: the call itself.
    """

    class Changed(Twin):
        def called(self, call: Call) -> None:
            super().called(change(call) or call)

    result = run_plan(draw_plan(seed), [Changed])
    return [one.text for one in result.violations if one.checker == "twin"]


def copied(
    call: Call,
    issued: Optional[list[Issued]] = None,
    late: Optional[list[tuple[int, Reply]]] = None,
    facts: Optional[EngineFacts] = None,
) -> Call:
    """A copy of a call with other values."""
    one = Call(
        call.region,
        call.kind,
        call.now_ms,
        call.facts if facts is None else facts,
        call.issued if issued is None else issued,
        call.rows,
        call.late if late is None else late,
        call.settings,
    )
    for name in (
        *("start", "at_ms", "how", "session", "argv", "following", "replies", "source", "blocks"),
        *("is_taken", "cut", "heard", "position"),
    ):
        setattr(one, name, getattr(call, name))
    return one


class Once:
    """Changes the first call for which `make` returns another one."""

    def __init__(self, make: Change) -> None:
        self.make = make
        self.is_done = False

    def __call__(self, call: Call) -> Optional[Call]:
        if self.is_done:
            return None
        changed = self.make(call)
        self.is_done = changed is not None
        return changed


def reports(make: Change, *words: str, seed: int = 3) -> None:
    """Asserts that the twin reports the change of one call, with these words."""
    once = Once(make)
    texts = run_changed(seed, once)
    assert once.is_done, "no call was changed"
    assert texts, "the twin reports nothing"
    for word in words:
        assert word in texts[0], texts[0]


def test_the_twin_is_silent_when_nothing_is_changed() -> None:
    assert run_changed(3, lambda call: None) == []


def test_a_wrong_reply_is_reported() -> None:
    def make(call: Call) -> Optional[Call]:
        if (
            call.kind == calls.EXECUTE
            and call.argv[0] == b"XLEN"
            and isinstance(call.replies[0], int)
        ):
            changed = copied(call)
            changed.replies = [call.replies[0] + 1]
            return changed
        return None

    for seed in range(20):
        once = Once(make)
        texts = run_changed(seed, once)
        if once.is_done:
            assert "XLEN" in texts[0] and "expected" in texts[0]
            return
    raise AssertionError("no seed has an XLEN")


def test_an_entry_that_a_range_leaves_out_is_reported() -> None:
    def make(call: Call) -> Optional[Call]:
        if call.kind == calls.EXECUTE and call.argv[0] in (b"XRANGE", b"XREVRANGE"):
            reply = call.replies[0]
            if isinstance(reply, list) and len(reply) > 1:
                changed = copied(call)
                changed.replies = [reply[:-1]]
                return changed
        return None

    reports(make, "RANGE")


def test_an_effect_of_another_content_is_reported() -> None:
    def make(call: Call) -> Optional[Call]:
        for place, (counter, effect) in enumerate(call.issued):
            if isinstance(effect, AddRun) and call.kind == calls.EXECUTE:
                other: Issued = (counter, RemoveEntries(effect.key, [(1, 1)]))
                return copied(call, [*call.issued[:place], other, *call.issued[place + 1 :]])
        return None

    reports(make, "issued effect", "remove entries", "expected ('add'")


def test_an_effect_without_a_reason_is_reported() -> None:
    def make(call: Call) -> Optional[Call]:
        if call.kind == calls.TICK and call.facts.state == "serving" and not call.issued:
            counter = call.facts.vector.get(call.region, 0) + 1
            return copied(call, [(counter, Delete(b"orders", {}))])
        return None

    reports(make, "tick", "delete", "expected nothing")


def test_a_missing_effect_is_reported() -> None:
    def make(call: Call) -> Optional[Call]:
        return copied(call, []) if call.kind == calls.EXECUTE and call.issued else None

    reports(make, "did not issue effect")


def test_a_block_that_was_merged_and_is_kept_from_the_twin_is_reported() -> None:
    def make(call: Call) -> Optional[Call]:
        if call.kind == calls.MERGE and any(row.kind == "block" for row in call.rows):
            changed = copied(call)
            changed.blocks = []
            return changed
        return None

    reports(make, "its vector is")


def test_a_clock_that_runs_back_is_reported() -> None:
    def make(call: Call) -> Optional[Call]:
        if call.kind == calls.TICK:
            return copied(call, facts=call.facts._replace(clock_ms=call.facts.clock_ms - 1))
        return None

    reports(make, "clock ran back")


def test_a_late_reply_that_nobody_waits_for_is_reported() -> None:
    def make(call: Call) -> Optional[Call]:
        if call.kind == calls.EXECUTE and call.argv[0] == b"XADD" and not call.late:
            return copied(call, late=[(call.session, 1)])
        return None

    reports(make, "(waits)")


def test_a_region_is_judged_no_more_after_its_first_mismatch() -> None:
    def make(call: Call) -> Optional[Call]:
        if call.region == 1 and call.kind == calls.EXECUTE and call.argv[0] == b"XADD":
            changed = copied(call)
            changed.replies = [7]
            return changed
        return None

    texts = run_changed(3, make)
    assert len(texts) == 1


# -- calls made by hand


def a_call(kind: str, vector: dict[int, int], position: int = 0, **rest: object) -> Call:
    """A call of region 1 that makes no rows unless `rows` says so."""
    rows = rest.pop("rows", [])
    assert isinstance(rows, list)
    facts = EngineFacts(vector, position, False, NOW_MS, NOW_MS, 0, "serving", "", 0, (1,))
    call = Call(1, kind, NOW_MS, facts, [], rows, [], SETTINGS)
    for name, value in rest.items():
        setattr(call, name, value)
    return call


@pytest.mark.parametrize("position", [1, 3])
def test_a_start_from_a_position_that_no_commit_had_is_reported(position: int) -> None:
    again = a_call(calls.START, {}, position=position)
    again.position = position
    first = a_call(calls.START, {})
    first.position = 0
    twin = Twin(setup())
    twin.called(first)
    twin.called(again)
    assert "on its disk" in twin.violations[0].text


def test_a_row_that_nothing_explains_is_reported() -> None:
    twin = Twin(setup())
    first = a_call(calls.START, {})
    first.position = 0
    twin.called(first)
    twin.called(a_call(calls.OTHER, {}, 1, rows=[RowFacts(1, "records")]))
    assert "its log ends at position 1; expected 0" in twin.violations[0].text


@pytest.mark.parametrize("reason", ["malformed", "gap"])
def test_a_refusal_of_a_healthy_peer_is_reported(reason: str) -> None:
    checker: Checker = Refusals(setup())
    checker.called(a_call(calls.REFUSED, {}, how="superseded"))
    assert not checker.violations
    checker.called(a_call(calls.REFUSED, {}, how=reason))
    assert reason in checker.violations[0].text


# -- settings, marks of trims, histories, gaps


def test_a_setting_that_a_refused_command_changed_is_reported() -> None:
    twin, (us,) = tapped()
    assert us.ok("CONFIG SET appendfsync no stream-node-max-entries 4") == OK
    for refused in ("appendfsync sometimes", "stream-node-max-entries few", "no-such-setting 1"):
        assert isinstance(us(f"CONFIG SET appendfsync always {refused}"), ErrorReply)
    us.ok("CONFIG GET appendfsync stream-*")
    assert twin.violations == []
    us.engine.state.settings.set("appendfsync", "always")
    us("CONFIG SET appendfsync always no-such-setting 1")
    assert "the setting appendfsync is always; expected no" in twin.violations[0].text


def test_a_setting_that_is_told_wrongly_is_reported() -> None:
    twin, (us,) = tapped()
    us.engine.state.settings.set("appendfsync", "no")
    us("CONFIG GET appendf*")
    assert "expected settings with {b'appendfsync': b'everysec'}" in twin.violations[0].text


def test_a_mark_of_trims_that_is_lost_is_reported() -> None:
    twin, (us,) = tapped(crdt_xadd_id_uniqueness_mode="liberal")
    for number in range(1, 6):
        us.ok(f"XADD k {number}-1 f v")
    us.ok("XTRIM k MAXLEN 2")
    us.ok("CRDT.NODES k 1 0 9")
    assert twin.violations == []
    log = us.engine.keyspace.keys[b"k"].find_log(1)
    assert log is not None
    log.trimmed = 0
    us.ok("CRDT.NODES k 1 0 9")
    assert "expected trimmed from 3 to 3" in twin.violations[0].text


def test_an_event_that_a_history_leaves_out_is_reported() -> None:
    def make(call: Call) -> Optional[Call]:
        for place, (session, reply) in enumerate(call.late):
            flat = reply.flat if isinstance(reply, MapReply) else []
            if b"events" in flat and b"left-out" in flat and b"log-position" in flat:
                at = flat.index(b"events") + 1
                told = flat[at]
                if isinstance(told, list) and told:
                    shorter = MapReply([*flat[:at], told[1:], *flat[at + 1 :]])
                    late = [*call.late[:place], (session, shorter), *call.late[place + 1 :]]
                    return copied(call, late=late)
        return None

    for seed in range(40):
        texts = run_changed(seed, Once(make))
        if texts:
            assert "CRDT.HISTORY" in texts[0] and "did not tell" in texts[0]
            return
    raise AssertionError("nothing was reported")


def test_groups_are_looked_at_where_entries_above_undelivered_ones_are_acknowledged() -> None:
    twin, (us, eu) = tapped(2, crdt_xadd_id_uniqueness_mode="liberal")
    for number in range(1, 7):
        us.ok(f"XADD k {number}-1 f v")
    us.ok("XGROUP CREATE k g 0")
    us.ok("XREADGROUP GROUP g c COUNT 2 STREAMS k >")
    us.commit()
    eu.take(us)
    eu.ok("XGROUP SETID k g 4-1")
    eu.ok("XREADGROUP GROUP g c STREAMS k >")
    eu.ok("XACK k g 5-1 6-1")
    eu.round()
    assert twin.regions[1].state.with_gaps == []
    us.take(eu)
    assert twin.regions[1].state.with_gaps == [b"k"]
    asked: list[tuple[int, Words]] = []
    asking = Twin(Setup(0, (1,), {}, (b"k",), lambda region, argv: asked.append((region, argv))))
    asking.regions[1].state.with_gaps = [b"k"]
    for _ in range(2):
        asking.shown({1: Shown(1, {}, b"", NOW_MS)})
    assert asked == [(1, (b"XINFO", b"GROUPS", b"k"))] and twin.violations == []


def always(told: Reply) -> Callable[[int, Words], Reply]:
    """Gives every region the same answer to every question."""
    return lambda region, argv: told


def test_acknowledged_entries_that_no_round_announces() -> None:
    """S8.1: at the end of a run somebody has received for a while."""
    twin, (us, _) = tapped(2)
    us.ok("XADD k 1-* a b")
    us.ok("XGROUP CREATE k g 0")
    us.ok("XREADGROUP GROUP g c STREAMS k >")
    us.ok("XACK k g 1-1")
    us.commit()
    shown = {1: Shown(1, {}, b"", 0)}
    for receivers, count in ((b"0", 0), (b"1", 1)):
        told = VerbatimText(b"crdt_receivers:" + receivers)
        twin.setup = replace(twin.setup, ask=always(told))
        twin.finish(End(0, 1000, NOW_MS, shown))
        assert len(twin.violations) == count
    assert "in no round announced the acknowledged entries" in twin.violations[0].text
    us.round()
    twin.finish(End(0, 1000, NOW_MS, shown))
    assert len(twin.violations) == 1


def test_answers_that_told_of_what_a_start_does_not_find() -> None:
    """S13.2: as if each answer had left one row of the log too early."""

    class Early(Twin):
        def executed(self, operation: Operation) -> None:
            super().executed(operation)
            if operation.number in self._reflected:
                self._reflected[operation.number] += 1

    found = [
        one.text
        for seed in range(20)
        for one in run_plan(draw_plan(seed), [Early]).violations
        if one.checker == "twin"
    ]
    assert found and all("an answer told of position" in text for text in found)


@pytest.mark.parametrize("is_known", [True, False])
def test_a_joined_flushall_clears_pairs_of_keys_that_have_no_clears(is_known: bool) -> None:
    """S11.3: a snapshot has the clears of FLUSHALL beside those of its keys.

    A state with which a tape begins is so, because the region is. The twin looked at the clears of
    the key alone, so it went on to expect the answer of a pair that the region had dropped.
    """
    sender, receiver = State(1), State(2)
    if is_known:
        sender.key(b"k")
    sender.vector = {1: 1, 3: 1}
    sender.flushes, sender.flush_clears = [(1, 1)], {3: 1}
    receiver.vector = {3: 1}
    receiver.key(b"k").pairs[(3, 1)] = Pair((3, 1), 1 << 64, b"p", b"i", 1000, {}, 1000)
    join(receiver, Frozen(sender, may_forget=False), is_restored=False)
    assert receiver.keys[b"k"].pairs == {}
