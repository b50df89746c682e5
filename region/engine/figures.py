"""Figures of a region, for INFO (`region.engine.commands.info`) and /metrics (`region.http`)."""

from __future__ import annotations

from typing import Any, Final

from anabranch.crdt.stream import NEVER
from anabranch.region.engine.lifecycle import LOST, RECOVERY, SERVING, STARTING
from anabranch.region.engine.state import EngineState

# One metric: name, help, type ("counter" or "gauge"), samples as (labels, value).
Figure = tuple[str, str, str, list[tuple[dict[str, str], float]]]

PREFIX: Final = "anabranch_"
STATES: Final = (STARTING, SERVING, RECOVERY, LOST)


class Holdings:
    """Counts of the contents of the keyspace, made in one pass over its keys."""

    def __init__(self, state: EngineState) -> None:
        self.keys = 0
        self.expires = 0
        self.entries = 0
        self.groups = 0
        self.pending = 0
        self.pairs = 0
        # Data kept until it is stable, in hidden keys too: group tombstones (by name and by key),
        # vectors of clears, and keys that are hidden or absent.
        self.tombstones = 1 if state.keyspace.flush_tombstone else 0
        self.clears = 1 if state.keyspace.flush_clears else 0
        self.keys_absent = 0
        clock_ms = state.clock.now_ms
        for stream in state.keyspace.keys.values():
            self.tombstones += len(stream.tombstones)
            if stream.tombstone_of_all:
                self.tombstones += 1
            if stream.clears:
                self.clears += 1
            if stream.pairs:
                self.pairs += stream.pairs.count()
            if not stream.exists_at(clock_ms):
                self.keys_absent += 1
                continue
            self.keys += 1
            self.entries += stream.length()
            if stream.deadlines:
                winner = stream.winning_deadline()
                if winner is not None and winner[1] != NEVER:
                    self.expires += 1
            for group in stream.groups.values():
                self.groups += 1
                self.pending += group.delivery.pel.length


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


def figures(state: EngineState) -> list[Figure]:
    """All metrics. Counters count since the start."""
    return (
        _alarms(state)
        + _state(state)
        + _held(state)
        + _traffic(state)
        + _links(state)
        + _clients(state)
        + _commands(state)
    )


def health(state: EngineState) -> tuple[str, dict[str, Any]]:
    """The state and details for /health.

    The state is one of `STATES`, or "failed" while commits fail. The details are values that JSON
    can represent.
    """
    lifecycle = state.lifecycle.state
    details = {
        "region": state.members.name,
        "cluster": state.members.cluster,
        "links": {
            state.members.name_of(peer): link.state for peer, link in state.peers.by_id.items()
        },
        "divergences": state.replication.divergences,
        "serves": lifecycle == SERVING,
    }
    return "failed" if state.disk.error else lifecycle, details


def _gauge(name: str, text: str, value: float) -> Figure:
    return (PREFIX + name, text, "gauge", [({}, value)])


def _counter(name: str, text: str, value: float) -> Figure:
    return (PREFIX + name + "_total", text, "counter", [({}, value)])


def _alarms(state: EngineState) -> list[Figure]:
    """Figures that should stay 0."""
    replication = state.replication
    return [
        _gauge(
            "crdt_divergence",
            "Times that equal vectors had unequal digests; never expected.",
            replication.divergences,
        ),
        _gauge("crdt_gaps", "Links dropped because a peer's effects had a gap.", replication.gaps),
        _gauge(
            "crdt_forks",
            "Links closed because a region's chain forks: one counter, two different contents.",
            replication.forks,
        ),
        _gauge(
            "idmp_retired_alarm",
            "1 while more than half of crdt-idmp-retired-max is used.",
            1 if has_many_retired(state) else 0,
        ),
        _gauge(
            "commit_failed",
            "1 while commits to disk fail and writes are refused.",
            1 if state.disk.error else 0,
        ),
        _gauge(
            "damage",
            "1 after a damaged row was met in the database; it was not used.",
            1 if state.disk.damage else 0,
        ),
    ]


def _held(state: EngineState) -> list[Figure]:
    held = Holdings(state)
    pair_limits = state.keyspace.pair_limits
    return [
        _gauge("keys", "Keys.", held.keys),
        _gauge("entries", "Stream entries.", held.entries),
        _gauge("groups", "Consumer groups.", held.groups),
        _gauge("pending_entries", "Entries delivered here and not acknowledged.", held.pending),
        _gauge("idmp_pairs", "Idempotency pairs.", held.pairs),
        _gauge(
            "idmp_retired",
            "Idempotency pairs beyond their producer's maxsize, kept until stable.",
            pair_limits.retired,
        ),
        _gauge(
            "idmp_retired_max",
            "Most retired idempotency pairs that the region keeps.",
            pair_limits.retired_max,
        ),
        _gauge("group_tombstones", "Group tombstones kept until stable.", held.tombstones),
        _gauge(
            "absent_keys",
            "Hidden or absent keys, kept until their remaining data is stable.",
            held.keys_absent,
        ),
    ]


