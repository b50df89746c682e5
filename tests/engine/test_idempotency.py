"""Idempotent adds across regions (S9)."""

from __future__ import annotations

import pytest

from anabranch.crdt.idempotency import Pairs
from anabranch.region.engine.commands.info import crdt
from anabranch.region.engine.figures.figure import View
from anabranch.region.engine.figures.table import figures
from anabranch.region.engine.replies import MapReply
from tests.support.engine_cluster import Place, carry, cluster, sync, tell

EVICTED_EARLY = "crdt_idmp_evicted_early"


def _add(place: Place, iid: str = "1") -> str:
    reply = place.ok("XADD", "x", "IDMP", "p", iid, "*", "f", place.region_id)
    assert isinstance(reply, bytes)
    return reply.decode()


def test_one_entry_is_left_and_everybody_answers_with_it() -> None:
    """S9.1, S9.2: of two adds of one pair the lowest (ID, region) stays, everywhere.

    Neither add had seen the other.
    """
    us, eu, ap = cluster(3, stream_idmp_duration="100")
    winner, loser = _add(us), _add(eu)
    assert winner < loser
    sync(us, eu, ap)
    assert us.ids("x") == eu.ids("x") == ap.ids("x") == [winner]
    assert [_add(place) for place in (us, eu, ap)] == [winner] * 3
    assert eu.engine.state.replication.idmp_conflicts == 1
    assert us.engine.state.replication.idmp_conflicts == 0


@pytest.mark.parametrize("is_told_first", [True, False])
def test_the_loser_of_a_lost_region_is_removed_by_the_first_that_remains(
    is_told_first: bool,
) -> None:
    """S9.2: ap added the loser, and is said lost before it hears of the winner.

    Both entries stayed for ever, because only ap would have removed the loser. The word of the loss
    may come before the pairs meet, or after.
    """
    us, eu, ap = cluster(3, stream_idmp_duration="100")
    winner, loser = _add(us), _add(ap)
    if not is_told_first:
        carry(ap, us)
        assert us.ids("x") == [winner, loser]
    carry(ap, eu)
    us("CRDT.MEMBER", "LOST", "ap")
    eu("CRDT.MEMBER", "LOST", "ap")
    sync(us, eu)
    assert us.ids("x") == eu.ids("x") == [winner]
    assert us.engine.state.replication.idmp_conflicts == 1
    assert eu.engine.state.replication.idmp_conflicts == 0
    assert [_add(place) for place in (us, eu)] == [winner] * 2


def test_a_loser_that_is_held_for_longer_answers_with_the_winner() -> None:
    """S9.1: of a conflict's two pairs, the winner's ID answers while both are here.

    ap hears of the winner at once, and of the loser much later. The duration since it holds the
    winner ends first, while it still holds the loser. A retry must not be told the ID of an entry
    that is gone.
    """
    us, eu, ap = cluster(3, stream_idmp_duration="10")
    winner, _ = _add(us), _add(eu)
    carry(us, ap)
    ap.at(9000)
    carry(eu, ap)
    ap.at(13000)
    assert _add(ap) == winner


def test_of_three_adds_the_one_that_stays_answers_retries() -> None:
    """S9.1, S9.2: of three adds of one pair, the second lost to the first, the third to the second.

    us had pushed the first pair out, so its third add had seen the first and is no conflict with
    it. ap added the second. Both later entries go, and a retry must hear the ID of the first. us
    told the ID of the second, because it held that pair last. From simulator seed 33305645984.
    """
    us, ap = cluster(2, stream_idmp_duration="100", stream_idmp_maxsize="1")
    first, other = _add(us), _add(us, "2")
    ap.at(1500)
    _add(ap)
    us.at(1600)
    _add(us)
    sync(us, ap)
    assert us.ids("x") == ap.ids("x") == [first, other]
    assert [_add(place) for place in (us, ap)] == [first, first]


def test_after_its_duration_a_pair_is_a_new_add_and_answers_for_itself() -> None:
    """S9.1: after the duration the same pair is a new add.

    The former pair is kept until stable, and neither answers nor conflicts.
    """
    us, eu = cluster(2, stream_idmp_duration="10")
    former = _add(us)
    us.at(20000)
    newer = _add(us)
    assert newer != former
    us.at(20001)
    assert _add(us) == newer
    carry(us, eu)
    assert us.ids("x") == eu.ids("x") == [former, newer]


