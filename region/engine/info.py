"""INFO: what a region says of itself, in Redis's sections and one of its own (`# CRDT`).

What only the process knows (memory, CPU, bytes on the network, its id and port) it puts into `core.process_facts`, under the names of
INFO's fields; fields that it does not give are 0 or left out. A test lists all fields.
"""

from __future__ import annotations

from typing import Final

from anabranch.crdt.vector import Vector
from anabranch.region.engine.commands.connection import REDIS_VERSION
from anabranch.region.engine.core import Core
from anabranch.region.engine.figures import Holdings, behind, is_blocked, lag_of
from anabranch.region.engine.lifecycle import RECOVERY

# In the order in which they are shown.
ALL: Final = (
    "server", "clients", "memory", "persistence", "stats", "replication", "cpu", "commandstats", "errorstats", "cluster", "keyspace",
    "crdt",
)  # fmt: skip
_ON_REQUEST: Final = frozenset({"commandstats"})
_TITLES: Final = {"cpu": "CPU", "crdt": "CRDT"}

# Facts of the process, in the order in which INFO shows them.
_SERVER_FACTS: Final = (
    "os",
    "process_id",
    "run_id",
    "tcp_port",
    "python_version",
    "executable",
    "config_file",
)
_CPU_FACTS: Final = (
    "used_cpu_sys",
    "used_cpu_user",
    "used_cpu_sys_children",
    "used_cpu_user_children",
)
_NET_FACTS: Final = ("total_net_input_bytes", "total_net_output_bytes", "rejected_connections")
# Facts whose names begin so are shown in # CRDT: figures of database and sync.
_CRDT_FACTS: Final = "crdt_"

Lines = list[tuple[str, str]]


def info_text(core: Core, sections: list[str]) -> bytes:
    """The text of INFO; no sections: the default ones. Unknown ones are left out."""
    wanted: set[str] = set()
    for name in sections or ["default"]:
        if name == "default":
            wanted.update(one for one in ALL if one not in _ON_REQUEST)
        elif name in ("all", "everything"):
            wanted.update(ALL)
        else:
            wanted.add(name)
    parts: list[str] = []
    held = Holdings(core) if "keyspace" in wanted or "crdt" in wanted else None
    for name in ALL:
        if name in wanted:
            lines = _section(core, name) if held is None else _holding_section(core, name, held)
            body = "".join(f"{field}:{value}\r\n" for field, value in lines)
            parts.append(f"# {_TITLES.get(name, name.capitalize())}\r\n{body}")
    return "\r\n".join(parts).encode("utf-8", "surrogateescape")


def _section(core: Core, name: str) -> Lines:
    if name == "server":
        return _server(core)
    if name == "clients":
        return _clients(core)
    if name == "memory":
        return _memory(core)
    if name == "persistence":
        return _persistence(core)
    if name == "stats":
        return _stats(core)
    if name == "replication":
        return _replication(core)
    if name == "cpu":
        return [(field, core.process_facts.get(field, "0.000000")) for field in _CPU_FACTS]
    if name == "commandstats":
        return _command_statistics(core)
    if name == "errorstats":
        return [
            (f"errorstat_{code}", f"count={count}")
            for code, count in sorted(core.statistics.errors.items())
        ]
    assert name == "cluster"
    return [("cluster_enabled", "0")]


def _holding_section(core: Core, name: str, held: Holdings) -> Lines:
    """The same for the sections that tell what the keyspace holds."""
    if name == "keyspace":
        return [("db0", f"keys={held.keys},expires={held.expires},avg_ttl=0")] if held.keys else []
    return crdt(core, held) if name == "crdt" else _section(core, name)


