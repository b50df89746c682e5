"""Each judge is silent on a sound history, and reports what is made wrong in it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from anabranch.chaos.judges import JUDGES
from tests.chaos.made_up import Run, sound


@pytest.mark.parametrize("is_always", [True, False])
def test_a_sound_run_has_no_violations(is_always: bool) -> None:
    assert sound(is_always).found() == {}


def test_every_judge_has_a_violation_below() -> None:
    assert {name for name, _, _ in SPOILT} == set(JUDGES)


def _lost_everywhere(run: Run) -> None:
    run.add("plain", "80-1", "gone", 9.0, stays=False)


def _lost_in_one_region(run: Run) -> None:
    run.own["eu"] = {"plain": run.streams["plain"][1:]}


def _lost_idempotent(run: Run) -> None:
    run.add("idempotent", "90-1", "i2", 9.0, outcome="unknown", stays=False, is_idempotent=True)
    run.add("idempotent", "91-1", "i2", 9.5, stays=False, is_idempotent=True)


def _trimmed_above_the_minimum(run: Run) -> None:
    run.add("minid", "62-1", "o", 7.5, stays=False)


def _trimmed_below_the_length(run: Run) -> None:
    run.streams["maxlen"] = []


def _removed_by_nobody(run: Run) -> None:
    run.add("removed", "51-1", "s", 5.0, stays=False)


def _added_after_the_trim(run: Run) -> None:
    run.add("maxlen", "72-1", "z", 20.0, stays=False)
    run.add("maxlen", "73-1", "zz", 21.0)


def _nobody_added(run: Run) -> None:
    run.streams["plain"].append(("99-1", "ghost"))


def _refused(run: Run) -> None:
    run.streams["plain"].append(("98-1", "d"))


def _another_id(run: Run) -> None:
    run.streams["plain"][0] = ("10-1001", "a")


def _twice(run: Run) -> None:
    run.streams["idempotent"].append(("31-2", "i"))


def _never_delivered(run: Run) -> None:
    run.history.deliveries = [
        one for one in run.history.deliveries if (one.region, one.entry_id) != ("eu", "40-1")
    ]


def _group_delivers_nothing(run: Run) -> None:
    run.history.deliveries = []
    run.history.acknowledgements = []


def _delivered_again(run: Run) -> None:
    run.deliver("41-1", 9.0)


def _stream_out_of_order(run: Run) -> None:
    run.streams["plain"].reverse()


def _one_id_twice(run: Run) -> None:
    run.streams["plain"].insert(1, ("10-1", "c"))


def _reply_out_of_order(run: Run) -> None:
    run.deliver("41-1", 6.5, reply=7)
    run.deliver("40-1", 6.5, reply=7)


def _ids_go_back(run: Run) -> None:
    run.add("plain", "9-1", "late", 9.0)
    run.streams["plain"].sort(key=lambda entry: int(entry[0].partition("-")[0]))


def _came_back(run: Run) -> None:
    run.streams["removed"] = [("50-1", "r")]


def _left_by_minid(run: Run) -> None:
    run.streams["minid"].insert(0, ("60-1", "m"))


def _other_entries(run: Run) -> None:
    run.own["eu"] = {"plain": [*run.streams["plain"], ("97-2", "e")]}


def _other_vectors(run: Run) -> None:
    run.vectors["eu"] = {1: 9, 2: 8}


def _other_digests(run: Run) -> None:
    run.digests["eu"] = "x"


def _never_level(run: Run) -> None:
    run.level_s = None


def _gap(run: Run) -> None:
    run.info["crdt_gaps"] = "1"


def _death(run: Run) -> None:
    run.deaths.append("ended by itself with code 1")


def _unreadable(run: Run) -> None:
    run.errors.append("NOGROUP")


def _nothing_acknowledged(run: Run) -> None:
    run.history.adds = []


def _nothing_consumed(run: Run) -> None:
    for one in run.history.deliveries:
        one.way = "drain"


def _refused_without_a_fault(run: Run) -> None:
    run.history.refusals["ERR unknown command"] = 3


def _bad_line(run: Run) -> None:
    run.bad_lines.append("DIVERGENCE")


def _nothing_tailed(run: Run) -> None:
    run.history.readings = []


def _tailed_twice(run: Run) -> None:
    run.read("20-1", "c", 4.0)


def _tailed_backwards(run: Run) -> None:
    run.read("11-2", "b", 4.0)


def _tailed_a_ghost(run: Run) -> None:
    run.read("97-1", "ghost", 4.0)


def _tailed_what_was_refused(run: Run) -> None:
    run.read("97-1", "d", 4.0)


def _tailed_under_another_id(run: Run) -> None:
    run.read("97-1", "b", 4.0)


def _delivered_with_other_fields(run: Run) -> None:
    run.deliver("40-1", 9.0, value="j as {}")


def _id_of_another_region(run: Run) -> None:
    run.add("plain", "95-2", "far", 9.0)


def _recovers_without_a_backup(run: Run) -> None:
    run.recoveries = 1


def _never_recovers(run: Run) -> None:
    run.restores, run.recoveries = 2, 1


SPOILT: list[tuple[str, Callable[[Run], None], str]] = [
    ("lost", _lost_everywhere, "us lacks plain 80-1 (gone), which us acknowledged at 9.50 s"),
    ("lost", _lost_in_one_region, "eu lacks plain 10-1 (a)"),
    ("lost", _lost_idempotent, "us lacks idempotent 91-1 (i2)"),
    ("lost", _trimmed_above_the_minimum, "us lacks minid 62-1 (o)"),
    ("lost", _trimmed_below_the_length, "us lacks maxlen 71-1 (y)"),
    ("lost", _removed_by_nobody, "us lacks removed 51-1 (s)"),
    ("lost", _added_after_the_trim, "us lacks maxlen 72-1 (z)"),
    ("phantom", _nobody_added, "us holds plain 99-1 (ghost), which nobody added"),
    ("phantom", _refused, "us holds plain 98-1 (d), which was refused"),
    ("phantom", _another_id, "us holds plain a as 10-1001; answered was 10-1"),
    ("twice", _twice, "us holds idempotent i 2 times: 30-1, 31-2"),
    ("skipped", _never_delivered, "the group in eu never delivered jobs 40-1 (j)"),
    ("skipped", _group_delivers_nothing, "the group in us never delivered jobs 40-1 (j)"),
    ("delivered again", _delivered_again, "us delivered jobs 41-1 at 9.00 s, acknowledged there"),
    ("order", _stream_out_of_order, "us: plain has (20, 1) before (11, 2)"),
    ("order", _one_id_twice, "us: plain has (10, 1) before (10, 1)"),
    ("order", _reply_out_of_order, "reply 7 of a group is out of order"),
    ("order", _ids_go_back, "us gave plain late the ID 9-1, not above 10-1"),
    ("tailed", _tailed_twice, "tailer-us read plain 20-1 after 20-1"),
    ("tailed", _tailed_backwards, "tailer-us read plain 11-2 after 20-1"),
    ("tailed", _tailed_a_ghost, "tailer-us read plain 97-1 (ghost), which nobody added"),
    ("tailed", _tailed_what_was_refused, "tailer-us read plain 97-1 (d), which was refused"),
    ("tailed", _tailed_under_another_id, "read plain 97-1 (b), which was answered with 11-2"),
    ("vacuous", _nothing_tailed, "no entry was read by a tailing reader"),
    ("returned", _came_back, "us holds removed 50-1 (r), which us removed at 6.10 s"),
    ("returned", _left_by_minid, "us holds minid 60-1, which us trimmed with MINID 61-1"),
    ("divergent", _other_entries, "plain: us holds 3 entries and eu 4"),
    ("divergent", _other_vectors, "the vectors of us and eu differ"),
    ("divergent", _other_digests, "us and eu have equal vectors and unequal digests"),
    ("level", _never_level, "the regions did not level within 60 s: eu lags"),
    ("alarm", _gap, "us reports crdt_gaps:1"),
    ("alarm", _death, "us: ended by itself with code 1"),
    ("alarm", _unreadable, "us: NOGROUP"),
    ("vacuous", _nothing_acknowledged, "no add was acknowledged"),
    ("vacuous", _nothing_consumed, "no entry was delivered to a consumer"),
    ("vacuous", _refused_without_a_fault, "3 requests were refused with 'ERR unknown command'"),
    ("alarm", _bad_line, "us logged: DIVERGENCE"),
    ("phantom", _delivered_with_other_fields, "us delivered jobs 40-1 (j as {}), which nobody"),
    ("order", _id_of_another_region, "us gave plain far the ID 95-2 of another"),
    ("alarm", _recovers_without_a_backup, "us has entered recovery"),
    ("alarm", _never_recovers, "us was put back 2 times and told of 1"),
]


@pytest.mark.parametrize("name, spoil, text", SPOILT, ids=lambda one: getattr(one, "__name__", ""))
def test_a_violation_is_reported(name: str, spoil: Callable[[Run], None], text: str) -> None:
    run = sound()
    spoil(run)
    found = run.found()
    assert any(text in line for line in found.get(name, [])), found


# -- what the rules allow is no violation


def test_everysec_may_lose_the_last_second_before_a_kill() -> None:
    for is_always, at_s, is_lost in [(False, 10.5, False), (False, 60.0, True), (True, 10.5, True)]:
        run = sound(is_always)
        run.add("plain", "80-1", "gone", 9.0, stays=False)
        run.kill("us", at_s)
        assert ("lost" in run.found()) == is_lost, (is_always, at_s)


def test_everysec_may_lose_what_a_full_disk_did_not_take() -> None:
    """A region that is killed while its commits fail loses all that it had acknowledged since."""
    for since_s, is_lost in [(10.0, False), (20.0, True)]:
        run = sound(is_always=False)
        run.add("plain", "80-1", "gone", 9.0, stays=False)
        run.kill("us", 30.0, since_s)
        assert ("lost" in run.found()) == is_lost


def test_a_kill_of_another_region_excuses_nothing() -> None:
    run = sound(is_always=False)
    run.add("plain", "80-1", "gone", 9.0, stays=False)
    run.kill("eu", 10.0)
    assert "lost" in run.found()


def test_everysec_may_deliver_again_after_a_kill() -> None:
    for is_always in (False, True):
        run = sound(is_always)
        run.kill("us", 7.5)
        run.deliver("41-1", 20.0)
        assert ("delivered again" in run.found()) == is_always


@pytest.mark.parametrize("is_always", [True, False])
def test_a_backup_takes_what_no_other_region_had(is_always: bool) -> None:
    """What others had comes back, but for acknowledgements, which they hear of later."""
    for since_s, is_lost in [(8.0, False), (15.0, True)]:
        run = sound(is_always)
        run.add("plain", "80-1", "gone", 9.0, stays=False)
        run.kill("us", 20.0, since_s, backup_s=6.5)
        assert ("lost" in run.found()) == is_lost
    for backup_s, is_wrong in [(6.5, False), (15.0, True)]:
        run = sound(is_always)
        run.kill("us", 20.0, 16.0, backup_s)
        run.deliver("41-1", 30.0)
        assert ("delivered again" in run.found()) == is_wrong


def test_a_region_may_recover_more_often_than_it_was_put_back() -> None:
    """A region that is killed in recovery goes on with it."""
    run = sound()
    run.restores, run.recoveries = 1, 2
    assert run.found() == {}


def test_a_removal_whose_answer_was_lost_covers_its_entry() -> None:
    run = sound()
    run.add("removed", "51-1", "s", 5.0, stays=False)
    run.remove("removed", "51-1", 6.0, count=0, outcome="unknown")
    assert run.found() == {}


def test_a_trim_whose_answer_was_lost_may_be_executed_late() -> None:
    """A paused region executes what a client sent before it gave up; newer entries go, too."""
    for outcome, is_lost in [("unknown", False), ("ok", True)]:
        run = sound()
        run.trim("maxlen", "MAXLEN", "1", 9.0, outcome)
        run.add("maxlen", "72-1", "z", 12.0, stays=False)
        run.add("maxlen", "73-1", "zz", 13.0)
        assert ("lost" in run.found()) == is_lost


def test_faults_explain_some_refusals() -> None:
    run = sound()
    run.history.refusals["MISCONF commits fail"] = 3
    run.history.refusals["READONLY region us is in recovery, waiting for eu"] = 1
    assert run.found() == {}


def test_a_refused_removal_covers_nothing() -> None:
    run = sound()
    run.add("removed", "51-1", "s", 5.0, stays=False)
    run.remove("removed", "51-1", 6.0, count=0, outcome="refused")
    assert "lost" in run.found()


def test_a_trim_in_another_region_may_leave_what_it_did_not_see() -> None:
    run = sound()
    run.add("minid", "59-2", "far", 7.0, region="eu", stays=False)
    run.streams["minid"].insert(0, ("59-2", "far"))
    assert run.found() == {}