def test_an_own_add_settles_no_conflict_of_other_pairs() -> None:
    """S9.2: a loser is removed in the commit that merges the winner.

    Two adds met when they were recorded further apart than the duration. A longer duration came
    into force, and the next add of the same pair removed the former entry of this region. From
    simulator seed 915699.
    """
    us, eu, _ap = cluster(3, stream_idmp_duration="1")
    first = _add(us)
    eu.at(2500)
    second = _add(eu)
    carry(us, eu)
    eu.ok("CONFIG", "SET", "stream-idmp-duration", "10")
    eu.at(20000)
    third = _add(eu)
    assert eu.ids("x") == [first, second, third]
    assert eu.engine.state.replication.idmp_conflicts == 0


def test_a_loser_that_comes_back_after_a_restore_is_removed_on_leaving() -> None:
    """S9.2: if it may not issue yet, first of all once it may, before it collects anything."""
    us, eu, ap = cluster(3, stream_idmp_duration="100")
    winner, loser = _add(us), _add(eu)
    carry(eu, ap)
    eu.restart(5000, 0, restored=True)
    carry(us, eu)
    carry(ap, eu)
    assert eu.ids("x") == [winner, loser]
    for now_ms in range(5000, 7000, 300):
        for place in (us, eu, ap):
            place.at(now_ms)
        sync(us, eu, ap)
    assert us.ids("x") == eu.ids("x") == ap.ids("x") == [winner]


def test_while_commits_fail_a_loser_goes_in_the_commit_that_merges_the_winner() -> None:
    """S9.2: a commit that is being retried (S13.4) does not put the removal off.

    It once waited for the next command of a client.
    """
    us, eu = cluster(2)
    winner, _ = _add(us), _add(eu)
    us.commit()
    failing = eu.engine.disk.take_commit(eu.now_ms)
    assert failing is not None
    eu.engine.disk.commit_failed("disk full")
    eu.engine.peers.merge(us.lacking({}), 1, eu.now_ms)
    eu.engine.disk.committed(eu.now_ms)
    commit = eu.commit()
    assert commit is not None and commit.vector == {1: 1, 2: 2}
    assert eu.ids("x") == [winner]


# -- pairs above maxsize


def _pairs(place: Place) -> Pairs:
    stream = place.engine.keyspace.get(b"x")
    assert stream is not None
    return stream.pairs


def _retired(place: Place) -> list[bytes]:
    return [pair.iid for pair in _pairs(place).everything() if pair.is_retired]


def _tracked(place: Place) -> tuple[object, object]:
    """(producers, pairs) that XINFO STREAM counts."""
    reply = place.ok("XINFO", "STREAM", "x")
    assert isinstance(reply, MapReply)
    shown = dict(zip(reply.flat[::2], reply.flat[1::2], strict=True))
    return shown[b"pids-tracked"], shown[b"iids-tracked"]


def _forgotten_early(place: Place) -> int:
    """What operators see of it."""
    state = place.engine.state
    (shown,) = [value for name, value in crdt(View(state)) if name == EVICTED_EARLY]
    (value,) = [
        samples[0][2]
        for name, _, _, samples in figures(state)
        if name == "anabranch_idmp_evicted_early_total"
    ]
    assert shown == str(int(value)) == str(state.keyspace.pair_limits.forgotten_early)
    return int(shown)


def _take_snapshot(source: Place, target: Place) -> None:
    cut = source.engine.peers.snapshots.cut()
    source.commit()
    target.engine.peers.snapshots.join(list(cut.chunks(100)), source.region_id, target.now_ms)
    target.commit()


def _exchange(us: Place, eu: Place, way: str) -> None:
    """Both get what the other has: by blocks, or by snapshots, each cut before the other's came."""
    if way == "blocks":
        us.commit()
        eu.commit()
        from_us, from_eu = us.lacking(eu.engine.vector), eu.lacking(us.engine.vector)
        eu.engine.peers.merge(from_us, us.region_id, eu.now_ms)
        us.engine.peers.merge(from_eu, eu.region_id, us.now_ms)
    else:
        cut = us.engine.peers.snapshots.cut()
        us.commit()
        _take_snapshot(eu, us)
        eu.engine.peers.snapshots.join(list(cut.chunks(100)), us.region_id, eu.now_ms)
    us.commit()
    eu.commit()


