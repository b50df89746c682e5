"""Commits and sync rounds (S2.4, S2.5, S13.2).

This module decides when to commit and when a sync round begins, issues the acknowledgements that a
round announces (S8.1), makes attestations, and answers the commands that wait for commits and
rounds.
"""

from __future__ import annotations

from typing import Optional

from anabranch.crdt.acknowledge import announceable
from anabranch.crdt.effects import Acknowledge
from anabranch.crdt.vector import Vector, includes
from anabranch.region.engine.commands.replication import HASHED_PER_TICK, members_holding
from anabranch.region.engine.lifecycle import SERVING
from anabranch.region.engine.rows import Commit
from anabranch.region.engine.state import EngineState
from anabranch.region.engine.waiting import (
    DigestWaiter,
    HoldersWaiter,
    RoundWaiter,
    VectorWaiter,
    Waiter,
)


class Attestation:
    """Vector, clock and digest of this region, taken in one step (S2.4).

    The region may send them once `position` is on its disk. `digest` is empty if it was not wanted,
    or if too many entries remain to be hashed. `counts` is False before the end of the start and in
    recovery (S13.6). `asks_stable`, `lost`, `read_ms` and `ahead` are as in `Heard`.
    """

    def __init__(
        self,
        vector: Vector,
        clock_ms: int,
        floor_ms: int,
        digest: bytes,
        position: int,
        life: int,
        counts: bool,
        asks_stable: bool,
        lost: list[int],
        read_ms: int,
        ahead: dict[int, int],
    ) -> None:
        self.vector = vector
        self.clock_ms = clock_ms
        # What answers of starts and recoveries tell: the higher of clock and floor (S7.7).
        self.told_ms = max(clock_ms, floor_ms)
        self.digest = digest
        self.position = position
        self.life = life
        self.counts = counts
        self.asks_stable = asks_stable
        self.lost = lost
        self.read_ms = read_ms
        self.ahead = ahead


def attest(state: EngineState, digest_entries_max: int) -> Attestation:
    """Makes an attestation, hashing about `digest_entries_max` entries at most; 0: no digest."""
    digest = b""
    if digest_entries_max and state.keyspace.hash_some(digest_entries_max):
        digest = state.keyspace.digest()
    position = state.journal.next_position()
    if position > state.disk.position:
        state.schedule.commit_wanted = True
    clock_ms = state.journal.clock_of_next_commit()
    if clock_ms is None:
        clock_ms = state.disk.clock_of_newest_commit()
    counts = state.lifecycle.state == SERVING
    vector = dict(state.keyspace.vector)
    asks = state.stability.time.is_asked(state.clock.steady_ms)
    life, lost = state.lifecycle.life, state.members.lost()
    floor_ms = state.stability.time.id_floor_ms
    return Attestation(
        vector,
        clock_ms,
        floor_ms,
        digest,
        position,
        life,
        counts,
        asks,
        lost,
        state.clock.read_ms,
        state.peers.clocks.ahead(),
    )


def refresh_clock(state: EngineState, age_ms: int) -> bool:
    """Requests a commit that brings only the clock to disk, if nothing else is to be committed.

    The clock on disk is at least `age_ms` old then. Returns whether such a commit waits or is under
    way. None is requested while commits fail.
    """
    disk = state.disk
    if disk.error:
        return False
    if disk.in_flight is not None:
        return disk.in_flight.position <= disk.position
    if not state.journal.is_empty():
        return False
    since_ms = max(disk.clock_ms, state.disk.opened_ms)
    if state.clock.now_ms - since_ms >= age_ms:
        state.schedule.clock_wanted = True
    return state.schedule.clock_wanted


def keep_clock(state: EngineState) -> None:
    """Keeps the clock on disk from falling far behind (S7.7).

    While a client of any region asks for the stable time, the clock goes to disk about once in a
    heartbeat; otherwise a region that writes nothing leaves its disk alone but for one small commit
    every `crdt-clock-interval-ms`.
    """
    is_wanted = state.stability.time.is_wanted(state.clock.steady_ms)
    name = "crdt-heartbeat-interval-ms" if is_wanted else "crdt-clock-interval-ms"
    refresh_clock(state, state.settings.integer(name))


def is_round_due(state: EngineState) -> bool:
    """Whether a round may begin (S2.5).

    A round begins at most every crdt-sync-interval-ms, or at once after CRDT.SYNC, and never while
    no peer receives from this region.
    """
    if state.peers.receiver_count == 0:
        return False
    return (
        state.schedule.sync_requested
        or state.clock.steady_ms
        >= state.schedule.last_round_ms + state.settings.integer("crdt-sync-interval-ms")
    )


