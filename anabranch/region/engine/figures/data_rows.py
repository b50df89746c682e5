"""Rows about the contents of the keyspace, and about effects, sync and conflicts."""

from __future__ import annotations

from typing import Final

from anabranch.region.engine.figures.figure import (
    COUNTER,
    GAUGE,
    Fact,
    Figure,
    Labelled,
    Number,
    Values,
    View,
)


def _merged_by_kind(view: View) -> Values:
    merged = view.state.replication.merged_by_kind.items()
    counts = sorted((kind.__name__, count) for kind, count in merged)
    return [({"effect": name}, float(count)) for name, count in counts]


def _conflicts(view: View) -> Values:
    met = view.state.keyspace.conflicts
    counts: dict[str, int] = {
        "idempotent-add": view.state.replication.idmp_conflicts,
        "add-and-delete": met.kept_from_delete,
        "add-and-expiry": met.kept_from_expiry,
        "two-removals": met.removed_twice,
        "group-create-and-destroy": met.creates_lost,
        "two-deadlines": met.deadlines,
        "two-idmp-configurations": met.configurations,
    }
    return [({"rule": rule}, float(counts[rule])) for rule in counts]


HELD: Final[list[Figure]] = [
    Number("keys", "", GAUGE, "keys", "Keys that exist.", lambda view: view.held.keys),
    Number(
        "entries",
        "crdt_entries",
        GAUGE,
        "entries",
        "Entries of all streams.",
        lambda view: view.held.entries,
    ),
    Number(
        "groups",
        "crdt_groups",
        GAUGE,
        "groups",
        "Consumer groups of all streams.",
        lambda view: view.held.groups,
    ),
    Number(
        "pending_entries",
        "crdt_pending_entries",
        GAUGE,
        "entries",
        "Entries delivered here and not acknowledged.",
        lambda view: view.held.pending,
    ),
    Number(
        "idmp_pairs",
        "crdt_idmp_pairs",
        GAUGE,
        "pairs",
        "Idempotency pairs, retired ones included.",
        lambda view: view.held.pairs,
    ),
    Number(
        "idmp_retired",
        "crdt_idmp_retired",
        GAUGE,
        "pairs",
        "Idempotency pairs beyond their producer's maxsize, kept until stable.",
        lambda view: view.state.keyspace.pair_limits.retired,
    ),
    Number(
        "idmp_retired_max",
        "crdt_idmp_retired_max",
        GAUGE,
        "pairs",
        "Most retired idempotency pairs that the region keeps.",
        lambda view: view.state.keyspace.pair_limits.retired_max,
    ),
    Number(
        "group_tombstones",
        "crdt_tombstones",
        GAUGE,
        "tombstones",
        "Group tombstones kept until every region is known to have them.",
        lambda view: view.held.tombstones,
    ),
    Number(
        "clears",
        "crdt_clears",
        GAUGE,
        "vectors",
        "Vectors of clears (DEL, FLUSHALL) kept until stable.",
        lambda view: view.held.clears,
    ),
    Number(
        "absent_keys",
        "crdt_absent_keys",
        GAUGE,
        "keys",
        "Hidden or absent keys, kept until their remaining data is stable.",
        lambda view: view.held.keys_absent,
    ),
]

