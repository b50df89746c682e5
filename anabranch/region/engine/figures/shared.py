"""Figures that several parts show."""

from __future__ import annotations

from anabranch.region.engine.state import EngineState


def has_many_retired(state: EngineState) -> bool:
    """Whether more than half of `crdt-idmp-retired-max` is used: the alarm of S9.3.

    Above the limit the oldest retired pairs are forgotten, and a retried add that they would have
    recognised stands in the stream twice. So the alarm is raised before.
    """
    limits = state.keyspace.pair_limits
    return 2 * limits.retired > limits.retired_max


def lag_of(state: EngineState, peer: int) -> int:
    """The number of this region's effects that a peer is not known to have on its disk."""
    own = state.disk.vector.get(state.members.region_id, 0)
    return max(own - state.counter_held_by(peer), 0)


def behind(state: EngineState, peer: int) -> int:
    """The number of a peer's own effects that this region is known to lack."""
    heard = state.stability.newest(peer)
    return (
        0
        if heard is None
        else max(heard.vector.get(peer, 0) - state.keyspace.vector.get(peer, 0), 0)
    )


def lag_ms(state: EngineState, peer: int) -> int:
    """How long a peer has lacked an effect of this region, in ms; 0 for lost members."""
    if state.members.by_id[peer].lost:
        return 0
    return state.peers.lags.peer_lag_ms(state.counter_held_by(peer), state.clock.steady_ms)


def behind_ms(state: EngineState, peer: int) -> int:
    """How long this region has been behind a peer, in ms; 0 for lost members."""
    if state.members.by_id[peer].lost:
        return 0
    applied = state.keyspace.vector.get(peer, 0)
    delay_ms = state.peers.by_id[peer].delay_ms
    return state.peers.lags.behind_ms(peer, delay_ms, applied, state.clock.steady_ms)


def fact(state: EngineState, name: str) -> float:
    """A process fact as a number; 0 if it is missing or not a number."""
    try:
        return float(state.process_facts.get(name, "0"))
    except ValueError:
        return 0.0


def blocked_clients(state: EngineState) -> int:
    """The number of clients whose command blocks: blocked reads plus `Waiting.waiters`.

    Blocked reads are XREAD and XREADGROUP with BLOCK; the waiters are WAIT, CRDT.WAIT and
    CRDT.SYNC. A client has at most one of these. Not counted are clients whose command waits for
    the end of the start (S13.6), and clients whose reply waits for a commit.
    """
    return len(state.waiting.reads.by_session) + len(state.waiting.waiters)
