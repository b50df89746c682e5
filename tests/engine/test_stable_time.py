"""The stable time and the floor of generated IDs (S7.7, S4.1), with engines driven by hand."""

from __future__ import annotations

import pytest

from anabranch.crdt.gossip import Heard, RecoveryAnswer, StartAnswer
from anabranch.region.engine.commands.info import info_text
from anabranch.region.engine.engine import Engine
from anabranch.region.engine.lifecycle import SERVING, STARTING
from anabranch.region.engine.replies import REPLY_LATER
from anabranch.region.engine.session import Session
from tests.support.engine_cluster import Place, ask_start, carry, cluster, sync, tell
from tests.support.engines import execute, single


def figures(place: Place) -> dict[str, str]:
    return figures_of(place.engine)


def figures_of(engine: Engine) -> dict[str, str]:
    lines = info_text(engine.state, ["crdt"]).decode().split("\r\n")
    return dict(line.split(":", 1) for line in lines if ":" in line)


def at(now_ms: int, *places: Place) -> None:
    """The clock of these regions reads `now_ms`, and is on their disks."""
    for place in places:
        place.at(now_ms)
        place.engine.state.schedule.clock_wanted = True
        place.commit()


def told(place: Place) -> object:
    """The reply of CRDT.STABLE; a reply that waits for the disk is committed first."""
    return place("CRDT.STABLE")


def ms_of(entry_id: object) -> int:
    assert isinstance(entry_id, bytes)
    return int(entry_id.split(b"-")[0])


# -- T


def test_it_is_the_lowest_of_the_clocks() -> None:
    us, eu, ap = cluster(3)
    at(5000, us)
    at(4000, eu)
    at(3000, ap)
    tell(eu, us)
    tell(ap, us)
    assert told(us) == 3000
    at(6000, ap)
    tell(ap, us)
    assert told(us) == 4000
    at(9000, eu)
    tell(eu, us)
    assert told(us) == 5000, "its own clock, as it is on its disk"


def test_it_does_not_follow_a_clock_that_is_not_on_disk() -> None:
    us, eu = cluster(2)
    at(5000, us, eu)
    tell(eu, us)
    us.at(8000)
    assert us.engine.state.clock.now_ms == 8000
    assert told(us) == 5000


def test_a_clock_counts_when_the_effects_before_it_are_applied() -> None:
    """The clock says that all later effects have higher IDs, and nothing about the earlier ones."""
    us, eu = cluster(2)
    at(2000, us, eu)
    tell(eu, us)
    eu.ok("XADD", "x", "*", "f", "1")
    at(3000, us, eu)
    tell(eu, us)
    assert told(us) == 2000
    carry(eu, us)
    assert told(us) == 3000
    assert len(us.ids("x")) == 1 and ms_of(us.ids("x")[0].encode()) < 3000


def test_a_later_life_throws_the_clock_away() -> None:
    us, eu = cluster(2)
    at(5000, us, eu)
    tell(eu, us)
    assert told(us) == 5000
    us.engine.peers.hear_lives({2: eu.engine.life + 1}, 5000)
    assert told(us) is None
    assert figures(us)["crdt_stable_reason"] == "no vector counts here yet of eu"
    assert figures(us)["crdt_stable_ms"] == figures(us)["crdt_stable_behind_ms"] == "0"


def test_there_is_none_during_a_start_and_in_recovery() -> None:
    us, eu = cluster(2)
    at(5000, us, eu)
    tell(eu, us)
    us.patience_ms = 1000
    us.restart(6000)
    tell(eu, us)
    assert us.engine.state.lifecycle.state == STARTING
    assert told(us) is None
    assert figures(us)["crdt_stable_reason"] == "this region is in the state starting"
    us.engine.state.lifecycle.enter_recovery()
    assert told(us) is None
    assert figures(us)["crdt_stable_reason"] == "this region is in the state recovery"


