"""Commits and sync rounds (S2.4, S2.5, S13.2): when to commit, what a round announces, who is answered afterwards."""

from __future__ import annotations

from typing import Optional

from anabranch.crdt.acknowledge import announceable
from anabranch.crdt.effects import Acknowledge
from anabranch.crdt.vector import Vector, includes
from anabranch.region.engine.blocking import FOR_RECEIVERS, FOR_ROUND, FOR_VECTOR, Waiter
from anabranch.region.engine.commands.replication import receivers_with
from anabranch.region.engine.core import Core
from anabranch.region.engine.journal import Commit


class Attestation:
    """What this region may say of itself once `position` is on its disk: vector, clock and digest taken in one step (S2.4).

    `digest` is empty when it was not asked for, or would have taken too long now. `counts` is False before the start is over and in
    recovery (S13.6).
    """

    def __init__(
        self, vector: Vector, clock_ms: int, digest: bytes, position: int, life: int, counts: bool
    ) -> None:
        self.vector = vector
        self.clock_ms = clock_ms
        self.digest = digest
        self.position = position
        self.life = life
        self.counts = counts


def is_round_due(core: Core) -> bool:
    """A round begins at most every crdt-sync-interval-ms (CRDT.SYNC: at once), and never while nobody receives from here (S2.5)."""
    if core.receiver_count == 0:
        return False
    return core.sync_requested or core.steady_ms >= core.last_round_ms + core.settings.integer(
        "crdt-sync-interval-ms"
    )


def wants_commit(core: Core) -> bool:
    """Whether a commit should begin now, if none is under way."""
    journal = core.journal
    if core.meta_changes:
        return True
    if journal.is_empty():
        return is_round_due(core) and (
            core.sync_requested or (bool(core.keyspace.acknowledgeable) and core.may_issue())
        )
    if (
        core.is_always
        or core.attest_wanted
        or journal.pending_bytes() >= journal.block_max_bytes
        or is_round_due(core)
    ):
        return True
    return (
        core.settings.text("appendfsync") == "everysec"
        and core.steady_ms >= core.oldest_unsaved_ms + 1000
    )


def take_commit(core: Core) -> Optional[Commit]:
    """Begins a round if one is due, and returns what to write; None when there is nothing to write."""
    if is_round_due(core):
        _begin_round(core)
    commit = core.journal.take_commit()
    for waiter in core.waiters:
        if waiter.kind == FOR_ROUND and waiter.position < 0:
            waiter.position = core.journal.position
            waiter.vector = dict(core.keyspace.vector)
    core.oldest_unsaved_ms = 0
    core.attest_wanted = False
    return commit


def _begin_round(core: Core) -> None:
    core.last_round_ms = core.steady_ms
    core.sync_requested = False
    core.statistics.rounds += 1
    if core.may_issue():
        announce(core)
    for waiter in core.waiters:
        if waiter.kind == FOR_ROUND and waiter.position == 0:
            waiter.position = -1  # the commit that follows gives the position


def announce(core: Core) -> None:
    """Issues the announceable acknowledgements (S8.1): per group one effect with all runs."""
    groups = core.keyspace.acknowledgeable
    core.keyspace.acknowledgeable = {}
    for key, name in groups:
        stream = core.existing(key)
        group = None if stream is None else stream.groups.get(name)
        if stream is None or group is None:
            continue
        spans = announceable(stream, group)
        if spans:
            core.issue(Acknowledge(key, name, group.create_dots(), spans))
            core.journal.end_unit()
            core.statistics.acknowledgements += 1
    # Its own announcement makes nothing further announceable.
    core.keyspace.acknowledgeable = {}


def anything_announceable(core: Core) -> bool:
    for key, name in core.keyspace.acknowledgeable:
        stream = core.existing(key)
        group = None if stream is None else stream.groups.get(name)
        if stream is not None and group is not None and announceable(stream, group):
            return True
    return False


# -- who waits -------------------------------------------------------------------------------------------------------


def judge_waiters(core: Core) -> None:
    """Answers those that have what they wait for, or whose time is over."""
    kept: list[Waiter] = []
    for waiter in core.waiters:
        done = _judge(core, waiter)
        is_late = bool(waiter.deadline_ms) and core.steady_ms >= waiter.deadline_ms
        if not done and not is_late:
            kept.append(waiter)
        elif waiter.kind == FOR_RECEIVERS:
            core.answer(waiter.session, receivers_with(core, waiter.counter))
        else:
            core.answer(waiter.session, int(done))
    core.waiters = kept


def _judge(core: Core, waiter: Waiter) -> bool:
    if waiter.kind == FOR_RECEIVERS:
        return receivers_with(core, waiter.counter) >= waiter.count
    if waiter.kind == FOR_VECTOR:
        return includes(core.disk_vector, waiter.vector)
    return _is_round_over(core, waiter)


def _is_round_over(core: Core, waiter: Waiter) -> bool:
    """Whether every region that receives from here has acknowledged the vector of the round, and nothing announceable waits."""
    if waiter.position <= 0 or core.committed_position < waiter.position:
        return False
    receivers = core.receivers()
    if not receivers or not all(includes(link.acknowledged, waiter.vector) for link in receivers):
        return False
    if core.may_issue() and anything_announceable(core):
        waiter.position = 0
        core.sync_requested = True
        return False
    return True
