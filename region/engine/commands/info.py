"""The text of INFO: Redis's sections, and the section `# CRDT`, which anabranch adds.

The engine cannot know memory, CPU, bytes on the network, process id and port. The process puts
these facts into `state.process_facts` under the names of INFO's fields. A fact that the process
does not give is shown as 0 or left out. A test lists all fields.
"""

from __future__ import annotations

from typing import Final

from anabranch.crdt.vector import Vector
from anabranch.region.engine.commands.connection import REDIS_VERSION
from anabranch.region.engine.figures import (
    Holdings,
    behind,
    blocked_clients,
    fact,
    has_many_retired,
    lag_of,
)
from anabranch.region.engine.lifecycle import RECOVERY
from anabranch.region.engine.state import EngineState

# The sections, in the order in which INFO shows them.
ALL: Final = (
    "server",
    "clients",
    "memory",
    "persistence",
    "stats",
    "replication",
    "cpu",
    "commandstats",
    "errorstats",
    "cluster",
    "keyspace",
    "crdt",
)
# Sections that the default INFO omits.
_ON_REQUEST: Final = frozenset({"commandstats"})
_TITLES: Final = {"cpu": "CPU", "crdt": "CRDT"}

# Facts of the process, in the order in which INFO shows them.
_SERVER_FACTS: Final = ("os", "process_id", "tcp_port", "python_version", "executable")
_CPU_FACTS: Final = (
    "used_cpu_sys",
    "used_cpu_user",
    "used_cpu_sys_children",
    "used_cpu_user_children",
)
CLIENT_FACTS: Final = (
    "total_net_input_bytes",
    "total_net_output_bytes",
    "rejected_connections",
    "client_query_buffer_limit_disconnections",
    "client_output_buffer_limit_disconnections",
    "idle_client_disconnections",
    "protocol_errors",
    "internal_errors",
)
# A fact with this prefix is a figure of the database or of sync, and is shown in # CRDT.
_CRDT_FACTS: Final = "crdt_"

# Field names with their values.
Lines = list[tuple[str, str]]


def info_text(state: EngineState, sections: list[str]) -> bytes:
    """The text of INFO in UTF-8.

    `sections` are names in lower case; an empty list means the default sections. Unknown names
    are ignored.
    """
    wanted: set[str] = set()
    for name in sections or ["default"]:
        if name == "default":
            wanted.update(one for one in ALL if one not in _ON_REQUEST)
        elif name in ("all", "everything"):
            wanted.update(ALL)
        else:
            wanted.add(name)
    parts: list[str] = []
    held = Holdings(state) if "keyspace" in wanted or "crdt" in wanted else None
    for name in ALL:
        if name in wanted:
            lines = _section(state, name) if held is None else _holding_section(state, name, held)
            body = "".join(f"{field}:{value}\r\n" for field, value in lines)
            parts.append(f"# {_TITLES.get(name, name.capitalize())}\r\n{body}")
    return "\r\n".join(parts).encode("utf-8", "surrogateescape")


def _section(state: EngineState, name: str) -> Lines:
    if name == "server":
        return _server(state)
    if name == "clients":
        return _clients(state)
    if name == "memory":
        return _memory(state)
    if name == "persistence":
        return _persistence(state)
    if name == "stats":
        return _stats(state)
    if name == "replication":
        return _replication(state)
    if name == "cpu":
        return [(field, state.process_facts.get(field, "0.000000")) for field in _CPU_FACTS]
    if name == "commandstats":
        return _command_statistics(state)
    if name == "errorstats":
        return [
            (f"errorstat_{code}", f"count={count}")
            for code, count in sorted(state.statistics.errors.items())
        ]
    assert name == "cluster"
    return [("cluster_enabled", "0")]


def _holding_section(state: EngineState, name: str, held: Holdings) -> Lines:
    """As `_section`, for the sections that need figures about the keyspace (`held`)."""
    if name == "keyspace":
        return [("db0", f"keys={held.keys},expires={held.expires},avg_ttl=0")] if held.keys else []
    return crdt(state, held) if name == "crdt" else _section(state, name)


