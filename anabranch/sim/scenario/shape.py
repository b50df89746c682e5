"""Replies in the form in which a table writes them.

Entries are rows by ID, groups and consumers rows by name, maps rows by field; other replies stay
as they are. Replies are those of RESP2, in which maps are flat arrays; a flattened RESP3 map has
the same form.
"""

from __future__ import annotations

from collections.abc import Sequence

from anabranch.region.resp.decoder import DecodedReply, ErrorText
from anabranch.sim.scenario.expectation import Shape, ShownRow


def text(reply: DecodedReply) -> str:
    """A scalar reply as text; bytes that are not UTF-8 are kept (surrogateescape)."""
    if isinstance(reply, bytes):
        return reply.decode("utf-8", "surrogateescape")
    return "nil" if reply is None else str(reply)


def shape(argv: Sequence[bytes], reply: DecodedReply) -> Shape:
    """The reply to the command `argv`, in the form that tables compare."""
    if reply is None or isinstance(reply, (int, ErrorText)):
        return reply
    if isinstance(reply, bytes):
        return text(reply)
    name = argv[0].upper()
    kind = argv[1].upper() if len(argv) > 1 else b""
    if name in (b"XRANGE", b"XREVRANGE", b"XCLAIM"):
        return _entries(reply)
    if name in (b"XREAD", b"XREADGROUP"):
        return [entry for stream in reply for entry in _entries_of_stream(stream)]
    if name == b"XAUTOCLAIM" and len(reply) >= 2 and isinstance(reply[1], list):
        return _entries(reply[1])
    if name == b"XPENDING" and len(argv) > 3:
        return [_pending(one) for one in reply]
    if name == b"XINFO" and kind in (b"GROUPS", b"CONSUMERS"):
        return [_named(one) for one in reply]
    if name == b"XINFO" and kind == b"STREAM":
        return [ShownRow("", _pairs(reply))]
    return [_plain(one) for one in reply]


def shape_of_transaction(queued: Sequence[Sequence[bytes]], reply: DecodedReply) -> Shape:
    """The reply to EXEC: each element in the shape of its command."""
    if not isinstance(reply, list) or len(reply) != len(queued):
        return shape([b"EXEC"], reply)
    return [shape(argv, one) for argv, one in zip(queued, reply, strict=True)]


def _plain(reply: DecodedReply) -> Shape:
    if isinstance(reply, list):
        return [_plain(one) for one in reply]
    return text(reply) if isinstance(reply, bytes) else reply


def _entries(reply: list[DecodedReply]) -> list[Shape]:
    return [_entry(one) for one in reply]


def _entries_of_stream(stream: DecodedReply) -> list[Shape]:
    if isinstance(stream, list) and len(stream) == 2 and isinstance(stream[1], list):
        return _entries(stream[1])
    return [_plain(stream)]


def _entry(reply: DecodedReply) -> Shape:
    """`[ID, [field, value, …]]`, `[ID, nil]` of a deleted entry, or an ID alone (JUSTID)."""
    if not isinstance(reply, list) or not reply:
        return _plain(reply)
    content = reply[1] if len(reply) > 1 else None
    return ShownRow(text(reply[0]), _pairs(content) if isinstance(content, list) else ())


def _pending(reply: DecodedReply) -> Shape:
    """`[ID, consumer, idle in ms, deliveries]`"""
    if not isinstance(reply, list) or len(reply) != 4:
        return _plain(reply)
    return ShownRow(
        text(reply[0]),
        tuple(zip(("consumer", "idle", "deliveries"), map(text, reply[1:]), strict=True)),
    )


def _named(reply: DecodedReply) -> Shape:
    if not isinstance(reply, list):
        return _plain(reply)
    pairs = _pairs(reply)
    return ShownRow(dict(pairs).get("name", ""), pairs)


def _pairs(reply: list[DecodedReply]) -> tuple[tuple[str, str], ...]:
    return tuple((text(reply[n]), _value(reply[n + 1])) for n in range(0, len(reply) - 1, 2))


def _value(reply: DecodedReply) -> str:
    return (
        "[" + " ".join(_value(one) for one in reply) + "]"
        if isinstance(reply, list)
        else text(reply)
    )