def test_a_region_that_does_not_count_gives_no_clock() -> None:
    us, eu = cluster(2)
    at(5000, us)
    us.engine.state.stability.hear(Heard(2, eu.engine.life, False, {}, 9000))
    us.at(5000)
    assert told(us) is None


def test_a_lost_member_is_left_out_once_its_effects_are_here() -> None:
    """eu holds an entry of ap that us lacks. Its clock says nothing about that entry."""
    us, eu, ap = cluster(3)
    at(2000, us, eu, ap)
    sync(us, eu, ap)
    ap.ok("XADD", "x", "*", "f", "1")
    carry(ap, eu)
    at(4000, us, eu)
    eu.ok("CRDT.MEMBER", "LOST", "ap")
    tell(eu, us)
    us.ok("CRDT.MEMBER", "LOST", "ap")
    assert told(us) is None, "the vector of eu counted before ap was lost"
    assert figures(us)["crdt_stable_reason"] == "no vector counts here yet of eu"
    assert figures(us)["crdt_stable_member_lost_ms"] == "4000"
    carry(eu, us)
    assert told(us) == 4000


def test_the_reply_waits_for_the_disk() -> None:
    """T says that all entries below it are here, so a crash must not take any of them (S2.4)."""
    us, eu = cluster(2)
    eu.ok("XADD", "x", "*", "f", "1")
    at(3000, us, eu)
    us.engine.peers.merge(eu.lacking({}), 2, 3000)
    us.engine.peers.hear(eu.engine.peers.gossip(), 3000)
    assert execute(us.engine, us.session, [b"CRDT.STABLE"], 3000) is REPLY_LATER
    assert us.engine.clients.take_replies() == []
    us.commit()
    assert [late.reply for late in us.engine.clients.take_replies()] == [3000]
    assert execute(us.engine, us.session, [b"CRDT.STABLE"], 3000) == 3000


def alone(now_ms: int) -> tuple[Engine, Session]:
    """A region alone in its cluster, whose life is on disk, and a client."""
    engine = single(now_ms=now_ms)
    engine.tick(now_ms)
    assert engine.disk.take_commit(now_ms) is not None
    engine.disk.committed(now_ms)
    return engine, engine.clients.connect("test", "test", now_ms)


def test_a_region_alone_has_its_own_clock() -> None:
    engine, session = alone(1000)
    assert execute(engine, session, [b"CRDT.STABLE"], 1000) == 1000
    engine.tick(1150)
    assert not engine.disk.wants_commit(1150)
    engine.tick(1200)
    assert engine.disk.wants_commit(1200)
    assert engine.disk.take_commit(1200) is not None
    assert execute(engine, session, [b"CRDT.STABLE"], 1210) == 1000
    engine.disk.committed(1210)
    assert execute(engine, session, [b"CRDT.STABLE"], 1210) == 1200


def test_a_region_that_has_committed_nothing_has_none() -> None:
    engine = single(now_ms=1000)
    engine.state.disk.clock_ms = 0
    assert engine.state.stable_time() == (0, "this region has committed nothing yet")


# -- the clock of an idle region


def commits(engine: Engine, from_ms: int, to_ms: int) -> list[int]:
    """Ticks every 10 ms; the times of the commits, which are on disk at once."""
    found: list[int] = []
    for now_ms in range(from_ms, to_ms, 10):
        engine.tick(now_ms)
        if engine.disk.wants_commit(now_ms):
            commit = engine.disk.take_commit(now_ms)
            assert commit is not None and commit.rows == [] and commit.clock_ms == now_ms
            assert commit.meta["clock"] == b"%d" % now_ms
            engine.disk.committed(now_ms)
            found.append(now_ms)
    return found