def _both_add_the_same_and_then_more(us: Place, eu: Place, more: int) -> tuple[str, str]:
    """(winner, loser), and each region has `more` further pairs of the producer."""
    winner, loser = _add(us, "same"), _add(eu, "same")
    assert winner < loser
    for number in range(more):
        _add(us, f"us{number}")
        _add(eu, f"eu{number}")
    return winner, loser


def test_a_snapshot_pushes_pairs_out_only_with_a_new_one() -> None:
    """S9.3, S11.3: a join has the result of receiving the effects. From simulator seed 19004382.

    A smaller maxsize came with the snapshot of a region that held a pair of the producer, which was
    known. The older pairs were pushed out, and a retry of one made a second entry.
    """
    us, eu, ap = cluster(3)
    first = [_add(eu, iid) for iid in "ab"]
    _add(ap, "c")
    carry(ap, eu)
    us.ok("XADD", "x", "*", "f", "v")
    us.ok("XCFGSET", "x", "IDMP-MAXSIZE", 1)
    carry(ap, us)
    _take_snapshot(us, eu)
    assert [_add(eu, iid) for iid in "ab"] == first


def test_a_retired_pair_answers_no_retries() -> None:
    """S9.3: a pair beyond maxsize is kept and answers no more; its retry is a new add."""
    us = cluster(2, stream_idmp_maxsize="2")[0]
    first = _add(us, "a")
    others = [_add(us, iid) for iid in "bc"]
    assert _retired(us) == [b"a"]
    assert _tracked(us) == (1, 2)
    assert [_add(us, iid) for iid in "bc"] == others
    again = _add(us, "a")
    assert again not in (first, *others)
    assert _add(us, "a") == again
    assert _retired(us) == [b"a", b"b"]
    assert us.ids("x") == [first, *others, again], "it had seen its own first add: no conflict"
    assert _forgotten_early(us) == 0


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("way", ["blocks", "snapshots"])
@pytest.mark.parametrize("more", [1, 2, 3, 7])
def test_pairs_that_maxsize_pushed_out_still_conflict(more: int, way: str, restarts: bool) -> None:
    """S9.3: us and eu add the same pair while the link is cut.

    Each pushes the pair out before it hears of the other's add.
    """
    us, eu = cluster(2, stream_idmp_maxsize="2")
    winner, loser = _both_add_the_same_and_then_more(us, eu, more)
    assert (b"same" in _retired(us)) == (b"same" in _retired(eu)) == (more >= 2)
    if restarts:
        for place in (us, eu):
            place.commit()
            place.restart(place.now_ms + 1)
            place.at(place.now_ms)
    _exchange(us, eu, way)
    assert loser not in eu.ids("x"), "it goes in the commit that merges the winner"
    _exchange(us, eu, way)
    assert winner in us.ids("x") and loser not in us.ids("x")
    assert us.ids("x") == eu.ids("x") and len(us.ids("x")) == 1 + 2 * more
    assert us.digest() == eu.digest()
    assert eu.engine.state.replication.idmp_conflicts == 1
    assert us.engine.state.replication.idmp_conflicts == 0
    for place in (us, eu):
        assert _forgotten_early(place) == 0
        assert _pairs(place).count() == 2 * more + 2
        assert _pairs(place).count_answering() == 2
        assert _tracked(place) == (1, 2)


@pytest.mark.parametrize("way", ["blocks", "snapshots"])
def test_a_retired_pair_meets_one_that_answers(way: str) -> None:
    """S9.3: it is enough that one of the two regions has pushed the pair out, whichever it is."""
    for pushed_out in (0, 1):
        us, eu = places = cluster(2, stream_idmp_maxsize="2")
        winner, loser = _add(us, "same"), _add(eu, "same")
        for iid in "abc":
            _add(places[pushed_out], iid)
        assert [_retired(place) for place in places][pushed_out] == [b"same", b"a"]
        assert not _retired(places[1 - pushed_out])
        _exchange(us, eu, way)
        _exchange(us, eu, way)
        assert us.ids("x") == eu.ids("x") and len(us.ids("x")) == 4
        assert winner in us.ids("x") and loser not in us.ids("x")


