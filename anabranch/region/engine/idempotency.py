"""Idempotent adds in the engine (S9): configuration, losers of conflicts."""

from __future__ import annotations

from typing import Final, Optional

from anabranch.crdt.effects import RemoveEntries
from anabranch.crdt.pair import is_conflict
from anabranch.crdt.stream import Stream
from anabranch.region.engine.state import EngineState


def configuration(state: EngineState, stream: Optional[Stream]) -> tuple[int, int]:
    """The configuration of a stream, else the default: (duration in s, maxsize) (S9.4)."""
    value = None if stream is None else stream.configuration()
    return (
        value
        if value is not None
        else (
            state.settings.integer("stream-idmp-duration"),
            state.settings.integer("stream-idmp-maxsize"),
        )
    )


# -- conflicts

# The mark of the removals that S9.2 demands, in place of a command's name.
CONFLICT: Final = b"idmp conflict"


def remove_losers(state: EngineState) -> None:
    """Removes the losing adds among the pairs just merged for which this region stands (S9.2).

    Those are its own, and those of lost members. The removal goes into the commit that merges the
    winner, even while commits fail.
    """
    pairs = state.keyspace.changes.pairs
    state.keyspace.changes.pairs = []
    if state.lifecycle.serves:  # Otherwise `remove_all_losers` runs on serving.
        for key, pid, iid in dict.fromkeys(pairs):
            _remove_losers_of(state, key, pid, iid)


def remove_all_losers(state: EngineState) -> None:
    """Removes the losing adds among all pairs for which this region stands.

    It does so first of all once it may issue again, and whenever a member is said lost.
    """
    if not state.lifecycle.serves:
        return
    for key, stream in list(state.keyspace.keys.items()):
        if stream.rare is None:
            continue
        for pair in stream.rare.pairs.everything():
            if state.members.stands_in_for(pair.region_id):
                _remove_losers_of(state, key, pair.pid, pair.iid)


def _remove_losers_of(state: EngineState, key: bytes, pid: bytes, iid: bytes) -> None:
    stream = state.keyspace.get(key)
    if stream is None:
        return
    pairs = stream.pairs.of(pid, iid)
    duration_ms = configuration(state, stream)[0] * 1000
    for pair in list(pairs):
        if not state.members.stands_in_for(pair.region_id):
            continue
        if not any(
            is_conflict(pair, other, duration_ms) and other.order() < pair.order()
            for other in pairs
        ):
            continue
        log = stream.find_log(pair.region_id)
        if log is not None and log.has_counter(pair.counter):
            state.journal.begin_command(CONFLICT)
            state.writer.issue(RemoveEntries(key, [pair.dot]))
            state.journal.begin_command(b"")
            state.replication.idmp_conflicts += 1
