"""Upkeep: the work that time causes.

Deadlines hide and remove keys (S10.2 to S10.6). Tombstones, clears and pairs are collected when
they are causally stable: no effect that could meet them is still in flight (S6.2, S9.2).
"""

from __future__ import annotations

from itertools import islice

from anabranch.crdt.collecting import collect, collect_flush
from anabranch.crdt.effects import RemoveObserved
from anabranch.crdt.stream import Stream
from anabranch.crdt.vector import Dot, dot_order, includes, raise_to
from anabranch.region.engine.idempotency import configuration
from anabranch.region.engine.state import EngineState

# Keys examined in one step, so that a step stays short.
KEYS_PER_STEP = 1000


class Upkeep:
    """Lists of the keys that need upkeep. A start rebuilds them from the keys."""

    def __init__(self) -> None:
        # Keys that a deadline hides.
        self.hidden: dict[bytes, None] = {}
        # Absent or hidden keys with deadlines or configuration → steady time (ms) when first noted.
        self.leftovers: dict[bytes, int] = {}
        # Keys with tombstones, clears or pairs.
        self.collectable: dict[bytes, None] = {}
        self._last_ms = 0
        # A key has more pairs than one collection looked at.
        self._is_collecting = False

    def note(self, state: EngineState, stream: Stream) -> None:
        """Puts a key that changed on the lists to which it belongs."""
        key = stream.key
        if (stream.has_deadlines() or key in state.contents.deadlines) and not (
            key in self.hidden and stream.is_hidden(state.clock.now_ms)
        ):
            state.contents.deadlines.note(stream)
        if stream.has_collectable():
            self.collectable[key] = None
        if stream.rare is None:
            return
        if (stream.deadlines or stream.configurations) and (
            stream.is_hidden(state.clock.now_ms) or not stream.is_present()
        ):
            self.leftovers.setdefault(key, state.clock.steady_ms)

    def work(self, state: EngineState) -> None:
        """Removes and collects, every crdt-collect-interval-ms, `KEYS_PER_STEP` keys of each list.

        Call it only while the region may issue effects.
        """
        limits = state.keyspace.pair_limits
        if limits.retired:
            # What a producer retires until the next call is dropped if it is stable (S9.3).
            limits.stable = state.stable_vector()
            raise_to(state.keyspace.collected, limits.stable)
        if state.clock.steady_ms >= self._last_ms + state.settings.integer(
            "crdt-collect-interval-ms"
        ):
            self._last_ms = state.clock.steady_ms
            self._remove_hidden(state)
            self._remove_leftovers(state)
            self._collect(state)
        elif self._is_collecting:
            self._collect(state)

    # -- deadlines

    def read_deadlines(self, state: EngineState) -> None:
        """Reads all deadlines anew after the clock was reset: keys that were hidden may be back."""
        state.contents.deadlines.are_unread = False
        self.hidden.clear()
        for key, stream in state.keyspace.keys.items():
            if stream.has_deadlines():
                state.keyspace.unseen.uncounted[key] = None
                self.note(state, stream)

    def hide(self, state: EngineState) -> list[bytes]:
        """Notes and returns the keys that became hidden since the last step."""
        hidden: list[bytes] = []
        for key in state.contents.deadlines.take_passed(state.clock.now_ms):
            stream = state.keyspace.get(key)
            if stream is not None and stream.is_hidden(state.clock.now_ms):
                state.keyspace.unseen.uncounted[key] = None
                self.hidden[key] = None
                self.leftovers.setdefault(key, state.clock.steady_ms)
                hidden.append(key)
        if hidden:
            state.replication.expired_keys += len(hidden)
            # A commit must carry the clock, so that others hear of a clock past the deadline
            # (S10.3).
            state.journal.push_clock()
            state.schedule.note_unsaved(state.clock.steady_ms)
        return hidden

    def _remove_hidden(self, state: EngineState) -> None:
        """Issues the removals of hidden keys that this region may remove (S10.3)."""
        for key in list(islice(self.hidden, KEYS_PER_STEP)):
            del self.hidden[key]
            stream = state.keyspace.get(key)
            if stream is None or not stream.is_hidden(state.clock.now_ms):
                continue
            self.hidden[key] = None  # Moves the key to the end of the list.
            winner = stream.winning_deadline()
            holds_more = (
                stream.header.has_heads()
                or stream.groups
                or stream.configurations
                or stream.pairs
                or stream.length()
            )
            if winner is None or not holds_more:
                continue
            dot, at_ms = winner
            known = _is_known_to_all(state, dot, at_ms)
            if _may_remove(state, dot, at_ms, known):
                if not known:
                    state.replication.expired_early += 1
                state.writer.issue(RemoveObserved(key, dict(state.keyspace.vector), False))

    # -- leftovers

    def _remove_leftovers(self, state: EngineState) -> None:
        """Removes keys that hold only deadlines or configuration (S10.6).

        A key is removed once every effect on it that is known here is stable.
        """
        stable = state.stable_vector()
        grace_ms = state.settings.integer("crdt-expiry-grace-ms")
        for key in list(islice(self.leftovers, KEYS_PER_STEP)):
            since_ms = self.leftovers.pop(key)
            stream = state.keyspace.get(key)
            if stream is None or not (stream.deadlines or stream.configurations):
                continue
            if stream.is_present() and not stream.is_hidden(state.clock.now_ms):
                continue
            self.leftovers[key] = since_ms  # Moves the key to the end of the list.
            if (
                stream.header.has_heads()
                or stream.groups
                or stream.pairs
                or stream.length()
                or state.keyspace.flush_tombstone
            ):
                continue
            winner = stream.winning_deadline()
            dot: Dot = max(stream.configurations, key=dot_order) if winner is None else winner[0]
            if includes(stable, stream.header.touched) and (
                dot[0] == state.members.region_id or state.clock.steady_ms > since_ms + grace_ms
            ):
                state.writer.issue(RemoveObserved(key, dict(state.keyspace.vector), True))

    # -- collection

    def _collect(self, state: EngineState) -> None:
        """Drops tombstones, clears and pairs that are stable."""
        self._is_collecting = False
        stable = state.stable_vector()
        if not stable:
            return
        raise_to(state.keyspace.collected, stable)
        collect_flush(state.keyspace, stable)
        for key in list(islice(self.collectable, KEYS_PER_STEP)):
            del self.collectable[key]
            stream = state.keyspace.get(key)
            if stream is None:
                continue
            collect(state.keyspace, stream, stable)
            if stream.pairs and stream.pairs.collect(
                stable, state.clock.now_ms, configuration(state, stream)[0] * 1000
            ):
                state.keyspace.touch_local(stream)
                state.keyspace.note_unrecorded(key)
            if stream.has_collectable():
                self.collectable[key] = None
            state.keyspace.drop_if_empty(stream)
            if stream.rare is not None and stream.pairs.is_collecting:
                self._is_collecting = True
                return


