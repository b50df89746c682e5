"""The commands of a batch one by one, with the reply to each.

The region executes a batch together; those who judge it look at commands. So this module reads the
packed words of a batch by itself.
"""

from __future__ import annotations

from anabranch.crdt.encoding import Reader
from anabranch.crdt.node import FOLLOWS
from anabranch.region.engine.replies import AddedIds, Reply
from anabranch.sim.calls import Call, Following

# IDs of one ms that a region generates have seqs at this interval (S4.1).
_SEQ_INTERVAL = 1000

Words = tuple[bytes, ...]


def commands_of(call: Call) -> list[Words]:
    """The commands that a call of the kind execute has taken, in order."""
    following = call.following
    if following is None:
        return [call.argv]
    values = _values(following) if following.first_value else []
    found = [call.argv]
    for place in range(following.count):
        words = list(call.argv)
        if following.words:
            words[following.word] = following.words[place]
        if values:
            words[following.first_value :: 2] = values[place]
        found.append(tuple(words))
    return found


def replies_of(call: Call) -> list[Reply]:
    """The replies of a call of the kind execute, in order: one for each command."""
    found: list[Reply] = []
    for reply in call.replies:
        if isinstance(reply, AddedIds):
            for place in range(reply.count):
                found.append(b"%d-%d" % (reply.ms, reply.first_seq + place * _SEQ_INTERVAL))
        else:
            found.append(reply)
    return found


def issues_each(call: Call) -> int:
    """How many effects each command after the first one of a batch issues."""
    return 0 if call.following is None or not call.following.first_value else 1


def _values(following: Following) -> list[list[bytes]]:
    """The values of each command after the first one."""
    found: list[list[bytes]] = []
    if following.as_entries:
        reader = Reader(following.data)
        for _ in range(following.count):
            assert following.data.startswith(FOLLOWS, reader.offset)
            reader.offset += len(FOLLOWS)
            found.append(_each(reader.bytes_()))
    else:
        begin = 0
        for end in following.ends[: following.count]:
            found.append(_each(following.data[begin:end]))
            begin = end
    return found


def _each(data: bytes) -> list[bytes]:
    reader = Reader(data)
    values: list[bytes] = []
    while not reader.at_end():
        values.append(reader.bytes_())
    return values
