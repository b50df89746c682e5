"""Replies of engines as plain values."""

from __future__ import annotations

from typing import Any

from anabranch.region.engine.replies import EntriesReply, ErrorReply, MapReply, PendingReply, Reply


def plain(reply: Reply, encoding: str = "") -> Any:
    """A reply with dicts for maps. With an encoding, bytes are text; none may be an error."""
    if isinstance(reply, MapReply):
        words = [plain(one, encoding) for one in reply.flat]
        return dict(zip(words[::2], words[1::2], strict=True))
    if isinstance(reply, (EntriesReply, PendingReply)):
        reply = reply.listed()
    if isinstance(reply, list):
        return [plain(one, encoding) for one in reply]
    assert not isinstance(reply, ErrorReply), reply.message
    return reply.decode(encoding) if encoding and isinstance(reply, bytes) else reply
