"""Rows about alarms, the state of the region, its disk, its limits and its process."""

from __future__ import annotations

from typing import Final

from anabranch.crdt.vector import Vector
from anabranch.region.engine.figures.figure import (
    COUNTER,
    GAUGE,
    Distribution,
    Fact,
    Figure,
    Histograms,
    Labelled,
    Number,
    Values,
    View,
)
from anabranch.region.engine.figures.shared import fact, has_many_retired
from anabranch.region.engine.lifecycle import APART, LOST, RECOVERY, SERVING, STARTING

# The states of a region, as the label `state` of the metric of that name has them.
STATES: Final = (STARTING, SERVING, APART, RECOVERY, LOST)


def _states(view: View) -> Values:
    current = view.state.lifecycle.shown
    return [({"state": one}, float(one == current)) for one in STATES]


def _by_origin(view: View, vector: Vector) -> Values:
    members = view.state.members
    return [
        ({"origin": members.name_of(origin)}, float(counter))
        for origin, counter in sorted(vector.items())
    ]


def _build(view: View) -> Values:
    facts = view.state.process_facts
    labels = {
        "version": facts.get("anabranch_version", ""),
        "build": facts.get("anabranch_build", ""),
        "python": facts.get("python_version", ""),
    }
    return [(labels, 1.0)]


def _region(view: View) -> Values:
    members, settings = view.state.members, view.state.settings
    labels = {
        "name": members.name,
        "id": str(members.region_id),
        "cluster": members.cluster,
        "id_mode": settings.text("crdt-xadd-id-uniqueness-mode"),
        "appendfsync": settings.text("appendfsync"),
    }
    return [(labels, 1.0)]


def _setting(info: str, unit: str, text: str, name: str) -> Number:
    """A row for INFO with the value of the setting `name`."""
    return Number("", info, GAUGE, unit, text, lambda view: view.state.settings.integer(name))


def _disk_times(view: View) -> Histograms:
    times = view.state.replication.disk_times
    return [({"kind": kind}, times[kind]) for kind in times]


def _queued(view: View) -> float:
    return sum([one.transaction.queued_bytes for one in view.state.sessions.values()])


def _refusals(view: View) -> Values:
    state = view.state
    counts: dict[str, float] = {
        "crdt-uncommitted-max-bytes": state.writer.room_refused,
        "crdt-unit-max-bytes": state.statistics.unit_max_bytes_refused,
        "crdt-unit-max-commands": state.statistics.unit_max_commands_refused,
        "crdt-command-max-keys": state.statistics.command_max_keys_refused,
        "maxclients": fact(state, "rejected_connections"),
        "client-query-buffer-limit": fact(state, "client_query_buffer_limit_disconnections"),
        "client-output-limit": fact(state, "client_output_buffer_limit_disconnections"),
    }
    return [({"limit": limit}, counts[limit]) for limit in counts]


ALARMS: Final[list[Figure]] = [
    Number(
        "crdt_divergence",
        "crdt_divergence",
        GAUGE,
        "",
        "Times that equal vectors had unequal digests; an alarm, expected to be 0.",
        lambda view: view.state.replication.divergences,
    ),
    Number(
        "crdt_gaps",
        "crdt_gaps",
        GAUGE,
        "",
        "Links closed because a peer's effects had a gap; an alarm, expected to be 0.",
        lambda view: view.state.replication.gaps,
    ),
    Number(
        "crdt_forks",
        "crdt_forks",
        GAUGE,
        "",
        "Links closed because a chain forks: one counter, two contents; an alarm, expected to be"
        " 0.",
        lambda view: view.state.replication.forks,
    ),
    Number(
        "idmp_retired_alarm",
        "crdt_idmp_retired_alarm",
        GAUGE,
        "",
        "1 while more than half of crdt-idmp-retired-max is used.",
        lambda view: int(has_many_retired(view.state)),
    ),
    Number(
        "tombstone_alarm",
        "crdt_tombstone_alarm",
        GAUGE,
        "",
        "1 while there are more group tombstones than crdt-tombstone-alarm.",
        lambda view: int(
            view.held.tombstones > view.state.settings.integer("crdt-tombstone-alarm")
        ),
    ),
    Number(
        "commit_failed",
        "",
        GAUGE,
        "",
        "1 while commits to disk fail and writes are refused.",
        lambda view: int(bool(view.state.disk.error)),
    ),
    Number(
        "damage",
        "",
        GAUGE,
        "",
        "1 after a damaged row was met in the database; it was not used.",
        lambda view: int(bool(view.state.disk.damage)),
    ),
]

