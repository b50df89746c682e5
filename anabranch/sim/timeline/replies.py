"""Replies in short: entries as their IDs, groups and consumers as their names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from anabranch.sim.history import Words
from anabranch.study.diagram.texts import cut, visible, word

SHOWN_MAX: Final = 160
"""Characters of a reply or a command that are kept."""
_OF_STREAM: Final = ("length", "groups", "last-generated-id")
_OF_GROUP: Final = ("pending", "lag")


def command_text(argv: Sequence[bytes]) -> str:
    """A command as typed."""
    return cut(" ".join(word(one[: SHOWN_MAX + 1]) for one in argv), SHOWN_MAX)


def reply_text(argv: Words, reply: Any) -> str:
    """A plain reply (`sim.world.trace.plain`) to the command `argv`, in short."""
    return cut(_reply(argv, reply), SHOWN_MAX)


def _reply(argv: Words, reply: Any) -> str:
    if not isinstance(reply, list):
        return _scalar(reply)
    name = argv[0].upper()
    kind = argv[1].upper() if len(argv) > 1 else b""
    if name in (b"XREAD", b"XREADGROUP"):
        entries = [entry for stream in reply for entry in _entries_of_stream(stream)]
        return _listed([_first(entry) for entry in entries])
    if name in (b"XRANGE", b"XREVRANGE", b"XCLAIM"):
        return _listed([_first(entry) for entry in reply])
    if name == b"XAUTOCLAIM" and len(reply) > 1 and isinstance(reply[1], list):
        return _listed([_first(entry) for entry in reply[1]])
    if name == b"XPENDING" and len(argv) > 3:
        return _listed([f"{_first(one)} consumer={_nth(one, 1)}" for one in reply])
    if name == b"XINFO" and kind in (b"GROUPS", b"CONSUMERS"):
        return _listed([_named(one) for one in reply])
    if name == b"XINFO" and kind == b"STREAM":
        return _listed(_fields(reply, _OF_STREAM))
    return _listed([_plain(one) for one in reply])


def _entries_of_stream(stream: Any) -> list[Any]:
    """The entries of ``[key, entries]``."""
    is_pair = isinstance(stream, list) and len(stream) == 2 and isinstance(stream[1], list)
    return stream[1] if is_pair else [stream]


def _first(entry: Any) -> str:
    return _nth(entry, 0)


def _nth(entry: Any, place: int) -> str:
    if isinstance(entry, list):
        return _scalar(entry[place]) if len(entry) > place else ""
    return _scalar(entry)


def _named(flat: Any) -> str:
    """A group or a consumer: its name, and some fields of a group."""
    if not isinstance(flat, list):
        return _scalar(flat)
    name = next((flat[at + 1] for at in range(0, len(flat) - 1, 2) if flat[at] == b"name"), None)
    return " ".join([_scalar(name), *_fields(flat, _OF_GROUP)])


def _fields(flat: list[Any], wanted: Sequence[str]) -> list[str]:
    names = [one.encode() for one in wanted]
    return [
        f"{flat[at].decode()}={_scalar(flat[at + 1])}"
        for at in range(0, len(flat) - 1, 2)
        if flat[at] in names
    ]


def _plain(reply: Any) -> str:
    return _listed([_plain(one) for one in reply]) if isinstance(reply, list) else _scalar(reply)


def _scalar(reply: Any) -> str:
    if reply is None:
        return "nil"
    if isinstance(reply, bytes):
        return word(reply[: SHOWN_MAX + 1])
    if isinstance(reply, str) and reply.startswith("-"):
        return f"(error) {visible(reply[1:])}"
    return visible(str(reply))


def _listed(items: list[str]) -> str:
    return f"[{', '.join(items)}]"
