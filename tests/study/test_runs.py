"""Drawings of runs in the simulator show what happened in them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from anabranch.sim.replay import label_of, replay
from anabranch.sim.scenario.drawing import run_recorded
from anabranch.sim.scenario.parser import load, parse
from anabranch.sim.scenario.running import scenario_files
from anabranch.sim.sweep import Task
from anabranch.sim.timeline.recorder import Recorder
from anabranch.study.diagram import draw
from anabranch.study.diagram.layout import laid_out
from anabranch.study.diagram.model import (
    COMMAND,
    CUT,
    FAULT,
    HEAL,
    LATE,
    OWN,
    START,
    STOP,
    WAITS,
    Point,
    Timeline,
)
from anabranch.study.diagram.tags import LOST, PLAIN, REMOVED, REMOVES, STAYS, meaning_of, tags_of
from tests.study.drawings import SVG, classes, parsed, texts

ROOT = Path(__file__).resolve().parents[2]

CUT_AND_DELETE = """
# A delete during a cut meets an add

| Time | us | eu | ap |
| --- | --- | --- | --- |
| t1 | `XADD x 110 a 1` | | |
| t2 | — Sync — | — Sync — | — Sync — |
| t3 | — Cut — | — Cut — | |
| t4 | `DEL x` → 1 | `XADD x 120 b 2` → 120-2 | |
| t5 | — Sync — | — Sync — | |
| t6 | | — Sync — | — Sync — |
| t7 | — Heal — | — Heal — | |
| t8 | — Sync — | — Sync — | — Sync — |
| t9 | `XRANGE x - +` → [120-2] | `XRANGE x - +` → [120-2] | `XRANGE x - +` → [120-2] |
"""


def run(text: str) -> Timeline:
    """The timeline of a scenario that passes."""
    timeline, mismatches, violations = run_recorded(parse(text))
    assert not mismatches and not violations and timeline is not None
    return timeline


def told(points: list[Point]) -> list[tuple[str, str, str]]:
    """Kind, text and reply of each point."""
    return [(point.kind, point.text, point.reply) for point in points]


def test_a_cut_a_delete_and_a_concurrent_add() -> None:
    timeline = run(CUT_AND_DELETE)
    assert [(point.text, point.reply, point.dots()) for point in timeline.points[:3]] == [
        ("XADD x 110 a 1", "110-1", [(1, 1)]),
        ("DEL x", "1", [(1, 2)]),
        ("XADD x 120 b 2", "120-2", [(2, 1)]),
    ]
    arrivals = {
        (arrow.origin, arrow.first, arrow.last, arrow.via, arrow.to) for arrow in timeline.arrows
    }
    # Nothing crossed during the cut; ap had eu's add before the heal.
    before_heal = [one for one in timeline.arrows if one.when < timeline.marks[1].when]
    assert {(one.origin, one.to) for one in before_heal} == {(1, 2), (1, 3), (2, 3)}
    assert {one[0:3] + one[4:] for one in arrivals} == {
        *((1, 1, 1, to) for to in (2, 3)),
        *((1, 2, 2, to) for to in (2, 3)),
        *((2, 1, 1, to) for to in (1, 3)),
    }
    for arrow in timeline.arrows:
        removes = ((1, 1),) if (arrow.origin, arrow.first) == (1, 2) else ()
        assert arrow.removes == removes
        assert arrow.issued_ms is not None and arrow.when.ms is not None
        assert arrow.issued_ms <= arrow.when.ms
    assert [mark.kind for mark in timeline.marks] == [CUT, HEAL]
    assert [band.regions for band in timeline.bands] == [(1, 2, 3), (1, 2), (2, 3), (1, 2, 3)]
    fates = timeline.fates
    assert fates[1, 1].removed_by() == ((1, 2),) and fates[2, 1].removed_by() == ()
    assert [region for region, _ in fates[2, 1].arrivals] == [2, 3, 1]
    assert {final.entries for final in timeline.finals} == {((2, 1),)}
    assert meaning_of(timeline, (1, 1)) == REMOVED
    assert meaning_of(timeline, (1, 2)) == REMOVES
    assert meaning_of(timeline, (2, 1)) == STAYS


def test_its_drawing_has_the_marks() -> None:
    timeline = run(CUT_AND_DELETE)
    text = draw(timeline)
    root, layout = parsed(text), laid_out(timeline)
    assert {"bs", "bd", "b", "x", "cut", "heal", "band", "adds", "removes"} <= classes(root)
    shown = texts(root)
    assert "cut between us and eu" in shown and "healed between us and eu" in shown
    assert sum(one.startswith("✕ 110-1 a 1") and "us:1 removed by" in one for one in shown) == 3
    assert sum(one.startswith("■ 120-2 b 2") for one in shown) == 3
    # The strip between us and eu stays hatched through the sync rows of the cut.
    t5 = layout.bands[1]
    strip = [box for box in layout.hatches if box.x < layout.columns[1].x]
    assert any(box.y < t5.y and box.y + box.height > t5.y + t5.height for box in strip)
    first = layout.bands[0]
    assert all(
        box.y + box.height <= first.y + 8 or box.y >= first.y + first.height - 12 for box in strip
    )


def test_waiting_commands_own_effects_and_transactions() -> None:
    timeline = run(
        """