STATE: Final[list[Figure]] = [
    Labelled(
        "build_info",
        GAUGE,
        "",
        "Always 1; the labels name the build of this region.",
        ("version", "build", "python"),
        _build,
    ),
    Labelled(
        "region_info",
        GAUGE,
        "",
        "Always 1; the labels name this region and its modes.",
        ("name", "id", "cluster", "id_mode", "appendfsync"),
        _region,
    ),
    Labelled("state", GAUGE, "", "1 for the state that the region is in.", ("state",), _states),
    Labelled(
        "vector",
        GAUGE,
        "effects",
        "Highest effect applied, by region of origin.",
        ("origin",),
        lambda view: _by_origin(view, view.state.keyspace.vector),
    ),
    Labelled(
        "disk_vector",
        GAUGE,
        "effects",
        "Highest effect on disk, by region of origin.",
        ("origin",),
        lambda view: _by_origin(view, view.state.disk.vector),
    ),
    Number(
        "changes_since_checkpoint",
        "rdb_changes_since_last_save",
        GAUGE,
        "rows",
        "Rows of effects and local records that no checkpoint reflects.",
        lambda view: view.state.changes_since_checkpoint(),
    ),
    Number(
        "uptime_seconds",
        "uptime_in_seconds",
        GAUGE,
        "seconds",
        "Time since the start.",
        lambda view: max(view.state.clock.now_ms - view.state.disk.opened_ms, 0) / 1000,
    ),
    Fact("memory_bytes", "used_memory_rss", GAUGE, "bytes", "Resident memory."),
    Fact(
        "memory_peak_bytes",
        "used_memory_peak",
        GAUGE,
        "bytes",
        "Highest resident memory since the start.",
    ),
]

DISK: Final[list[Figure]] = [
    Distribution(
        "disk_transaction_seconds",
        "Time of transactions from their decision until they are on disk: SQL, write and fsync,"
        " which SQLite does in one call.",
        ("kind",),
        _disk_times,
    ),
    Fact("log_bytes", "crdt_log_bytes", GAUGE, "bytes", "Size of the effect log on disk."),
    _setting("crdt_log_bytes_max", "bytes", "Limit of the effect log.", "crdt-log-max-bytes"),
    Fact("log_rows", "crdt_log_rows", GAUGE, "rows", "Rows of the effect log on disk."),
    Fact("log_effects", "crdt_log_effects", GAUGE, "effects", "Effects in the effect log on disk."),
    _setting(
        "crdt_log_effects_max",
        "effects",
        "Limit of the effect log in effects; 0: none.",
        "crdt-log-max-effects",
    ),
    Fact(
        "log_tail_bytes",
        "crdt_log_tail_bytes",
        GAUGE,
        "bytes",
        "The newest part of the effect log, kept in memory for peers that keep up.",
    ),
    Fact(
        "disk_bytes",
        "crdt_disk_bytes",
        GAUGE,
        "bytes",
        "Size of the database with its write-ahead log.",
    ),
    Fact(
        "disk_free_bytes",
        "crdt_disk_free_bytes",
        GAUGE,
        "bytes",
        "Free space of the file system that holds the data directory.",
    ),
    Number(
        "",
        "crdt_position",
        GAUGE,
        "rows",
        "Newest row of the log that is made.",
        lambda view: view.state.journal.position,
    ),
    Number(
        "",
        "crdt_committed_position",
        GAUGE,
        "rows",
        "Newest row of the log that is on disk.",
        lambda view: view.state.disk.position,
    ),
    Number(
        "",
        "crdt_saved_position",
        GAUGE,
        "rows",
        "Newest row of the log that a checkpoint reflects.",
        lambda view: view.state.disk.checkpoint_position,
    ),
]

LIMITS: Final[list[Figure]] = [
    Number(
        "uncommitted_bytes",
        "crdt_uncommitted_bytes",
        GAUGE,
        "bytes",
        "Effects and local records that are in no commit yet.",
        lambda view: view.state.journal.pending_bytes(),
    ),
    Number(
        "uncommitted_bytes_max",
        "crdt_uncommitted_bytes_max",
        GAUGE,
        "bytes",
        "Limit above which writes are refused.",
        lambda view: view.state.cached.uncommitted_max_bytes,
    ),
    _setting(
        "crdt_block_bytes_max", "bytes", "Size at which a block is cut.", "crdt-block-max-bytes"
    ),
    Number(
        "unit_bytes_queued",
        "crdt_unit_bytes_queued",
        GAUGE,
        "bytes",
        "Commands that clients have queued in MULTI.",
        _queued,
    ),
    _setting("crdt_unit_bytes_max", "bytes", "Limit of a transaction.", "crdt-unit-max-bytes"),
    Number(
        "units_refused",
        "crdt_units_refused",
        COUNTER,
        "units",
        "Transactions refused because they were larger than crdt-unit-max-bytes or had more"
        " commands than crdt-unit-max-commands.",
        lambda view: (
            view.state.statistics.unit_max_bytes_refused
            + view.state.statistics.unit_max_commands_refused
        ),
    ),
    Labelled(
        "limit_refusals",
        COUNTER,
        "",
        "Commands, connections and transactions refused, and clients disconnected, by the setting"
        " whose limit was reached.",
        ("limit",),
        _refusals,
        "crdt_limit_refusals",
    ),
    _setting("crdt_snapshot_bytes_max", "bytes", "Limit of a snapshot.", "crdt-snapshot-max-bytes"),
    _setting(
        "crdt_window_bytes_max",
        "bytes",
        "Limit of the bytes on their way to a peer.",
        "crdt-window-max-bytes",
    ),
]
