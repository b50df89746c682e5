"""The settings and deadlines that a scenario may leave on a live cluster."""

from __future__ import annotations

from anabranch.sim.scenario.model import Call, Scenario

_DEADLINE_COMMANDS = (b"EXPIRE", b"PEXPIRE", b"EXPIREAT", b"PEXPIREAT", b"PERSIST")
_RENAME_COMMANDS = (b"RENAME", b"RENAMENX")


def settings_named(call: Call) -> tuple[bytes, ...]:
    """The setting names of a CONFIG SET."""
    argv = call.argv
    return (
        argv[2::2]
        if argv[0].upper() == b"CONFIG" and len(argv) > 3 and argv[1].upper() == b"SET"
        else ()
    )


def deadline_keys(scenario: Scenario) -> set[bytes]:
    """The keys on which the scenario may leave deadlines."""
    calls = scenario.calls()
    keys = {
        call.argv[1]
        for call in calls
        if call.argv[0].upper() in _DEADLINE_COMMANDS and len(call.argv) > 1
    }
    if keys:
        keys |= {
            key
            for call in calls
            if call.argv[0].upper() in _RENAME_COMMANDS
            for key in call.argv[1:]
        }
    return keys
