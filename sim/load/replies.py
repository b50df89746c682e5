"""What clients read out of replies. Replies are values of the engine; those of RESP3 sessions (maps) are understood as well."""

from __future__ import annotations

from anabranch.region.engine.replies import MapReply, Reply


def entry_ids(reply: Reply, limit: int) -> list[bytes]:
    """The IDs of the last `limit` of a list of entries ([ID, fields] each, or IDs alone)."""
    if not isinstance(reply, list):
        return []
    found: list[bytes] = []
    for entry in reply[-limit:]:
        one = entry[0] if isinstance(entry, list) and entry else entry
        if isinstance(one, bytes):
            found.append(one)
    return found


def entries_by_key(reply: Reply) -> list[tuple[bytes, Reply]]:
    """(key, entries) of what XREAD and XREADGROUP answer."""
    found: list[tuple[bytes, Reply]] = []
    if isinstance(reply, MapReply):
        flat = reply.flat
        for index in range(0, len(flat) - 1, 2):
            key = flat[index]
            if isinstance(key, bytes):
                found.append((key, flat[index + 1]))
    elif isinstance(reply, list):
        for pair in reply:
            if isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], bytes):
                found.append((pair[0], pair[1]))
    return found


def field_of(reply: Reply, name: bytes) -> Reply:
    """The value under a name of a map; None if it is not there."""
    flat = reply.flat if isinstance(reply, MapReply) else reply if isinstance(reply, list) else []
    for index in range(0, len(flat) - 1, 2):
        if flat[index] == name:
            return flat[index + 1]
    return None
