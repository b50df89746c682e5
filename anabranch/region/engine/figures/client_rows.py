"""Rows about clients and commands."""

from __future__ import annotations

from typing import Final

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
from anabranch.region.engine.figures.shared import blocked_clients


def _by(label: str, counts: dict[str, int]) -> Values:
    return [({label: name}, float(count)) for name, count in sorted(counts.items())]


def _times(view: View) -> Histograms:
    times = view.state.statistics.times
    return [({"command": name.decode()}, times[name]) for name in sorted(times)]


CLIENTS: Final[list[Figure]] = [
    Number(
        "connected_clients",
        "connected_clients",
        GAUGE,
        "clients",
        "Client connections.",
        lambda view: len(view.state.sessions),
    ),
    Number(
        "maxclients",
        "maxclients",
        GAUGE,
        "clients",
        "Limit of client connections.",
        lambda view: view.state.settings.integer("maxclients"),
    ),
    Number(
        "blocked_clients",
        "blocked_clients",
        GAUGE,
        "clients",
        "Clients that wait for entries, peers or effects.",
        lambda view: blocked_clients(view.state),
    ),
    Number(
        "connections",
        "total_connections_received",
        COUNTER,
        "clients",
        "Client connections taken.",
        lambda view: view.state.statistics.connections,
    ),
    Fact(
        "rejected_connections",
        "rejected_connections",
        COUNTER,
        "clients",
        "Client connections refused above maxclients, or by protected mode.",
    ),
    Fact(
        "query_buffer_disconnections",
        "client_query_buffer_limit_disconnections",
        COUNTER,
        "clients",
        "Clients disconnected because a request was larger than client-query-buffer-limit, or than"
        " 64 KiB before they gave the password.",
    ),
    Fact(
        "output_buffer_disconnections",
        "client_output_buffer_limit_disconnections",
        COUNTER,
        "clients",
        "Clients disconnected because their unsent replies were larger than client-output-limit, or"
        " than 1 KiB before they gave the password.",
    ),
    Fact(
        "idle_disconnections",
        "idle_client_disconnections",
        COUNTER,
        "clients",
        "Clients disconnected because they were idle for longer than the setting timeout.",
    ),
    Fact(
        "evicted_clients",
        "evicted_clients",
        COUNTER,
        "clients",
        "Clients disconnected because all together held more than maxmemory-clients.",
    ),
    Number(
        "wrong_passwords",
        "acl_access_denied_auth",
        COUNTER,
        "errors",
        "Wrong passwords of clients.",
        lambda view: view.state.statistics.wrong_passwords,
    ),
    Fact(
        "protocol_errors", "protocol_errors", COUNTER, "clients", "Clients that broke the protocol."
    ),
    Fact(
        "internal_errors",
        "internal_errors",
        COUNTER,
        "ends",
        "Ends of the region by errors of its own, of all its starts; expected to be 0.",
    ),
    Fact("input_bytes", "total_net_input_bytes", COUNTER, "bytes", "Bytes received from clients."),
    Fact("output_bytes", "total_net_output_bytes", COUNTER, "bytes", "Bytes sent to clients."),
]

COMMANDS: Final[list[Figure]] = [
    Number(
        "commands",
        "total_commands_processed",
        COUNTER,
        "commands",
        "Commands executed.",
        lambda view: view.state.statistics.commands,
    ),
    Number(
        "error_replies",
        "total_error_replies",
        COUNTER,
        "errors",
        "Errors answered to clients.",
        lambda view: view.state.statistics.error_replies,
    ),
    Labelled(
        "command_calls",
        COUNTER,
        "commands",
        "Calls, by command.",
        ("command",),
        lambda view: _by("command", view.state.statistics.calls),
    ),
    Distribution(
        "command_seconds",
        "Time of calls: reading the request, executing it, encoding the reply. A run of equal"
        " commands in a pipeline counts with its average.",
        ("command",),
        _times,
    ),
    Labelled(
        "errors",
        COUNTER,
        "errors",
        "Errors answered, by code.",
        ("code",),
        lambda view: _by("code", view.state.statistics.errors),
    ),
]
