"""Idempotent adds across regions (S9)."""

from __future__ import annotations

from tests.review.support import Place, carry, cluster, sync


def _add(place: Place, iid: str = "1") -> str:
    reply = place.ok("XADD", "x", "IDMP", "p", iid, "*", "f", place.region_id)
    assert isinstance(reply, bytes)
    return reply.decode()


def test_one_entry_is_left_and_everybody_answers_with_it() -> None:
    """S9.1, S9.2: of two adds of one pair, neither having seen the other, the lowest (ID, region) stays, everywhere."""
    us, eu, ap = cluster(3, stream_idmp_duration="100")
    winner, loser = _add(us), _add(eu)
    assert winner < loser
    sync(us, eu, ap)
    assert us.ids("x") == eu.ids("x") == ap.ids("x") == [winner]
    assert [_add(place) for place in (us, eu, ap)] == [winner] * 3
    assert eu.engine.statistics.idmp_conflicts == 1
    assert us.engine.statistics.idmp_conflicts == 0


def test_a_loser_that_is_held_for_longer_answers_with_the_winner() -> None:
    """S9.1: of a conflict's two, the winner's ID while both are here.

    ap hears of the winner at once, and of the loser much later. When the duration since it holds the winner is over, that since
    it holds the loser is not: a retry must not be told the ID of an entry that is gone.
    """
    us, eu, ap = cluster(3, stream_idmp_duration="10")
    winner, _ = _add(us), _add(eu)
    carry(us, ap)
    ap.at(9000)
    carry(eu, ap)
    ap.at(13000)
    assert _add(ap) == winner


def test_after_its_duration_a_pair_is_a_new_add_and_answers_for_itself() -> None:
    """S9.1: then the same pair is a new add; the former, kept until stable, neither answers nor conflicts."""
    us, eu = cluster(2, stream_idmp_duration="10")
    former = _add(us)
    us.at(20000)
    newer = _add(us)
    assert newer != former
    us.at(20001)
    assert _add(us) == newer
    carry(us, eu)
    assert us.ids("x") == eu.ids("x") == [former, newer]


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
    """S9.2: that a commit is being retried (S13.4) is no reason to wait: the removal was put off until somebody's next command."""
    us, eu = cluster(2)
    winner, _ = _add(us), _add(eu)
    us.commit()
    failing = eu.engine.take_commit(eu.now_ms)
    assert failing is not None
    eu.engine.commit_failed("disk full")
    eu.engine.merge(us.lacking({}), 1, eu.now_ms)
    eu.engine.committed(failing.position, eu.now_ms)
    commit = eu.commit()
    assert commit is not None and commit.vector == {1: 1, 2: 2}
    assert eu.ids("x") == [winner]


def test_a_snapshot_brings_no_more_pairs_than_maxsize() -> None:
    """S9.3, S14: maxsize evicts the oldest, however they came."""
    us, eu = cluster(2, stream_idmp_maxsize="5")
    for iid in range(4):
        _add(us, f"us{iid}")
        _add(eu, f"eu{iid}")
    us.commit()
    eu.engine.join(list(us.engine.snapshot_cut().chunks(1 << 20)), 1, eu.now_ms)
    stream = eu.engine.keyspace.get(b"x")
    assert stream is not None
    assert stream.pairs.count() == 5
