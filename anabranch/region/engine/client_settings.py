"""The settings of client connections, and of how much one command of a client may ask for."""

from __future__ import annotations

from typing import Final

from anabranch.region.engine.setting import Setting

CLIENTS: Final[list[Setting]] = [
    Setting(
        "maxclients",
        10000,
        "Most client connections; a start lowers it to what the limit of open files allows.",
        minimum=1,
    ),
    Setting(
        "client-query-buffer-limit",
        64 << 20,
        "Most bytes of one client's unparsed input.",
        minimum=1 << 10,
        is_bytes=True,
    ),
    Setting(
        "client-output-limit",
        0,
        "Bytes of unsent replies at which a client is disconnected; 0: unlimited.",
        is_bytes=True,
    ),
    Setting(
        "crdt-unit-max-commands",
        20_000,
        "Most commands that one MULTI may queue; a command of several keys counts once for each. "
        "Nobody else is served while EXEC runs them.",
        minimum=1,
        rule="S1.2",
    ),
    Setting(
        "crdt-command-max-keys",
        10_000,
        "Most keys that one command may name, such as XREAD or DEL. Nobody else is served while it "
        "runs.",
        minimum=1,
        rule="S14",
    ),
    Setting(
        "proto-max-bulk-len",
        512 << 20,
        "Most bytes of one argument.",
        minimum=1 << 10,
        is_bytes=True,
    ),
    Setting("timeout", 0, "Seconds after which an idle client is closed; 0: never."),
    # Linux refuses more.
    Setting(
        "tcp-keepalive",
        300,
        "Seconds between keep-alive probes to clients; 0: none.",
        maximum=32767,
    ),
]