def _server(state: EngineState) -> Lines:
    facts = state.process_facts
    uptime_s = max(state.clock.now_ms - state.started_ms, 0) // 1000
    lines: Lines = [
        ("redis_version", REDIS_VERSION),
        ("redis_mode", "standalone"),
        ("anabranch_version", state.process_facts.get("anabranch_version", "")),
        ("anabranch_build", state.process_facts.get("anabranch_build", "")),
        ("arch_bits", "64"),
    ]
    lines += [(field, facts[field]) for field in _SERVER_FACTS if field in facts]
    lines += [
        ("server_time_usec", str(state.clock.now_ms * 1000)),
        ("uptime_in_seconds", str(uptime_s)),
        ("uptime_in_days", str(uptime_s // 86400)),
    ]
    return lines


def _clients(state: EngineState) -> Lines:
    settings = state.settings
    return [
        ("connected_clients", str(len(state.sessions))),
        ("cluster_connections", "0"),
        ("maxclients", str(settings.integer("maxclients"))),
        ("client_query_buffer_limit", str(settings.integer("client-query-buffer-limit"))),
        ("client_output_limit", str(settings.integer("client-output-limit"))),
        (
            "client_recent_max_input_buffer",
            str(max((one.query_bytes for one in state.sessions.values()), default=0)),
        ),
        (
            "client_recent_max_output_buffer",
            str(max((one.output_bytes for one in state.sessions.values()), default=0)),
        ),
        ("blocked_clients", str(blocked_clients(state))),
        ("tracking_clients", "0"),
        (
            "clients_in_timeout_table",
            str(sum(1 for one in state.waiting.reads.by_session.values() if one.deadline_ms)),
        ),
    ]


def human(size: float) -> str:
    """A size in bytes in human-readable form, such as ``1.11M``."""
    for unit in ("B", "K", "M", "G", "T"):
        if size < 1024 or unit == "T":
            break
        size /= 1024
    return f"{int(size)}B" if unit == "B" else f"{size:.2f}{unit}"


def _memory(state: EngineState) -> Lines:
    facts = state.process_facts
    lines: Lines = []
    for field in ("used_memory", "used_memory_rss", "used_memory_peak", "total_system_memory"):
        size = facts.get(field, "0")
        lines += [(field, size), (f"{field}_human", human(float(size) if size.isdigit() else 0.0))]
    return [
        *lines,
        ("used_memory_lua", "0"),
        ("maxmemory", "0"),
        ("maxmemory_human", "0B"),
        ("maxmemory_policy", "noeviction"),
        ("mem_fragmentation_ratio", "1.00"),
        ("mem_allocator", "libc"),
    ]


def _persistence(state: EngineState) -> Lines:
    return [
        ("loading", "0"),
        ("async_loading", "0"),
        ("rdb_changes_since_last_save", str(state.changes_since_checkpoint())),
        ("rdb_bgsave_in_progress", "0"),
        ("rdb_last_save_time", str((state.disk.checkpoint_ms or state.started_ms) // 1000)),
        ("rdb_last_bgsave_status", "ok"),
        ("aof_enabled", "1"),
        ("aof_rewrite_in_progress", "0"),
        ("aof_rewrite_scheduled", "0"),
        ("aof_last_bgrewrite_status", "ok"),
        ("aof_last_write_status", "err" if state.disk.error else "ok"),
        ("aof_current_size", str(int(fact(state, "crdt_log_bytes")))),
        ("aof_buffer_length", str(state.journal.pending_bytes())),
        ("aof_fsync", state.settings.text("appendfsync")),
    ]


def _stats(state: EngineState) -> Lines:
    statistics = state.statistics
    facts = state.process_facts
    lines: Lines = [
        ("total_connections_received", str(statistics.connections)),
        ("total_commands_processed", str(statistics.commands)),
        ("instantaneous_ops_per_sec", "0"),
    ]
    lines += [(field, facts.get(field, "0")) for field in CLIENT_FACTS]
    return [
        *lines,
        ("sync_full", str(state.replication.snapshots_cut)),
        ("expired_keys", str(state.replication.expired_keys)),
        ("evicted_keys", "0"),
        ("keyspace_hits", "0"),
        ("keyspace_misses", "0"),
        ("pubsub_channels", "0"),
        ("pubsub_patterns", "0"),
        ("latest_fork_usec", "0"),
        ("unexpected_error_replies", "0"),
        ("total_error_replies", str(statistics.error_replies)),
    ]


def _replication(state: EngineState) -> Lines:
    """The section # Replication: a region has no leader and no followers.

    The other regions are in # CRDT. The offset counts this region's own effects.
    """
    return [
        ("role", "master"),
        ("connected_slaves", "0"),
        ("master_failover_state", "no-failover"),
        ("master_repl_offset", str(state.keyspace.vector.get(state.members.region_id, 0))),
    ]


def _command_statistics(state: EngineState) -> Lines:
    """Calls by command, with times of 0: the engine reads the time once per step."""
    statistics = state.statistics
    names = sorted({*statistics.calls, *statistics.rejected, *statistics.failed})
    lines: Lines = []
    for name in names:
        text = f"calls={statistics.calls.get(name, 0)},usec=0,usec_per_call=0.00,"
        text += (
            f"rejected_calls={statistics.rejected.get(name, 0)},"
            f"failed_calls={statistics.failed.get(name, 0)}"
        )
        lines.append((f"cmdstat_{name}", text))
    return lines


# -- the section # CRDT


def vector_text(vector: Vector) -> str:
    """A vector as text: highest counter by region_id, such as ``1=42,2=7``."""
    return ",".join(
        f"{region_id}={vector[region_id]}" for region_id in sorted(vector) if vector[region_id]
    )


def crdt(state: EngineState, held: Holdings) -> Lines:
    """The section # CRDT; `held` are figures about the keyspace."""
    members = sorted(state.members.by_id.values(), key=lambda member: member.region_id)
    lifecycle = state.lifecycle
    waiting = ""
    if lifecycle.state == RECOVERY:
        waiting = ",".join(
            state.members.by_id[one].name
            for one in sorted(lifecycle.waited_for(state.members.others(), state.disk.vector))
        )
    lines: Lines = [
        ("crdt_cluster", state.members.cluster),
        ("crdt_region_name", state.members.name),
        ("crdt_region_id", str(state.members.region_id)),
        ("crdt_members", ",".join(f"{member.name}={member.region_id}" for member in members)),
        ("crdt_members_lost", ",".join(member.name for member in members if member.lost)),
        ("crdt_state", "failed" if state.disk.error else lifecycle.state),
        ("crdt_recovery_waiting_for", waiting),
        ("crdt_recovery_cause", lifecycle.recovery_cause),
        (
            "crdt_called_lost_by",
            ",".join(state.members.name_of(one) for one in sorted(lifecycle.called_lost_by)),
        ),
        ("crdt_damage", state.disk.damage.replace("\r", " ").replace("\n", " ")),
        ("crdt_commit_error", state.disk.error.replace("\r", " ").replace("\n", " ")),
        ("crdt_life", str(lifecycle.life)),
        ("crdt_id_mode", state.cached.id_mode),
        ("crdt_vector", vector_text(state.keyspace.vector)),
        ("crdt_disk_vector", vector_text(state.disk.vector)),
        ("crdt_stable_vector", vector_text(state.stable_vector())),
    ]
    return lines + _links(state) + _alarms(state) + _counts(state, held) + _limits(state)


def _links(state: EngineState) -> Lines:
    lines: Lines = [
        (
            "crdt_links_up",
            str(
                sum(
                    1
                    for link in state.peers.by_id.values()
                    if link.state == "up" and not link.is_down
                )
            ),
        ),
        ("crdt_receivers", str(len(state.peers.receivers()))),
    ]
    for peer in sorted(state.peers.by_id):
        link = state.peers.by_id[peer]
        member = state.members.by_id.get(peer)
        shown = "down" if link.is_down else link.state
        text = (
            f"name={member.name if member is not None else peer},region_id={peer},"
            f"state={shown},delay_ms={link.delay_ms},limit_bytes_s={link.limit_bytes_s},"
        )
        text += (
            f"receives_from_here={int(link.receives_from_here)},"
            f"acknowledged={link.acknowledged.get(state.members.region_id, 0)},"
        )
        lines.append(
            (f"crdt_link{peer}", text + f"lag={lag_of(state, peer)},behind={behind(state, peer)}")
        )
    return lines


def _alarms(state: EngineState) -> Lines:
    return [
        ("crdt_divergence", str(state.replication.divergences)),
        ("crdt_gaps", str(state.replication.gaps)),
        ("crdt_forks", str(state.replication.forks)),
    ]


def _counts(state: EngineState, held: Holdings) -> Lines:
    alarm = state.settings.integer("crdt-tombstone-alarm")
    pair_limits = state.keyspace.pair_limits
    return [
        ("crdt_entries", str(held.entries)),
        ("crdt_groups", str(held.groups)),
        ("crdt_pending_entries", str(held.pending)),
        ("crdt_idmp_pairs", str(held.pairs)),
        ("crdt_idmp_retired", str(pair_limits.retired)),
        ("crdt_idmp_retired_max", str(pair_limits.retired_max)),
        ("crdt_idmp_retired_alarm", "1" if has_many_retired(state) else "0"),
        ("crdt_tombstones", str(held.tombstones)),
        ("crdt_tombstone_alarm", "1" if held.tombstones > alarm else "0"),
        ("crdt_clears", str(held.clears)),
        ("crdt_absent_keys", str(held.keys_absent)),
        ("crdt_idmp_conflicts", str(state.replication.idmp_conflicts)),
        ("crdt_idmp_evicted_early", str(pair_limits.forgotten_early)),
        ("crdt_xread_late_arrivals", str(state.keyspace.late_arrivals)),
        ("crdt_expired_keys", str(state.replication.expired_keys)),
        ("crdt_expired_early", str(state.replication.expired_early)),
        ("crdt_rounds", str(state.replication.rounds)),
        ("crdt_acknowledgements", str(state.replication.acknowledgements)),
        ("crdt_effects_issued", str(state.journal.effects_issued)),
        ("crdt_effects_merged", str(state.replication.effects_merged)),
        ("crdt_blocks_merged", str(state.replication.blocks_merged)),
        ("crdt_snapshots_cut", str(state.replication.snapshots_cut)),
        ("crdt_snapshots_joined", str(state.replication.snapshots_joined)),
    ]


def _limits(state: EngineState) -> Lines:
    """Each limit (S14), and how much of it is used."""
    settings = state.settings
    lines: Lines = [
        ("crdt_log_bytes", str(int(fact(state, "crdt_log_bytes")))),
        ("crdt_log_bytes_max", str(settings.integer("crdt-log-max-bytes"))),
        ("crdt_log_effects_max", str(settings.integer("crdt-log-max-effects"))),
        ("crdt_uncommitted_bytes", str(state.journal.pending_bytes())),
        ("crdt_uncommitted_bytes_max", str(state.cached.uncommitted_max_bytes)),
        ("crdt_block_bytes_max", str(settings.integer("crdt-block-max-bytes"))),
        ("crdt_unit_bytes_max", str(settings.integer("crdt-unit-max-bytes"))),
        (
            "crdt_unit_bytes_queued",
            str(sum(one.transaction.queued_bytes for one in state.sessions.values())),
        ),
        ("crdt_units_refused", str(state.statistics.unit_max_bytes_refused)),
        ("crdt_snapshot_bytes_max", str(settings.integer("crdt-snapshot-max-bytes"))),
        ("crdt_window_bytes_max", str(settings.integer("crdt-window-max-bytes"))),
        ("crdt_position", str(state.journal.position)),
        ("crdt_committed_position", str(state.disk.position)),
        ("crdt_saved_position", str(state.disk.checkpoint_position)),
    ]
    shown = {field for field, _ in lines}
    lines += [
        (field, value)
        for field, value in sorted(state.process_facts.items())
        if field.startswith(_CRDT_FACTS) and field not in shown
    ]
    return lines