def _server(core: Core) -> Lines:
    facts = core.process_facts
    uptime_s = max(core.clock_ms - core.started_ms, 0) // 1000
    lines: Lines = [
        ("redis_version", REDIS_VERSION),
        ("redis_mode", "standalone"),
        ("anabranch_version", core.version),
        ("anabranch_build", core.build),
        ("arch_bits", "64"),
    ]
    lines += [(field, facts[field]) for field in _SERVER_FACTS if field in facts]
    lines += [
        ("server_time_usec", str(core.clock_ms * 1000)),
        ("uptime_in_seconds", str(uptime_s)),
        ("uptime_in_days", str(uptime_s // 86400)),
    ]
    return lines


def _clients(core: Core) -> Lines:
    settings = core.settings
    return [
        ("connected_clients", str(len(core.sessions))),
        ("cluster_connections", "0"),
        ("maxclients", str(settings.integer("maxclients"))),
        ("client_query_buffer_limit", str(settings.integer("client-query-buffer-limit"))),
        ("client_output_limit", str(settings.integer("client-output-limit"))),
        (
            "client_recent_max_input_buffer",
            str(max((one.query_bytes for one in core.sessions.values()), default=0)),
        ),
        (
            "client_recent_max_output_buffer",
            str(max((one.output_bytes for one in core.sessions.values()), default=0)),
        ),
        ("blocked_clients", str(is_blocked(core))),
        ("tracking_clients", "0"),
        (
            "clients_in_timeout_table",
            str(sum(1 for one in core.blocking.by_session.values() if one.deadline_ms)),
        ),
    ]


def human(size: float) -> str:
    """A size as INFO shows it to people: ``1.11M``."""
    for unit in ("B", "K", "M", "G", "T"):
        if size < 1024 or unit == "T":
            break
        size /= 1024
    return f"{int(size)}B" if unit == "B" else f"{size:.2f}{unit}"


def _memory(core: Core) -> Lines:
    facts = core.process_facts
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
        ("mem_fragmentation_ratio", facts.get("mem_fragmentation_ratio", "1.00")),
        ("mem_allocator", facts.get("mem_allocator", "libc")),
    ]


def _persistence(core: Core) -> Lines:
    return [
        ("loading", "0"),
        ("async_loading", "0"),
        ("rdb_changes_since_last_save", str(core.changes_since_checkpoint())),
        ("rdb_bgsave_in_progress", "0"),
        (
            "rdb_last_save_time",
            core.process_facts.get("rdb_last_save_time", str(core.started_ms // 1000)),
        ),
        ("rdb_last_bgsave_status", "ok"),
        ("aof_enabled", "1"),
        ("aof_rewrite_in_progress", "0"),
        ("aof_rewrite_scheduled", "0"),
        ("aof_last_bgrewrite_status", "ok"),
        ("aof_last_write_status", "err" if core.commit_error else "ok"),
        ("aof_current_size", str(core.log_bytes)),
        ("aof_buffer_length", str(core.journal.pending_bytes())),
        ("aof_fsync", core.settings.text("appendfsync")),
    ]


def _stats(core: Core) -> Lines:
    statistics = core.statistics
    facts = core.process_facts
    lines: Lines = [
        ("total_connections_received", str(statistics.connections)),
        ("total_commands_processed", str(statistics.commands)),
        ("instantaneous_ops_per_sec", facts.get("instantaneous_ops_per_sec", "0")),
    ]
    lines += [(field, facts.get(field, "0")) for field in _NET_FACTS]
    return [
        *lines,
        ("sync_full", str(statistics.snapshots_cut)),
        ("expired_keys", str(statistics.expired_keys)),
        ("evicted_keys", "0"),
        ("keyspace_hits", "0"),
        ("keyspace_misses", "0"),
        ("pubsub_channels", "0"),
        ("pubsub_patterns", "0"),
        ("latest_fork_usec", "0"),
        ("unexpected_error_replies", facts.get("unexpected_error_replies", "0")),
        ("total_error_replies", str(statistics.error_replies)),
    ]


def _replication(core: Core) -> Lines:
    """No leader and no followers: other regions are in # CRDT. The offset counts this region's own effects."""
    return [
        ("role", "master"),
        ("connected_slaves", "0"),
        ("master_failover_state", "no-failover"),
        ("master_repl_offset", str(core.keyspace.vector.get(core.region_id, 0))),
    ]


def _command_statistics(core: Core) -> Lines:
    """Calls by command. They are not timed: one time reading per step is all the engine has."""
    statistics = core.statistics
    names = sorted({*statistics.calls, *statistics.rejected, *statistics.failed})
    lines: Lines = []
    for name in names:
        text = f"calls={statistics.calls.get(name, 0)},usec=0,usec_per_call=0.00,"
        text += f"rejected_calls={statistics.rejected.get(name, 0)},failed_calls={statistics.failed.get(name, 0)}"
        lines.append((f"cmdstat_{name}", text))
    return lines


# -- what regions are about ------------------------------------------------------------------------------------------


def vector_text(vector: Vector) -> str:
    """``1=42,2=7``: highest counter by region_id."""
    return ",".join(
        f"{region_id}={vector[region_id]}" for region_id in sorted(vector) if vector[region_id]
    )


def crdt(core: Core, held: Holdings) -> Lines:
    """The section # CRDT."""
    members = sorted(core.members.values(), key=lambda member: member.region_id)
    lifecycle = core.lifecycle
    waiting = ""
    if lifecycle.state == RECOVERY:
        waiting = ",".join(
            core.members[one].name
            for one in sorted(lifecycle.waited_for(core.others(), core.disk_vector))
        )
    lines: Lines = [
        ("crdt_cluster", core.cluster),
        ("crdt_region_name", core.name),
        ("crdt_region_id", str(core.region_id)),
        ("crdt_members", ",".join(f"{member.name}={member.region_id}" for member in members)),
        ("crdt_members_lost", ",".join(member.name for member in members if member.lost)),
        ("crdt_state", "failed" if core.commit_error else lifecycle.state),
        ("crdt_recovery_waiting_for", waiting),
        ("crdt_commit_error", core.commit_error.replace("\r", " ").replace("\n", " ")),
        ("crdt_life", str(lifecycle.life)),
        ("crdt_id_mode", core.id_mode),
        ("crdt_vector", vector_text(core.keyspace.vector)),
        ("crdt_disk_vector", vector_text(core.disk_vector)),
        ("crdt_stable_vector", vector_text(core.stable_vector())),
    ]
    return lines + _links(core) + _alarms(core) + _counts(core, held) + _limits(core)


def _links(core: Core) -> Lines:
    lines: Lines = [
        (
            "crdt_links_up",
            str(sum(1 for link in core.links.values() if link.state == "up" and not link.is_down)),
        ),
        ("crdt_receivers", str(len(core.receivers()))),
    ]
    for peer in sorted(core.links):
        link = core.links[peer]
        member = core.members.get(peer)
        state = "down" if link.is_down else link.state
        text = f"name={member.name if member is not None else peer},region_id={peer},state={state},delay_ms={link.delay_ms},"
        text += f"receives_from_here={int(link.receives_from_here)},acknowledged={link.acknowledged.get(core.region_id, 0)},"
        lines.append(
            (f"crdt_link{peer}", text + f"lag={lag_of(core, peer)},behind={behind(core, peer)}")
        )
    return lines


def _alarms(core: Core) -> Lines:
    statistics = core.statistics
    return [
        ("crdt_divergence", str(statistics.divergences)),
        ("crdt_gaps", str(statistics.gaps)),
        ("crdt_forks", str(statistics.forks)),
    ]


def _counts(core: Core, held: Holdings) -> Lines:
    statistics = core.statistics
    alarm = core.settings.integer("crdt-tombstone-alarm")
    return [
        ("crdt_entries", str(held.entries)),
        ("crdt_groups", str(held.groups)),
        ("crdt_pending_entries", str(held.pending)),
        ("crdt_idmp_pairs", str(held.pairs)),
        ("crdt_tombstones", str(held.tombstones)),
        ("crdt_tombstone_alarm", "1" if held.tombstones > alarm else "0"),
        ("crdt_clears", str(held.clears)),
        ("crdt_absent_keys", str(held.keys_absent)),
        ("crdt_idmp_conflicts", str(statistics.idmp_conflicts)),
        ("crdt_idmp_evicted_early", str(statistics.idmp_evicted_early)),
        ("crdt_xread_late_arrivals", str(core.keyspace.late_arrivals)),
        ("crdt_expired_keys", str(statistics.expired_keys)),
        ("crdt_expired_early", str(statistics.expired_early)),
        ("crdt_rounds", str(statistics.rounds)),
        ("crdt_acknowledgements", str(statistics.acknowledgements)),
        ("crdt_effects_issued", str(core.journal.effects_issued)),
        ("crdt_effects_merged", str(statistics.effects_merged)),
        ("crdt_blocks_merged", str(statistics.blocks_merged)),
        ("crdt_snapshots_cut", str(statistics.snapshots_cut)),
        ("crdt_snapshots_joined", str(statistics.snapshots_joined)),
    ]


def _limits(core: Core) -> Lines:
    """Each limit (S14) beside what is used of it."""
    settings = core.settings
    lines: Lines = [
        ("crdt_log_bytes", str(core.log_bytes)),
        ("crdt_log_bytes_max", str(settings.integer("crdt-log-max-bytes"))),
        ("crdt_log_effects_max", str(settings.integer("crdt-log-max-effects"))),
        ("crdt_uncommitted_bytes", str(core.journal.pending_bytes())),
        ("crdt_uncommitted_bytes_max", str(core.uncommitted_max_bytes)),
        ("crdt_block_bytes_max", str(settings.integer("crdt-block-max-bytes"))),
        ("crdt_unit_bytes_max", str(settings.integer("crdt-unit-max-bytes"))),
        ("crdt_unit_bytes_queued", str(sum(one.queued_bytes for one in core.sessions.values()))),
        ("crdt_units_refused", str(core.statistics.unit_max_bytes_refused)),
        ("crdt_snapshot_bytes_max", str(settings.integer("crdt-snapshot-max-bytes"))),
        ("crdt_window_bytes_max", str(settings.integer("crdt-window-max-bytes"))),
        ("crdt_position", str(core.journal.position)),
        ("crdt_committed_position", str(core.committed_position)),
        ("crdt_saved_position", str(core.saved_position)),
    ]
    shown = {field for field, _ in lines}
    lines += [
        (field, value)
        for field, value in sorted(core.process_facts.items())
        if field.startswith(_CRDT_FACTS) and field not in shown
    ]
    return lines
