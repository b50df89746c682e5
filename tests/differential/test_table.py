"""The command table, compared with that of a real redis-server.

The tests compare arity, flags, keys and categories of every command that both have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from anabranch.region.engine import registry
from anabranch.region.engine.state import EngineState
from anabranch.region.engine.table import Command
from tests.differential.replies import Typed
from tests.differential.sides import Pair

pytestmark = pytest.mark.oracle

NAMES = [
    "name",
    "arity",
    "flags",
    "first key",
    "last key",
    "step",
    "categories",
    "tips",
    "key specifications",
]

# Commands that Redis 7.0 does not have.
NEWER = {"xcfgset", "xidmp", "client|setinfo", "client|no-touch"}
# (command, field) → the value in this table where it differs from Redis 7.0.
SETTLED = {
    # Since 7.2 the command whose keys are asked for may have no arguments.
    ("command|getkeys", "arity"): -3,
    ("command|getkeysandflags", "arity"): -3,
}


def commands() -> Iterator[Command[EngineState]]:
    """All commands and subcommands of the table."""
    for command in registry.commands().values():
        yield command
        yield from command.subcommands.values()


@pytest.fixture
def pair(new_pair: Callable[[int], Pair]) -> Pair:
    return new_pair(2)


@pytest.mark.parametrize(
    "name", [one.name for one in commands() if one.docs.group != "crdt" and one.name not in NEWER]
)
def test_as_redis_has_it(name: str, pair: Pair) -> None:
    """COMMAND INFO gives the facts that Redis gives, tips and `SETTLED` aside."""
    theirs, own = pair.run([b"COMMAND", b"INFO", name.encode()])
    assert theirs.elements[0].value is not None, f"Redis 7.0 does not have {name}"
    wrong = []
    for field, one, other in zip(
        NAMES, theirs.elements[0].elements, own.elements[0].elements, strict=False
    ):
        if field == "tips":
            continue
        if name == "wait" and field in ("flags", "categories"):
            # Since 7.2 WAIT has the flag and the category of blocking commands.
            continue
        expected = SETTLED.get((name, field))
        if (other.value != expected) if expected is not None else (as_set(one) != as_set(other)):
            wrong.append(f"{field}: redis {one}, ours {other}")
    assert not wrong, "\n".join(wrong)


def as_set(reply: Typed) -> object:
    """A reply as a value that does not depend on the order of names within a set."""
    if reply.elements and reply.elements[0].kind == "+":
        return sorted(str(one.value) for one in reply.elements)
    if reply.elements and reply.elements[0].value == b"notes":
        return as_set(Typed("*", reply.elements[2:]))
    if reply.elements:
        return [as_set(one) for one in reply.elements]
    return reply.value


def test_help_of_every_container(pair: Pair) -> None:
    """HELP gives simple strings; the first equals that of Redis, the other texts are our own."""
    for command in registry.commands().values():
        if command.subcommands:
            theirs, own = pair.run([command.key, b"HELP"])
            assert own.elements and all(one.kind == "+" for one in own.elements), command.name
            assert own.elements[0] == theirs.elements[0], command.name
            assert own.elements[-2].value == b"HELP"
            for subcommand in command.subcommands.values():
                word = subcommand.name.split("|")[1].upper().encode()
                assert any(
                    isinstance(line.value, bytes) and line.value.startswith(word)
                    for line in own.elements
                ), subcommand.name