def test_what_a_region_pushed_out_of_a_third_wins_there() -> None:
    """S9.3: ap holds the winner as a retired pair only.

    eu's add lost to it, and eu hears of the winner from ap alone.
    """
    us, eu, ap = cluster(3, stream_idmp_maxsize="1")
    winner, loser = _add(us, "same"), _add(eu, "same")
    carry(us, ap)
    for iid in "ab":
        _add(ap, iid)
    assert _retired(ap) == [b"same", b"a"]
    _take_snapshot(ap, eu)
    assert winner in eu.ids("x") and loser not in eu.ids("x")
    assert eu.engine.state.replication.idmp_conflicts == 1


def test_the_pairs_of_a_clock_that_is_ahead_grow_old_too() -> None:
    """S9.3: a pair is no younger than its arrival, whatever time its adder recorded.

    eu's clock is an hour ahead. Its pair counted as the newest for an hour, so the pair of ap,
    which came later, was pushed out at once, and a retry of it stood twice.
    """
    us, eu, ap = cluster(3, stream_idmp_maxsize="2")
    eu.at(3_600_000)
    _add(eu, "ahead")
    carry(eu, us)
    us.at(2000)
    _add(us, "own")
    ap.at(2100)
    us.at(2200)
    _add(ap, "late")
    carry(ap, us)
    assert _retired(us) == [b"ahead"]


@pytest.mark.parametrize("way", ["blocks", "snapshots"])
def test_beyond_its_limit_a_duplicate_stays_and_is_counted(way: str) -> None:
    """S9.3: pairs kept above maxsize have a limit of their own.

    Each pair that is forgotten at that limit is counted.
    """
    us, eu = cluster(2, stream_idmp_maxsize="2", crdt_idmp_retired_max="3")
    winner, loser = _both_add_the_same_and_then_more(us, eu, 5)
    for place in (us, eu):
        assert b"same" not in _retired(place)
        assert (_pairs(place).count(), _forgotten_early(place)) == (5, 1)
    _exchange(us, eu, way)
    _exchange(us, eu, way)
    assert {winner, loser} <= set(us.ids("x"))
    assert us.ids("x") == eu.ids("x") and len(us.ids("x")) == 12
    for place in (us, eu):
        assert (_pairs(place).count(), _pairs(place).count_answering()) == (5, 2)
        assert place.engine.keyspace.pair_limits.retired == 3
    us.ok("CONFIG", "RESETSTAT")
    assert _forgotten_early(us) == 0


def test_the_limit_of_retired_pairs_is_the_regions_and_may_change() -> None:
    """S9.3, S14: the limit holds over all streams and producers of a region.

    When a producer pushes out its next pair, it makes room among its own.
    """
    us = cluster(2, stream_idmp_maxsize="1")[0]
    for number in range(4):
        for key in ("x", "y"):
            us.ok("XADD", key, "IDMP", "p", number, "*", "f", "1")
    limits = us.engine.keyspace.pair_limits
    assert (limits.retired, limits.forgotten_early) == (6, 0)
    us.ok("CONFIG", "SET", "crdt-idmp-retired-max", "4")
    assert limits.retired == 6
    us.ok("XADD", "x", "IDMP", "p", "4", "*", "f", "1")
    assert (limits.retired, limits.forgotten_early) == (4, 3)
    assert _retired(us) == [b"3"]
    us.ok("DEL", "y")
    assert (limits.retired, limits.forgotten_early) == (1, 3)
    us.ok("FLUSHALL")
    assert (limits.retired, limits.forgotten_early) == (0, 3)


def test_how_many_answer_may_change() -> None:
    """S9.3: from a producer's next add on; what was retired stays so."""
    us = cluster(2, stream_idmp_maxsize="3")[0]
    for iid in "abc":
        _add(us, iid)
    us.ok("CONFIG", "SET", "stream-idmp-maxsize", "1")
    assert _retired(us) == []
    _add(us, "d")
    assert _retired(us) == [b"a", b"b", b"c"]
    us.ok("CONFIG", "SET", "stream-idmp-maxsize", "3")
    _add(us, "e")
    assert _retired(us) == [b"a", b"b", b"c"] and _tracked(us) == (1, 2)