def _is_known_to_all(state: EngineState, dot: Dot, at_ms: int) -> bool:
    """Whether every member is known to hold the deadline and to have a clock past it (S10.3).

    `dot` is the dot of the deadline, `at_ms` its wall time.
    """
    others = state.members.others()
    return (
        state.stability.all_hold(others, dot[0], dot[1])
        and state.stability.all_clocks_past(others, at_ms, _highest_clock_ms(state))
        and state.stability.knows_what_lost_left(others)
    )


def _may_remove(state: EngineState, dot: Dot, at_ms: int, known: bool) -> bool:
    """Whether this region may remove a key whose winning deadline has dot `dot` (S10.3).

    The region of the dot may if `known`, the result of `_is_known_to_all`. Any region may after
    the grace period, but not by its own clock alone: some other member's clock must be past the
    deadline, too.
    """
    if known and dot[0] == state.members.region_id:
        return True
    is_late = state.clock.now_ms > at_ms + state.settings.integer("crdt-expiry-grace-ms")
    return is_late and (not state.clock.offset_max_ms or state.peers.clocks.is_past(at_ms))


def _highest_clock_ms(state: EngineState) -> int:
    """A clock above this one is further ahead than `crdt-clock-offset-max-ms` (S10.2); 0: none."""
    offset_max_ms = state.clock.offset_max_ms
    return state.clock.now_ms + offset_max_ms if offset_max_ms else 0