CONFLICTS: Final[list[Figure]] = [
    Labelled(
        "conflicts",
        COUNTER,
        "",
        "Conflicts that this region saw when it merged blocks, by rule: adds of one idempotency"
        " pair (the loser is removed here), entries that a concurrent DEL, FLUSHALL or expiry left,"
        " entries removed by two regions, groups that a concurrent destroy removed, deadlines and"
        " configurations of idempotent adds set at the same time.",
        ("rule",),
        _conflicts,
        "crdt_conflicts",
    ),
    Number(
        "idmp_conflicts",
        "crdt_idmp_conflicts",
        COUNTER,
        "entries",
        "Idempotent adds removed because another region's add of the same pair won.",
        lambda view: view.state.replication.idmp_conflicts,
    ),
    Number(
        "idmp_evicted_early",
        "crdt_idmp_evicted_early",
        COUNTER,
        "pairs",
        "Retired idempotency pairs forgotten above the limit: each may leave a duplicate.",
        lambda view: view.state.keyspace.pair_limits.forgotten_early,
    ),
    Number(
        "xread_late_arrivals",
        "crdt_xread_late_arrivals",
        COUNTER,
        "entries",
        "Entries merged with an ID not above the highest that an XREAD had returned.",
        lambda view: view.state.keyspace.late.arrivals,
    ),
    Number(
        "expired_keys",
        "crdt_expired_keys",
        COUNTER,
        "keys",
        "Keys that became hidden because their deadline passed.",
        lambda view: view.state.replication.expired_keys,
    ),
    Number(
        "expired_early",
        "crdt_expired_early",
        COUNTER,
        "keys",
        "Removals after the grace period, before all members were known to hold the deadline.",
        lambda view: view.state.replication.expired_early,
    ),
]

TRAFFIC: Final[list[Figure]] = [
    Number(
        "rounds",
        "crdt_rounds",
        COUNTER,
        "rounds",
        "Sync rounds.",
        lambda view: view.state.replication.rounds,
    ),
    Number(
        "acknowledgements",
        "crdt_acknowledgements",
        COUNTER,
        "effects",
        "Acknowledgement effects issued.",
        lambda view: view.state.replication.acknowledgements,
    ),
    Number(
        "effects_issued",
        "crdt_effects_issued",
        COUNTER,
        "effects",
        "Effects that this region issued.",
        lambda view: view.state.journal.effects_issued,
    ),
    Number(
        "effects_merged",
        "crdt_effects_merged",
        COUNTER,
        "effects",
        "Effects of other regions that were merged here.",
        lambda view: view.state.replication.effects_merged,
    ),
    Labelled(
        "effects_merged_by_kind",
        COUNTER,
        "effects",
        "Effects of other regions that were merged here, by kind: adds, removals, deadlines and"
        " so on.",
        ("effect",),
        _merged_by_kind,
        "crdt_effects_merged_by_kind",
    ),
    Number(
        "blocks_merged",
        "crdt_blocks_merged",
        COUNTER,
        "blocks",
        "Blocks that were merged here.",
        lambda view: view.state.replication.blocks_merged,
    ),
    Number(
        "snapshots_cut",
        "crdt_snapshots_cut",
        COUNTER,
        "snapshots",
        "Snapshots cut for peers.",
        lambda view: view.state.replication.snapshots_cut,
    ),
    Number(
        "snapshots_joined",
        "crdt_snapshots_joined",
        COUNTER,
        "snapshots",
        "Snapshots joined here.",
        lambda view: view.state.replication.snapshots_joined,
    ),
    Fact(
        "sync_sent_bytes",
        "crdt_sync_bytes_sent",
        COUNTER,
        "bytes",
        "Messages sent to peers, after compression.",
    ),
    Fact(
        "sync_received_bytes",
        "crdt_sync_bytes_received",
        COUNTER,
        "bytes",
        "Messages received from peers, compressed as they came.",
    ),
    Fact(
        "sync_merged_bytes",
        "crdt_sync_bytes_merged",
        COUNTER,
        "bytes",
        "Bodies of blocks merged from peers, uncompressed.",
    ),
    Fact(
        "sync_log_reads",
        "crdt_sync_log_reads",
        COUNTER,
        "reads",
        "Reads of the log on disk for peers that do not keep up.",
    ),
    Fact(
        "sync_bodies_sent",
        "crdt_sync_bodies_sent",
        COUNTER,
        "blocks",
        "Blocks sent because a peer asked for a body that another peer had not sent.",
    ),
    Fact(
        "sync_refusals",
        "crdt_sync_refusals",
        COUNTER,
        "links",
        "Links refused or closed with a reason, by this region or by the peer.",
    ),
]