def test_an_idle_region_commits_its_clock_rarely_until_somebody_asks() -> None:
    engine, session = alone(1000)
    assert commits(engine, 1000, 31_000) == [11_000, 21_000]
    execute(engine, session, [b"CRDT.STABLE"], 31_000)
    asked = commits(engine, 31_000, 51_000)
    assert asked[:3] == [31_000, 31_200, 31_400]
    assert asked[-2:] == [40_800, 50_800], "nobody asks any more"
    assert len(asked) == 51


def test_a_clock_that_stands_still_is_not_committed_again() -> None:
    engine, session = alone(100_000)
    execute(engine, session, [b"CRDT.STABLE"], 100_000)
    engine.state.clock.read(50_000)
    assert commits(engine, 50_000, 70_000) == []


def test_a_region_whose_clients_ask_makes_the_others_keep_their_clocks_fresh() -> None:
    us, eu, ap = cluster(3)
    at(5000, us, eu, ap)
    told(us)
    assert not eu.engine.peers.refreshes_clock(5200)
    at(5200, us)
    tell(us, eu)
    tell(eu, ap)  # a line: ap hears of us through eu
    for place in (eu, ap):
        place.now_ms = 5300
        assert place.engine.peers.refreshes_clock(5300), place.region_id
        assert place.engine.disk.wants_commit(5300)
        place.commit()
        assert not place.engine.peers.refreshes_clock(5310), "the clock on disk is fresh"
        assert place.engine.peers.attest(True, 5310).clock_ms == 5300
    eu.at(9000)
    tell(us, eu)
    eu.at(14_000)
    assert eu.engine.peers.refreshes_clock(14_000)
    eu.commit()
    eu.at(16_000)
    assert not eu.engine.peers.refreshes_clock(16_000), "old gossip keeps no clock fresh"


def test_a_clock_on_its_way_to_disk_is_not_told() -> None:
    """A commit without rows has no position for which an attestation could wait."""
    us, _ = cluster(2)
    at(5000, us)
    us.engine.state.schedule.clock_wanted = True
    commit = us.engine.disk.take_commit(6000)
    assert commit is not None and commit.clock_ms == 6000
    attestation = us.engine.peers.attest(True, 6010)
    assert attestation.position <= us.engine.committed_position
    assert attestation.clock_ms == 5000
    us.engine.disk.committed(6020)
    assert us.engine.peers.attest(True, 6020).clock_ms == 6000


def test_no_clock_is_committed_while_commits_fail() -> None:
    us, _ = cluster(2)
    at(5000, us)
    us.engine.state.stability.time.note_asked(us.engine.state.clock.steady_ms)
    us.ok("XADD", "x", "*", "f", "1")
    us.engine.disk.take_commit(5000)
    us.engine.disk.commit_failed("disk full")
    us.engine.tick(9000)
    assert not us.engine.peers.refreshes_clock(9000)
    assert not us.engine.state.schedule.clock_wanted


# -- the floor


def starting_again(us: Place, now_ms: int, rows: int) -> None:
    """The region is put back to a backup, its clock is set back, and it waits for answers."""
    us.patience_ms = 1000
    us.restart(now_ms, rows=rows)
    assert us.engine.state.lifecycle.state == STARTING


def all_answer(us: Place, *others: Place) -> None:
    """The start asks until it is over: a first answer may name a life that it had not heard of."""
    for _ in range(2):
        for other in others:
            ask_start(us, other)
    assert us.engine.state.lifecycle.state == SERVING


def test_the_answers_of_a_start_raise_the_floor() -> None:
    us, eu, ap = cluster(3, now_ms=5000)
    at(9000, eu)
    at(8000, ap)
    starting_again(us, 2000, 0)
    all_answer(us, eu, ap)
    assert ms_of(us.ok("XADD", "x", "*", "f", "1")) == 9000
    assert ms_of(us.ok("XADD", "y", "IDMP", "p", "i", "*", "f", "1")) == 9000
    assert ms_of(us.ok("XADD", "z", "3000-*", "f", "1")) == 3000, "S4.2: a user gave that ms"
    assert us.engine.state.clock.now_ms < 9000
    assert figures(us)["crdt_id_floor_ms"] == "9000"