| Time | us | eu |
| --- | --- | --- |
| t1 | `XGROUP CREATE x g 0 MKSTREAM` | `MULTI` `XADD y 5 a 1` `XLEN y` `EXEC` → [5-2, 1] |
| t2 | `XREADGROUP GROUP g ann BLOCK 0 STREAMS x >` → (blocked) | |
| t3 | | `XADD x 110 a 1` |
| t4 | — Sync — | — Sync — |
| t5 | → [110-2] | |
| t6 | `XACK x g 110-2` → 1 | |
| t7 | — Sync — effects us=1 | — Sync — |
"""
    )
    us = [point for point in timeline.points if point.region == 1]
    assert told(us) == [
        (COMMAND, "XGROUP CREATE x g 0 MKSTREAM", "OK"),
        (WAITS, "XREADGROUP GROUP g ann BLOCK 0 STREAMS x >", ""),
        (LATE, "XREADGROUP GROUP g ann BLOCK 0 STREAMS x >", "[110-2]"),
        (COMMAND, "XACK x g 110-2", "1"),
        (OWN, "by itself: acknowledged in g", ""),
    ]
    assert [point.row for point in us[:4]] == ["t1", "t2", "t4", "t6"]
    transaction = next(point for point in timeline.points if point.region == 2)
    assert transaction.text == "MULTI; XADD y 5 a 1; XLEN y; EXEC"
    assert transaction.reply == "[5-2, 1]" and transaction.dots() == [(2, 1)]
    assert transaction.keys == (b"y",)


def test_a_transaction_that_is_interrupted_is_drawn_command_by_command() -> None:
    timeline = run(
        """
| Time | us | eu |
| --- | --- | --- |
| t1 | `MULTI` `XADD y 5 a 1` | `XADD y 6 b 1` |
| t2 | — Sync — | — Sync — |
| t3 | `EXEC` → (error) | |
""".replace("`EXEC` → (error)", "`EXEC`")
    )
    us = [point for point in timeline.points if point.region == 1]
    assert [(point.text, point.row) for point in us] == [
        ("MULTI", "t1"),
        ("XADD y 5 a 1", "t1"),
        ("EXEC", "t3"),
    ]


def test_kills_starts_and_what_they_lost() -> None:
    """Under appendfsync no, a kill takes effects that no peer had; their dots are used again."""
    timeline = run(
        """
---
set appendfsync: no
---
| Time | us | eu |
| --- | --- | --- |
| t1 | `XADD x 110 a 1` | |
| t2 | — Sync — | — Sync — |
| t3 | `XADD x 120 a 2` | |
| t4 | — Kill 50 ms — | |
| t5 | `XADD x 130 a 3` | |
| t6 | — Sync — | — Sync — |
| t7 | | `XRANGE x - +` → [110-1, 130-1] |
"""
    )
    assert [(mark.kind, mark.text) for mark in timeline.marks] == [
        (STOP, "killed"),
        (START, "starts with us:1 on its disk"),
    ]
    (outage,) = timeline.outages
    assert outage.end is not None and outage.end.ms - outage.begin.ms == 50
    lost = next(point for point in timeline.points if point.text == "XADD x 120 a 2")
    kept = next(
        point for point in timeline.points if point.text == "XADD x 130 a 3" and point.kind != WAITS
    )
    assert lost.dots() == kept.dots() == [(1, 2)]
    assert [tag.meaning for tag in tags_of(timeline, lost.dots(), lost.lost_from)] == [LOST]
    assert [tag.meaning for tag in tags_of(timeline, kept.dots(), kept.lost_from)] == [STAYS]
    # The entry that the crash took was not removed, and no arrow carried it.
    assert [arrow.last for arrow in timeline.arrows if arrow.to == 2] == [1, 2]
    assert all(fate.removed_by() == () for fate in timeline.fates.values())


def test_effects_come_from_the_peer_that_sent_them() -> None:
    """us and ap are cut: eu passes on their effects."""
    path = ROOT / "anabranch" / "sim" / "scenarios" / "three-regions-in-a-line.md"
    timeline, _, _ = run_recorded(load(path))
    assert timeline is not None
    passed_on = [arrow for arrow in timeline.arrows if (arrow.origin, arrow.to) == (1, 3)]
    assert passed_on and passed_on[0].via == 2
    titles = [arrow.title for arrow in laid_out(timeline).arrows]
    assert any(
        re.search(r"us:1: issued at \d+ ms, applied in ap at \d+ ms from eu", one) for one in titles
    )


def test_a_snapshot_is_drawn_as_one() -> None:
    """A log of four effects does not reach back, so eu joins a snapshot."""
    adds = "<br/>".join(f"`XADD x {number} a 1`" for number in range(100, 112))
    timeline = run(
        f"""
