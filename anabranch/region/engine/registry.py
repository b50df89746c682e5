"""The command table, collected from the command modules."""

from __future__ import annotations

from anabranch.region.engine.commands import (
    acl,
    adding,
    bulk_reading,
    claiming,
    client,
    clocks,
    configuration,
    connection,
    expiry,
    group_facts,
    group_reading,
    groups,
    introspection,
    keys,
    membership,
    objects,
    operating,
    pending,
    reading,
    removing,
    replication,
    server,
    slow_commands,
    stream_info,
    studying,
    transactions,
    trimming,
    xcfgset,
)
from anabranch.region.engine.state import EngineState
from anabranch.region.engine.table import Command


def commands() -> dict[bytes, Command[EngineState]]:
    """Every command by its name in upper case."""
    rows = [
        adding.COMMANDS,
        removing.COMMANDS,
        reading.COMMANDS,
        groups.COMMANDS,
        group_reading.COMMANDS,
        pending.COMMANDS,
        claiming.COMMANDS,
        stream_info.COMMANDS,
        keys.COMMANDS,
        objects.COMMANDS,
        expiry.COMMANDS,
        transactions.COMMANDS,
        replication.COMMANDS,
        membership.COMMANDS,
        studying.COMMANDS,
        group_facts.COMMANDS,
        bulk_reading.COMMANDS,
        connection.COMMANDS,
        client.COMMANDS,
        introspection.COMMANDS,
        configuration.COMMANDS,
        operating.COMMANDS,
        clocks.COMMANDS,
        server.COMMANDS,
        slow_commands.COMMANDS,
        acl.COMMANDS,
        trimming.COMMANDS,
        xcfgset.COMMANDS,
    ]
    return {command.key: command for group in rows for command in group}
