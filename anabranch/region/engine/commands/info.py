"""The text of INFO: Redis's sections, and the section `# CRDT`, which anabranch adds.

The engine cannot know memory, CPU, bytes on the network, process id and port. The process puts
these facts into `state.process_facts` under the names of INFO's fields. A fact that the process
does not give is shown as 0 or left out. Figures that /metrics shows, too, come from the table of
`region.engine.figures.table`. A test lists all fields.
"""

from __future__ import annotations

from typing import Final

from anabranch.crdt.vector import Vector
from anabranch.region.engine.commands.connection import REDIS_VERSION
from anabranch.region.engine.figures.figure import View
from anabranch.region.engine.figures.shared import behind, behind_ms, lag_ms, lag_of
from anabranch.region.engine.figures.table import BY_FIELD, crdt_fields, field
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
CLIENT_FIELDS: Final = (
    "total_net_input_bytes",
    "total_net_output_bytes",
    "rejected_connections",
    "client_query_buffer_limit_disconnections",
    "client_output_buffer_limit_disconnections",
    "idle_client_disconnections",
    "evicted_clients",
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
    view = View(state)
    for name in ALL:
        if name in wanted:
            body = "".join(f"{line}:{value}\r\n" for line, value in _section(view, name))
            parts.append(f"# {_TITLES.get(name, name.capitalize())}\r\n{body}")
    return "\r\n".join(parts).encode("utf-8", "surrogateescape")


def _section(view: View, name: str) -> Lines:
    state = view.state
    if name == "server":
        return _server(view)
    if name == "clients":
        return _clients(view)
    if name == "memory":
        return _memory(state)
    if name == "persistence":
        return _persistence(view)
    if name == "stats":
        return _stats(view)
    if name == "replication":
        return _replication(state)
    if name == "cpu":
        return [(one, state.process_facts.get(one, "0.000000")) for one in _CPU_FACTS]
    if name == "commandstats":
        return _command_statistics(state)
    if name == "errorstats":
        return [
            (f"errorstat_{code}", f"count={count}")
            for code, count in sorted(state.statistics.errors.items())
        ]
    if name == "keyspace":
        held = view.held
        return [("db0", f"keys={held.keys},expires={held.expires},avg_ttl=0")] if held.keys else []
    if name == "crdt":
        return crdt(view)
    assert name == "cluster"
    return [("cluster_enabled", "0")]


def _server(view: View) -> Lines:
    state = view.state
    facts = state.process_facts
    uptime = field(view, "uptime_in_seconds")
    lines: Lines = [
        ("redis_version", REDIS_VERSION),
        ("redis_mode", "standalone"),
        ("anabranch_version", state.process_facts.get("anabranch_version", "")),
        ("anabranch_build", state.process_facts.get("anabranch_build", "")),
        ("arch_bits", "64"),
    ]
    lines += [(one, facts[one]) for one in _SERVER_FACTS if one in facts]
    lines += [
        ("server_time_usec", str(state.clock.now_ms * 1000)),
        uptime,
        ("uptime_in_days", str(int(uptime[1]) // 86400)),
    ]
    return lines


def _clients(view: View) -> Lines:
    state = view.state
    settings = state.settings
    return [
        field(view, "connected_clients"),
        ("cluster_connections", "0"),
        field(view, "maxclients"),
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
        field(view, "blocked_clients"),
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
    for one in ("used_memory", "used_memory_rss", "used_memory_peak", "total_system_memory"):
        size = facts.get(one, "0")
        lines += [(one, size), (f"{one}_human", human(float(size) if size.isdigit() else 0.0))]
    return [
        *lines,
        ("used_memory_lua", "0"),
        ("maxmemory", "0"),
        ("maxmemory_human", "0B"),
        ("maxmemory_policy", "noeviction"),
        ("mem_fragmentation_ratio", "1.00"),
        ("mem_allocator", "libc"),
    ]


def _persistence(view: View) -> Lines:
    state = view.state
    return [
        ("loading", "0"),
        ("async_loading", "0"),
        field(view, "rdb_changes_since_last_save"),
        ("rdb_bgsave_in_progress", "0"),
        ("rdb_last_save_time", str(last_save_s(state))),
        ("rdb_last_bgsave_status", "ok"),
        ("aof_enabled", "1"),
        ("aof_rewrite_in_progress", "0"),
        ("aof_rewrite_scheduled", "0"),
        ("aof_last_bgrewrite_status", "ok"),
        ("aof_last_write_status", "err" if state.disk.error else "ok"),
        ("aof_current_size", field(view, "crdt_log_bytes")[1]),
        ("aof_buffer_length", field(view, "crdt_uncommitted_bytes")[1]),
        ("aof_fsync", state.settings.text("appendfsync")),
    ]


def _stats(view: View) -> Lines:
    return [
        field(view, "total_connections_received"),
        field(view, "total_commands_processed"),
        ("instantaneous_ops_per_sec", "0"),
        *(field(view, one) for one in CLIENT_FIELDS),
        ("sync_full", field(view, "crdt_snapshots_cut")[1]),
        ("expired_keys", field(view, "crdt_expired_keys")[1]),
        ("evicted_keys", "0"),
        ("keyspace_hits", "0"),
        ("keyspace_misses", "0"),
        ("pubsub_channels", "0"),
        ("pubsub_patterns", "0"),
        ("latest_fork_usec", "0"),
        ("unexpected_error_replies", "0"),
        field(view, "total_error_replies"),
        field(view, "acl_access_denied_auth"),
    ]


def last_save_s(state: EngineState) -> int:
    """When the last checkpoint ended, or this process started, in seconds since 1970."""
    return (state.disk.checkpoint_ms or state.disk.opened_ms) // 1000


def replication_offset(state: EngineState) -> int:
    """The number of this region's own effects."""
    return state.keyspace.vector.get(state.members.region_id, 0)


def _replication(state: EngineState) -> Lines:
    """The section # Replication: a region has no leader and no followers.

    The other regions are in # CRDT.
    """
    return [
        ("role", "master"),
        ("connected_slaves", "0"),
        ("master_failover_state", "no-failover"),
        ("master_repl_offset", str(replication_offset(state))),
    ]


def _command_statistics(state: EngineState) -> Lines:
    """Calls by command, with the time that the driver has measured for them."""
    statistics = state.statistics
    names = sorted({*statistics.calls, *statistics.rejected, *statistics.failed})
    lines: Lines = []
    for name in names:
        calls, times = statistics.calls.get(name, 0), statistics.times.get(name.encode())
        usec = 0 if times is None else times.sum_us
        text = (
            f"calls={calls},usec={usec},usec_per_call={usec / max(calls, 1):.2f},"
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


def crdt(view: View) -> Lines:
    """The section # CRDT."""
    state = view.state
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
        ("crdt_state", "failed" if state.disk.error else lifecycle.shown),
        ("crdt_recovery_waiting_for", waiting),
        ("crdt_recovery_cause", lifecycle.recovery_cause),
        ("crdt_clock_problem", lifecycle.clock_problem),
        (
            "crdt_called_lost_by",
            ",".join(state.members.name_of(one) for one in lifecycle.lost_words.confirmed()),
        ),
        (
            "crdt_called_lost_unconfirmed",
            ",".join(state.members.name_of(one) for one in lifecycle.lost_words.unconfirmed()),
        ),
        ("crdt_damage", state.disk.damage.replace("\r", " ").replace("\n", " ")),
        ("crdt_commit_error", state.disk.error.replace("\r", " ").replace("\n", " ")),
        ("crdt_life", str(lifecycle.life)),
        ("crdt_id_mode", state.cached.id_mode),
        ("crdt_vector", vector_text(state.keyspace.vector)),
        ("crdt_disk_vector", vector_text(state.disk.vector)),
        ("crdt_stable_vector", vector_text(state.stable_vector())),
        ("crdt_stable_reason", state.stable_time()[1]),
    ]
    lines += [*_links(state), *crdt_fields(view)]
    # Facts of the database and of sync that have no row in the table.
    lines += [
        (name, value)
        for name, value in sorted(state.process_facts.items())
        if name.startswith(_CRDT_FACTS) and name not in BY_FIELD
    ]
    return lines


def _links(state: EngineState) -> Lines:
    """A line for each other region."""
    lines: Lines = []
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
        text += (
            f"lag={lag_of(state, peer)},behind={behind(state, peer)},"
            f"lag_ms={lag_ms(state, peer)},behind_ms={behind_ms(state, peer)},"
        )
        traffic = link.traffic
        text += (
            f"clock_ahead_ms={link.clock_ahead_ms},"
            f"sent_bytes={traffic.sent_bytes},received_bytes={traffic.received_bytes},"
            f"sent_rounds={traffic.sent_rounds},received_rounds={traffic.received_rounds},"
            f"tls={int(link.is_encrypted)}"
        )
        lines.append((f"crdt_link{peer}", text))
    return lines