def wants_commit(state: EngineState) -> bool:
    """Whether to begin a commit now, provided that none is under way."""
    journal = state.journal
    if state.disk.meta_changes or state.schedule.clock_wanted:
        return True
    if journal.is_empty():
        return is_round_due(state) and (
            state.schedule.sync_requested
            or (bool(state.keyspace.acknowledgeable) and state.writer.may_issue())
        )
    if (
        state.cached.is_always
        or state.schedule.commit_wanted
        or journal.pending_bytes() >= journal.block_max_bytes
        or is_round_due(state)
    ):
        return True
    return (
        state.clock.steady_ms >= state.schedule.oldest_unsaved_ms + 1000
        and state.settings.text("appendfsync") == "everysec"
    )


def take_commit(state: EngineState) -> Optional[Commit]:
    """Begins a round if one is due, and returns the commit; None if there is nothing to write."""
    if is_round_due(state):
        _begin_round(state)
    commit = state.journal.take_commit()
    for waiter in state.waiting.waiters:
        if isinstance(waiter, RoundWaiter) and waiter.has_begun and waiter.position < 0:
            waiter.position = state.journal.position
            waiter.vector = dict(state.keyspace.vector)
    state.schedule.commit_taken()
    return commit


def _begin_round(state: EngineState) -> None:
    state.schedule.last_round_ms = state.clock.steady_ms
    state.schedule.sync_requested = False
    state.replication.rounds += 1
    if state.writer.may_issue():
        announce(state)
    for waiter in state.waiting.waiters:
        if isinstance(waiter, RoundWaiter):
            waiter.has_begun = True  # The commit that follows sets its position.


def announce(state: EngineState) -> None:
    """Issues the announceable acknowledgements (S8.1): per group one effect with all runs."""
    groups = state.keyspace.acknowledgeable
    state.keyspace.acknowledgeable = {}
    for key, name in groups:
        stream = state.existing(key)
        group = None if stream is None else stream.find_group(name)
        if stream is None or group is None:
            continue
        spans = announceable(stream, group)
        if spans:
            state.writer.issue(Acknowledge(key, name, group.create_dots(), spans))
            state.journal.end_unit()
            state.replication.acknowledgements += 1
    # The announcements just issued marked their groups again, but leave nothing to announce.
    state.keyspace.acknowledgeable = {}


def has_announceable(state: EngineState) -> bool:
    for key, name in state.keyspace.acknowledgeable:
        stream = state.existing(key)
        group = None if stream is None else stream.find_group(name)
        if stream is not None and group is not None and announceable(stream, group):
            return True
    return False


# -- waiting commands


def answer_waiters(state: EngineState) -> None:
    """Answers the waiting commands whose condition holds or whose time is over."""
    kept: list[Waiter] = []
    for waiter in state.waiting.waiters:
        done = _is_done(state, waiter)
        is_late = bool(waiter.deadline_ms) and state.clock.steady_ms >= waiter.deadline_ms
        if not done and not is_late:
            kept.append(waiter)
        elif isinstance(waiter, DigestWaiter):
            digest = state.keyspace.digest().hex().encode()
            state.answer_when_on_disk(waiter.session, digest)
        elif isinstance(waiter, HoldersWaiter):
            state.outbox.answer(waiter.session, members_holding(state, waiter.counter))
        else:
            state.outbox.answer(waiter.session, int(done))
    state.waiting.waiters = kept


def _is_done(state: EngineState, waiter: Waiter) -> bool:
    if isinstance(waiter, HoldersWaiter):
        return members_holding(state, waiter.counter) >= waiter.count
    if isinstance(waiter, VectorWaiter):
        return includes(state.disk.vector, waiter.vector)
    if isinstance(waiter, DigestWaiter):
        return state.keyspace.hash_some(HASHED_PER_TICK)
    assert isinstance(waiter, RoundWaiter)
    return _is_round_over(state, waiter)


def _is_round_over(state: EngineState, waiter: RoundWaiter) -> bool:
    """Whether every receiving peer acknowledged the round's vector, and nothing is announceable."""
    if waiter.position < 0 or state.disk.position < waiter.position:
        return False
    receivers = state.peers.receivers()
    if not receivers or not all(includes(one.acknowledged, waiter.vector) for one in receivers):
        return False
    if state.writer.may_issue() and has_announceable(state):
        waiter.begin_anew()
        state.schedule.sync_requested = True
        return False
    return True