def test_retired_pairs_go_when_they_are_stable() -> None:
    """S9.3: a retired pair goes as soon as every member has the add, before the duration ends.

    Pairs that answer stay.
    """
    us, eu = cluster(2, stream_idmp_maxsize="2", stream_idmp_duration="100")
    for iid in "abcde":
        _add(us, iid)
    us.at(us.now_ms + 10)
    assert _retired(us) == [b"a", b"b", b"c"], "eu does not have them"
    sync(us, eu)
    us.at(us.now_ms + 10)
    assert _retired(us) == [] and _pairs(us).count() == 2
    assert us.engine.keyspace.pair_limits.retired == 0
    assert _forgotten_early(us) == 0
    answers = us.ids("x")[-2:]
    assert [_add(us, iid) for iid in "de"] == answers


def test_a_producer_without_answering_pairs_is_not_tracked() -> None:
    """S9.3: us's own pair is retired and not stable.

    eu's pair, which pushed it out, is stable, and its duration is over.
    """
    us, eu = cluster(2, stream_idmp_maxsize="1", stream_idmp_duration="1")
    first = _add(us, "a")
    _add(eu, "b")
    carry(eu, us)
    assert _retired(us) == [b"a"] and _tracked(us) == (1, 1)
    tell(us, eu)
    tell(eu, us)
    us.at(3000)
    assert [pair.iid for pair in _pairs(us).everything()] == [b"a"]
    assert _tracked(us) == (0, 0)
    assert _add(us, "a") != first


def test_a_configuration_says_how_many_answer() -> None:
    """S9.3, S9.4: the maxsize of XCFGSET holds for the pairs that it has not cleared.

    A larger maxsize brings no retired pair back.
    """
    us = cluster(2, stream_idmp_maxsize="1")[0]
    _add(us, "gone")
    us.ok("XCFGSET", "x", "IDMP-MAXSIZE", "3")
    for iid in "abcde":
        _add(us, iid)
    assert _retired(us) == [b"a", b"b"] and _pairs(us).count() == 5
    us.ok("XCFGSET", "x", "IDMP-MAXSIZE", "50")
    assert not _pairs(us) and us.engine.keyspace.pair_limits.retired == 0
    us, eu = cluster(2, stream_idmp_maxsize="1")
    for iid in "ab":
        _add(us, iid)
    eu.ok("XADD", "x", "*", "f", "1")
    eu.ok("XCFGSET", "x", "IDMP-MAXSIZE", "50")
    carry(eu, us)  # it clears what eu had seen, so nothing of us
    _add(us, "c")
    assert _retired(us) == [b"a"] and _tracked(us) == (1, 2)


def test_a_snapshot_brings_no_more_answering_pairs_than_maxsize() -> None:
    """S9.3, S14: maxsize retires the oldest, however they came."""
    us, eu = cluster(2, stream_idmp_maxsize="5", crdt_idmp_retired_max="3")
    for iid in range(4):
        _add(us, f"us{iid}")
        _add(eu, f"eu{iid}")
    _take_snapshot(us, eu)
    assert _retired(eu) == [b"eu0", b"eu1", b"eu2"]
    assert (_pairs(eu).count(), _pairs(eu).count_answering()) == (8, 5)
    assert _tracked(eu) == (1, 5) and _forgotten_early(eu) == 0
    _add(us, "us4")
    _take_snapshot(us, eu)
    assert _retired(eu) == [b"eu1", b"eu2", b"eu3"]
    assert (_pairs(eu).count(), _pairs(eu).count_answering()) == (8, 5)
    assert _forgotten_early(eu) == 1
    before = eu.ids("x")
    assert [_add(eu, f"us{number}") for number in range(5)] == us.ids("x")
    assert eu.ids("x") == before
    assert _add(eu, "eu3") not in before


def test_the_alarm_of_retired_pairs_is_raised_at_half_of_the_limit() -> None:
    """Above the limit pairs are forgotten and retried adds may stand twice, so it warns before."""
    us, _ = cluster(2, crdt_idmp_retired_max="4")
    shown = []
    for number in range(105):
        _add(us, str(number))
        figures_of_us = dict(crdt(View(us.engine.state)))
        shown.append((figures_of_us["crdt_idmp_retired"], figures_of_us["crdt_idmp_retired_alarm"]))
    assert shown[100:] == [("1", "0"), ("2", "0"), ("3", "1"), ("4", "1"), ("4", "1")]
    assert figures_of_us["crdt_idmp_retired_max"] == "4"
    metrics = {name: values[0][2] for name, _, _, values in figures(us.engine.state) if values}
    assert metrics["anabranch_idmp_retired"] == 4 and metrics["anabranch_idmp_retired_alarm"] == 1