---
set crdt-log-max-effects: 4
set crdt-block-max-bytes: 1
set crdt-snapshot-patience-ms: 20
set crdt-slice-max-bytes: 65536
---
| Time | us | eu |
| --- | --- | --- |
| t1 | {adds} | |
| t2 | wait 3 s | |
| t3 | — Sync — | — Sync — |
"""
    )
    (arrow,) = [one for one in timeline.arrows if one.is_snapshot]
    assert (arrow.origin, arrow.first, arrow.last, arrow.to) == (1, 1, 12, 2)
    root = parsed(draw(timeline))
    assert "snapshot" in classes(root) and any("snapshot:" in one for one in texts(root))


def test_a_failing_scenario_is_drawn() -> None:
    timeline, mismatches, _ = run_recorded(parse(CUT_AND_DELETE.replace("→ [120-2] |", "→ [] |")))
    assert mismatches and timeline is not None
    assert timeline.points == run(CUT_AND_DELETE).points


@pytest.mark.parametrize("seed", [3, 17, 403737])
def test_a_seed_runs_the_same_with_a_recorder(seed: int) -> None:
    task = Task(3, 60)
    plain = replay(task.plan(seed), task.judged_by(), lambda line: None)
    recorder = Recorder(label_of)
    recorded = replay(task.plan(seed), task.judged_by(), lambda line: None, recorder)
    assert recorded.trace_hash == plain.trace_hash
    timeline = recorder.timeline("A seed")
    assert timeline.points and timeline.arrows and timeline.finals
    # All regions hold the same at the end, and every entry that they hold has come there.
    by_key: dict[bytes, set[tuple[tuple[int, int], ...]]] = {}
    for final in timeline.finals:
        by_key.setdefault(final.key, set()).add(final.entries)
        for dot in final.entries:
            assert timeline.has_applied(final.region, dot)
            assert any(region == final.region for region, _ in timeline.fates[dot].arrivals)
    assert all(len(entries) == 1 for entries in by_key.values())
    parsed(draw(timeline, events_max=10_000))


def test_every_removal_has_a_cause() -> None:
    """In all scenario files, an entry that left a region was removed by an effect that is named."""
    removals = 0
    for path in scenario_files([ROOT / "anabranch" / "sim" / "scenarios"]):
        timeline, _, _ = run_recorded(load(path))
        assert timeline is not None
        for fate in timeline.fates.values():
            for region, _, by in fate.removals:
                assert by is not None, f"{path.stem}: {fate.dot} left region {region}"
                assert timeline.has_applied(region, by)
                removals += 1
    assert removals > 50


def test_faults_of_a_seed_are_marked() -> None:
    task = Task(3, 60)
    recorder = Recorder(label_of)
    replay(task.plan(17), task.judged_by(), lambda line: None, recorder)
    timeline = recorder.timeline("A seed")
    faults = [mark.text for mark in timeline.marks if mark.kind == FAULT]
    planned = [fault.kind for fault in task.plan(17).faults()]
    assert faults and all(any(text.startswith(kind) for kind in planned) for text in faults)
    assert timeline.gaps
    assert parsed(draw(timeline, events_max=10_000)).tag == f"{SVG}svg"


def test_an_empty_sync_row_interrupts_the_hatching() -> None:
    """The links opened, although nothing was sent. Once the hatching went on through the band."""
    timeline = run(
        """
| Time | us | eu |
| --- | --- | --- |
| t1 | `XLEN x` → 0 | |
| t2 | — Sync — | — Sync — |
| t3 | `XLEN x` → 0 | |
"""
    )
    layout = laid_out(timeline)
    assert "nothing to send" in texts(parsed(draw(timeline)))
    (band,) = layout.bands
    upper, lower = layout.hatches
    assert upper.y + upper.height < lower.y
    assert band.y < upper.y + upper.height and lower.y < band.y + band.height


def test_a_start_does_not_interrupt_the_hatching() -> None:
    """A start opens all links for no time at all; the runner closes those of the table again."""
    timeline = run(
        """
| Time | us | eu |
| --- | --- | --- |
| t1 | `XADD x 110 a 1` | |
| t2 | — Kill 20 ms — | |
| t3 | `XLEN x` | |
"""
    )
    assert len(timeline.outages) == 1
    assert sorted((gap.source, gap.to) for gap in timeline.gaps) == [(1, 2), (2, 1)]
    assert all(gap.end is None for gap in timeline.gaps)


def test_a_group_that_a_delete_destroys_is_struck_through() -> None:
    """S6.1: the concurrent create had not seen the DEL, and dies with it."""
    timeline = run(
        """
| Time | us | eu |
| --- | --- | --- |
| t1 | `XADD x 110 a 1` | |
| t2 | — Sync — | — Sync — |
| t3 | `DEL x` → 1 | `XGROUP CREATE x h 0` |
| t4 | `XGROUP CREATE x k 0 MKSTREAM` | |
| t5 | — Sync — | — Sync — |
"""
    )
    creates = {
        effect.text: meaning_of(timeline, dot)
        for dot, effect in timeline.effects.items()
        if effect.text.startswith("creates")
    }
    assert creates == {"creates group h": REMOVED, "creates group k": PLAIN}
    shown = texts(parsed(draw(timeline)))
    assert shown.count("✕ group h") == 2 and shown.count("group k") == 2