def _state(state: EngineState) -> list[Figure]:
    current = state.lifecycle.state
    return [
        (
            PREFIX + "state",
            "1 for the state that the region is in.",
            "gauge",
            [({"state": one}, float(one == current)) for one in STATES],
        ),
        (
            PREFIX + "vector",
            "Highest effect applied, by region of origin.",
            "gauge",
            [
                ({"origin": _name(state, origin)}, float(counter))
                for origin, counter in sorted(state.keyspace.vector.items())
            ],
        ),
        (
            PREFIX + "disk_vector",
            "Highest effect on disk, by region of origin.",
            "gauge",
            [
                ({"origin": _name(state, origin)}, float(counter))
                for origin, counter in sorted(state.disk.vector.items())
            ],
        ),
        _gauge("log_bytes", "Bytes of the effect log on disk.", int(fact(state, "crdt_log_bytes"))),
        _gauge(
            "uncommitted_bytes",
            "Bytes of effects and local records that are in no commit yet.",
            state.journal.pending_bytes(),
        ),
        _gauge(
            "changes_since_checkpoint",
            "Rows of effects and local records that no checkpoint reflects.",
            state.changes_since_checkpoint(),
        ),
        _gauge(
            "uptime_seconds",
            "Time since the start.",
            max(state.clock.now_ms - state.started_ms, 0) / 1000,
        ),
        _gauge("memory_bytes", "Resident memory.", fact(state, "used_memory_rss")),
    ]


def _traffic(state: EngineState) -> list[Figure]:
    replication = state.replication
    return [
        _counter(
            "effects_issued", "Effects that this region issued.", state.journal.effects_issued
        ),
        _counter(
            "effects_merged",
            "Effects of other regions that were merged here.",
            replication.effects_merged,
        ),
        _counter("blocks_merged", "Blocks that were merged here.", replication.blocks_merged),
        _counter("rounds", "Sync rounds.", replication.rounds),
        _counter(
            "acknowledgements", "Acknowledgement effects issued.", replication.acknowledgements
        ),
        _counter("snapshots_cut", "Snapshots cut for peers.", replication.snapshots_cut),
        _counter("snapshots_joined", "Snapshots joined here.", replication.snapshots_joined),
        _counter(
            "idmp_conflicts",
            "Idempotent adds removed because another region's add of the same pair won.",
            replication.idmp_conflicts,
        ),
        _counter(
            "idmp_evicted_early",
            "Retired idempotency pairs forgotten above the limit: each may leave a duplicate.",
            state.keyspace.pair_limits.forgotten_early,
        ),
        _counter(
            "xread_late_arrivals",
            "Entries merged with an ID not above the highest that an XREAD had returned.",
            state.keyspace.late_arrivals,
        ),
        _counter(
            "expired_keys",
            "Keys that became hidden because their deadline passed.",
            replication.expired_keys,
        ),
        _counter(
            "expired_early",
            "Removals after the grace period, before all members were known to hold the deadline.",
            replication.expired_early,
        ),
    ]


def _links(state: EngineState) -> list[Figure]:
    up: list[tuple[dict[str, str], float]] = []
    lag: list[tuple[dict[str, str], float]] = []
    lacks: list[tuple[dict[str, str], float]] = []
    receives: list[tuple[dict[str, str], float]] = []
    for peer, link in sorted(state.peers.by_id.items()):
        labels = {"peer": _name(state, peer)}
        up.append((labels, float(link.state == "up" and not link.is_down)))
        lag.append((labels, float(lag_of(state, peer))))
        lacks.append((labels, float(behind(state, peer))))
        receives.append((labels, float(link.receives_from_here)))
    return [
        (PREFIX + "link_up", "Whether this region receives from the peer.", "gauge", up),
        (
            PREFIX + "link_receives",
            "Whether the peer receives from this region.",
            "gauge",
            receives,
        ),
        (
            PREFIX + "peer_lag_effects",
            "Effects of this region that the peer is not known to have on disk.",
            "gauge",
            lag,
        ),
        (
            PREFIX + "behind_effects",
            "Effects of the peer that this region is known to lack.",
            "gauge",
            lacks,
        ),
    ]


def _clients(state: EngineState) -> list[Figure]:
    statistics = state.statistics
    return [
        _gauge("connected_clients", "Client connections.", len(state.sessions)),
        _gauge(
            "blocked_clients",
            "Clients that wait for entries, peers or effects.",
            blocked_clients(state),
        ),
        _counter("connections", "Client connections taken.", statistics.connections),
        _counter(
            "rejected_connections",
            "Client connections refused.",
            fact(state, "rejected_connections"),
        ),
        _counter(
            "input_bytes", "Bytes received from clients.", fact(state, "total_net_input_bytes")
        ),
        _counter("output_bytes", "Bytes sent to clients.", fact(state, "total_net_output_bytes")),
        _counter("commands", "Commands executed.", statistics.commands),
        _counter("error_replies", "Errors answered to clients.", statistics.error_replies),
    ]


def _commands(state: EngineState) -> list[Figure]:
    statistics = state.statistics
    calls = [({"command": name}, float(count)) for name, count in sorted(statistics.calls.items())]
    errors = [({"code": code}, float(count)) for code, count in sorted(statistics.errors.items())]
    return [
        (PREFIX + "command_calls_total", "Calls, by command.", "counter", calls),
        (PREFIX + "errors_total", "Errors answered, by code.", "counter", errors),
    ]


def _name(state: EngineState, region_id: int) -> str:
    member = state.members.by_id.get(region_id)
    return str(region_id) if member is None else member.name