def test_the_floor_survives_a_restart() -> None:
    us, eu = cluster(2, now_ms=5000)
    at(9000, eu)
    starting_again(us, 2000, 0)
    all_answer(us, eu)
    us.patience_ms = 0
    us.commit()
    us.restart(2200)
    assert us.engine.state.lifecycle.state == SERVING, "eu was not asked"
    assert ms_of(us.ok("XADD", "x", "*", "f", "1")) == 9000


def test_an_answer_tells_the_floor_if_that_is_higher_than_the_clock() -> None:
    """S7.7: ap's clock, 9000, reached us as a floor only; ap and us are put back, ap unsaid.

    us told its own slow clock to ap, and ap gave IDs below a time that it had told.
    """
    us, eu, ap = cluster(3, now_ms=5000)
    at(9000, ap)
    starting_again(us, 2000, 0)
    all_answer(us, eu, ap)
    us.at(2100)
    starting_again(ap, 2000, 0)
    all_answer(ap, us, eu)
    assert ms_of(ap.ok("XADD", "x", "*", "f", "1")) == 9000


def test_no_id_is_on_disk_before_the_floor_that_it_rests_on() -> None:
    us, eu = cluster(2, now_ms=5000)
    at(9000, eu)
    starting_again(us, 2000, 0)
    us.meta.clear()
    all_answer(us, eu)
    us.ok("XADD", "x", "*", "f", "1")
    commit = us.commit()
    assert commit is not None and commit.rows
    assert us.meta["id_floor"] == b"9000"


def test_the_answers_of_a_recovery_raise_the_floor() -> None:
    us, eu, ap = cluster(3, now_ms=5000)
    us.restart(2000, rows=0, restored=True)
    lifecycle = us.engine.state.lifecycle
    # A first gossip may name a life that the recovery had not heard of: then it asks anew.
    for answerer, clock_ms in ((eu, 9000), (ap, 7000), (eu, 9000), (ap, 7000)):
        us.engine.peers.hear_lives({answerer.region_id: answerer.engine.life}, 2000)
        gossip = answerer.engine.peers.gossip()
        gossip.answers = [
            RecoveryAnswer(1, lifecycle.life, lifecycle.asking, answerer.region_id, {}, 0, clock_ms)
        ]
        us.engine.peers.hear(gossip, 2000)
    us.at(2100)
    us.commit()
    assert us.engine.state.lifecycle.state == SERVING
    assert us.meta["id_floor"] == b"9000"
    assert ms_of(us.ok("XADD", "x", "*", "f", "1")) == 9000


def test_a_lower_answer_does_not_lower_the_floor() -> None:
    us, eu = cluster(2, now_ms=5000)
    us.engine.peers.start_answered(2, StartAnswer(1, eu.engine.life, {}, 9000, {}), 5000)
    us.engine.peers.start_answered(2, StartAnswer(1, eu.engine.life, {}, 6000, {}), 5000)
    assert ms_of(us.ok("XADD", "x", "*", "f", "1")) == 9000


def test_a_time_told_before_a_restore_stays_true() -> None:
    """The reason of the floor: us told a clock, and is put back with its clock set back.

    Without the floor its next entry would lie below a time that eu has told.
    """
    us, eu = cluster(2, now_ms=5000)
    at(9000, us, eu)
    tell(us, eu)
    stable_ms = told(eu)
    assert stable_ms == 9000
    starting_again(us, 2000, 0)
    all_answer(us, eu)
    us.ok("XADD", "x", "*", "f", "1")
    carry(us, eu)
    assert ms_of(eu.ids("x")[0].encode()) >= stable_ms
    assert "merged=0" in figures(eu)["crdt_stable_late_entries"]


# -- what voids a T


