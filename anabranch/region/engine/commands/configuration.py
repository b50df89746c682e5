"""CONFIG: reads and changes settings (`region.engine.settings`) at run time.

A change by CONFIG SET lasts until the region ends.
"""

from __future__ import annotations

from typing import Final, Optional

from anabranch.region.engine.commands.arguments import SYNTAX_ERROR, container, help_reply
from anabranch.region.engine.glob import Glob
from anabranch.region.engine.replies import OK, CommandError, MapReply, Reply, shown
from anabranch.region.engine.session import Session
from anabranch.region.engine.setting import Setting, Value
from anabranch.region.engine.settings import BY_NAME, Settings
from anabranch.region.engine.state import EngineState
from anabranch.region.engine.table import Command

_IMMUTABLE: Final = "can't set immutable config"
# Names of Redis's settings that are options of a region's start → the facts of the process that
# have their values.
_FACTS: Final = {"port": "tcp_port", "bind": "tcp_bind", "dir": "data_dir"}


def get(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """CONFIG GET pattern …: each setting once, even if several patterns match its name.

    If the first of them is the name itself, the reply has it in the client's spelling, as in Redis.
    """
    patterns = [Glob(text, True) for text in argv[2:]]
    facts = state.process_facts
    values: dict[str, Value] = {
        **state.settings.values,
        **{name: facts[fact] for name, fact in _FACTS.items() if fact in facts},
    }
    flat: list[Reply] = []
    for name, value in values.items():
        encoded = name.encode()
        first = next((one for one in patterns if one.matches(encoded)), None)
        if first is not None:
            spelled = first.pattern if first.pattern.lower() == encoded else encoded
            flat += [spelled, str(value).encode("utf-8", "surrogateescape")]
    return MapReply(flat)


class _Change:
    """One setting and its new value, as text."""

    def __init__(self, setting: Setting, text: str) -> None:
        self.setting = setting
        self.text = text


def set_(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """CONFIG SET name value [name value …]: makes all the changes or none."""
    if len(argv) % 2:
        raise CommandError(SYNTAX_ERROR)
    changes: list[_Change] = []
    for index in range(2, len(argv), 2):
        name = shown(argv[index]).lower()
        setting = BY_NAME.get(name)
        if name in _FACTS:
            raise _failed(name, _IMMUTABLE)
        if setting is None:
            raise CommandError(
                f"ERR Unknown option or number of arguments for CONFIG SET - '{shown(argv[index])}'"
            )
        changes.append(_Change(setting, argv[index + 1].decode("utf-8", "surrogateescape")))
    seen: set[str] = set()
    for change in changes:
        reason = (
            "duplicate parameter"
            if change.setting.name in seen
            else _refusal(change.setting, change.text, state.settings)
        )
        if reason is not None:
            raise _failed(change.setting.name, reason)
        seen.add(change.setting.name)
    for change in changes:
        state.settings.set(change.setting.name, change.text)
    state.refresh_settings()
    return OK


def _failed(name: str, reason: str) -> CommandError:
    return CommandError(f"ERR CONFIG SET failed (possibly related to argument '{name}') - {reason}")


def _refusal(setting: Setting, text: str, settings: Settings) -> Optional[str]:
    """Why a setting cannot have that value, in Redis's words; None if it can.

    An immutable setting accepts its present value.
    """
    present = settings.values[setting.name]
    if not setting.mutable:
        try:
            return None if setting.parse(text) == present else _IMMUTABLE
        except ValueError:
            return _IMMUTABLE
    if isinstance(setting.default, int) and setting.number(text) is None:
        return (
            "argument must be a memory value"
            if setting.is_bytes
            else "argument couldn't be parsed into an integer"
        )
    try:
        value = setting.parse(text)
    except ValueError:
        if setting.choices is not None:
            return f"argument(s) must be one of the following: {', '.join(setting.choices)}"
        return f"argument must be between {setting.minimum} and {setting.maximum} inclusive"
    ceiling = settings.ceilings.get(setting.name)
    if ceiling is not None and isinstance(value, int) and value > ceiling:
        return f"The operating system does not allow a value above {ceiling}"
    return None


def resetstat(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """CONFIG RESETSTAT: resets the counters of commands, errors, merges and conflicts to 0."""
    state.statistics.reset()
    state.replication.reset()
    state.keyspace.pair_limits.forgotten_early = 0
    state.keyspace.late.arrivals = 0
    state.keyspace.late.below_stable = 0
    state.stability.time.reset_counts()
    state.keyspace.conflicts.reset()
    for link in state.peers.by_id.values():
        link.traffic.reset()
    return OK


def rewrite(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """CONFIG REWRITE: refused, because a region never writes its configuration file."""
    raise CommandError(
        "ERR CONFIG REWRITE is not supported: change the region's configuration file; "
        "the change takes effect at the next start"
    )


def help_(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """CONFIG HELP: describes the subcommands."""
    return help_reply(
        "CONFIG",
        [
            "GET <pattern> [<pattern> ...]",
            "    Return the settings whose names match, with their values.",
            "SET <setting> <value> [<setting> <value> ...]",
            "    Change settings until the region ends: all, or none.",
            "RESETSTAT",
            "    Reset the counters of commands, errors, merges and conflicts to 0.",
            "REWRITE",
            "    Refused: a region does not write its configuration file.",
        ],
    )


_ADMIN: Final = "admin noscript loading stale"

COMMANDS: Final = [
    Command(
        "config",
        -2,
        "",
        container,
        "A container for commands about settings.",
        group="server",
        since="2.0.0",
        shows_data=False,
        subcommands=[
            Command(
                "config|get",
                -3,
                _ADMIN,
                get,
                "Returns the settings whose names match, with port, bind and dir.",
                reply="map",
                group="server",
                since="2.0.0",
                syntax="pattern [pattern ...]",
            ),
            Command(
                "config|set",
                -4,
                _ADMIN,
                set_,
                "Changes settings until the region ends: all, or none.",
                reply="simple string",
                group="server",
                since="2.0.0",
                syntax="setting value [setting value ...]",
            ),
            Command(
                "config|resetstat",
                2,
                _ADMIN,
                resetstat,
                "Resets the counters of commands, errors, merges and conflicts to 0.",
                reply="simple string",
                group="server",
                since="2.0.0",
            ),
            Command(
                "config|rewrite",
                2,
                _ADMIN,
                rewrite,
                "Refused: a region does not write its configuration file.",
                reply="error",
                group="server",
                since="2.8.0",
            ),
            Command(
                "config|help",
                2,
                "loading stale",
                help_,
                "Describes the subcommands of CONFIG.",
                reply="array",
                group="server",
                since="5.0.0",
            ),
        ],
    )
]
