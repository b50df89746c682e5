"""Readers of replies. Replies are values of the engine, with the maps of RESP3 sessions."""

from __future__ import annotations

from anabranch.region.engine.replies import MapReply, Reply, VerbatimText


def entry_ids(reply: Reply, limit: int) -> list[bytes]:
    """The IDs of the last `limit` entries of a list. An item is [ID, fields] or an ID alone."""
    if not isinstance(reply, list):
        return []
    found: list[bytes] = []
    for entry in reply[-limit:]:
        one = entry[0] if isinstance(entry, list) and entry else entry
        if isinstance(one, bytes):
            found.append(one)
    return found


def entries_by_key(reply: Reply) -> list[tuple[bytes, list[Reply]]]:
    """(key, entries) of each stream in a reply of XREAD or XREADGROUP; empty for a null reply."""
    found: list[tuple[bytes, list[Reply]]] = []
    if isinstance(reply, MapReply):
        for index in range(0, len(reply.flat), 2):
            key, entries = reply.flat[index], reply.flat[index + 1]
            assert isinstance(key, bytes) and isinstance(entries, list)
            found.append((key, entries))
    elif isinstance(reply, list):
        for pair in reply:
            assert (
                isinstance(pair, list) and isinstance(pair[0], bytes) and isinstance(pair[1], list)
            )
            found.append((pair[0], pair[1]))
    return found


def map_of(reply: Reply) -> dict[bytes, Reply]:
    """The names and values of a map reply; empty for another reply."""
    flat = reply.flat if isinstance(reply, MapReply) else reply if isinstance(reply, list) else []
    found: dict[bytes, Reply] = {}
    for index in range(0, len(flat) - 1, 2):
        name = flat[index]
        if isinstance(name, bytes):
            found.setdefault(name, flat[index + 1])
    return found


def field_of(reply: Reply, name: bytes) -> Reply:
    """The value under a name of a map reply; None without that name."""
    return map_of(reply).get(name)


def time_ms(reply: Reply) -> int:
    """The time in ms that the reply of TIME tells."""
    assert isinstance(reply, list)
    seconds, rest = reply
    assert isinstance(seconds, bytes) and isinstance(rest, bytes)
    return int(seconds) * 1000 + int(rest) // 1000


def figures_of(reply: Reply) -> dict[bytes, bytes]:
    """The names and values of a section of INFO; empty for another reply."""
    text = reply.text if isinstance(reply, VerbatimText) else reply
    lines = text.split(b"\r\n") if isinstance(text, bytes) else []
    parts = [line.partition(b":") for line in lines]
    return {name: value for name, colon, value in parts if colon}