def test_late_entries_are_counted_by_cause() -> None:
    us, eu = cluster(2, now_ms=5000, crdt_xadd_id_uniqueness_mode="semi-strict")
    us.ok("XADD", "old", "5-5", "f", "1")
    at(9000, us, eu)
    sync(us, eu)
    for place in (us, eu):
        place.at(9000)
    none = "given=0,renamed=0,merged=0"
    assert (
        figures(us)["crdt_stable_late_entries"] == figures(eu)["crdt_stable_late_entries"] == none
    )
    us.ok("XADD", "x", "*", "f", "1")
    us.ok("XADD", "x", "99999-1", "f", "1")
    assert figures(us)["crdt_stable_late_entries"] == none
    us.ok("XADD", "y", "8000-*", "f", "1")
    us.ok("XADD", "y", "8999-9", "f", "1")
    us.ok("XADD", "y", "9000-9", "f", "1")
    assert figures(us)["crdt_stable_late_entries"] == "given=2,renamed=0,merged=0"
    us.ok("RENAME", "old", "new")
    assert figures(us)["crdt_stable_late_entries"] == "given=2,renamed=1,merged=0"
    carry(us, eu)
    assert figures(eu)["crdt_stable_late_entries"] == "given=0,renamed=0,merged=3"
    us.ok("CONFIG", "RESETSTAT")
    eu.ok("CONFIG", "RESETSTAT")
    assert (
        figures(us)["crdt_stable_late_entries"] == figures(eu)["crdt_stable_late_entries"] == none
    )


@pytest.mark.parametrize("idempotent", [False, True])
def test_late_entries_of_a_snapshot_are_counted(idempotent: bool) -> None:
    us, eu = cluster(2, now_ms=5000)
    at(9000, us, eu)
    sync(us, eu)
    eu.at(9000)
    eu.engine.state.clock.read(9000)
    us.engine.state.clock.now_ms = 6000  # as after a restore with an answer missing
    us.ok("XADD", "x", *(["IDMP", "p", "i"] if idempotent else []), "*", "f", "1")
    us.engine.state.clock.now_ms = 9500
    us.ok("XADD", "x", "*", "f", "1")
    us.commit()
    cut = us.engine.peers.snapshots.cut()
    eu.engine.peers.snapshots.join(list(cut.chunks(1 << 20)), 1, 9500)
    assert figures(eu)["crdt_stable_late_entries"] == "given=0,renamed=0,merged=1"


def test_a_start_ended_by_patience_is_dated() -> None:
    us, eu = cluster(2, now_ms=5000)
    assert figures(us)["crdt_stable_start_by_patience_ms"] == "5000"
    starting_again(us, 6000, 0)
    all_answer(us, eu)
    assert figures(us)["crdt_stable_start_by_patience_ms"] == "0", "the backup had no such date"
    us.patience_ms = 100
    us.restart(7000)
    us.at(7100)
    us.commit()
    assert figures(us)["crdt_stable_start_by_patience_ms"] == "7100"
    us.restart(8000)
    all_answer(us, eu)
    assert figures(us)["crdt_stable_start_by_patience_ms"] == "7100", "dates are kept"


def test_a_start_that_ends_in_a_recovery_was_not_ended_by_patience() -> None:
    us, eu = cluster(2, now_ms=5000)
    us.restart(6000, rows=0, restored=True)
    lifecycle = us.engine.state.lifecycle
    us.engine.peers.hear(eu.engine.peers.gossip(), 6000)
    lifecycle.hear_answer(RecoveryAnswer(1, lifecycle.life, lifecycle.asking, 2, {}, 0, 5000))
    us.at(6100)
    assert lifecycle.state == SERVING
    assert figures(us)["crdt_stable_start_by_patience_ms"] == "0"


def test_a_region_alone_does_not_wait_for_patience() -> None:
    assert figures_of(single(now_ms=1000))["crdt_stable_start_by_patience_ms"] == "0"
