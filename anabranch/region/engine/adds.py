"""Adds that follow an XADD in a client's input, and are executed together with it.

They differ from it in their values only (a **run**), in values and idempotent ID (a run of one
producer, S9), or in key and values. The first one is executed as any XADD with `*` for its ID. The
others are issued under the same reading of the clock. Each is a unit of its own (S1.2), and its
effect, ID and reply are those that it would have alone. Only the packed nodes that hold the entries
may be cut a few bytes later or earlier, so `~` may remove one node more or less.

A run may have MAXLEN with `~`: then it ends before an add after which entries are to be removed. A
run of idempotent adds ends before a pair that is known here, which may be a retry. No add follows
if something else must happen before it: `_may_wait` and `_room` name the cases.
"""

from __future__ import annotations

from typing import Final

from anabranch.crdt.adds import IdempotentAdds, ends_of, first_entries, room_after
from anabranch.crdt.encoding import Reader
from anabranch.crdt.ids import SEQ_STRIDE
from anabranch.crdt.node import decode_names, with_values
from anabranch.crdt.pair import automatic_iid
from anabranch.crdt.stream import Stream
from anabranch.region.engine.batch import Packed
from anabranch.region.engine.replies import AddedIds
from anabranch.region.engine.state import EngineState

# So many adds follow another one at most. They take about as long as some four commands.
FOLLOWING_MAX: Final = 128


def _may_wait(state: EngineState, input_bytes: int) -> bool:
    """Whether so many bytes more may wait for the disk, so that no add is refused (S14)."""
    return state.journal.pending_bytes() + input_bytes <= state.cached.uncommitted_max_bytes


def _room(state: EngineState, stream: Stream, names: bytes, seq: int) -> int:
    """How many adds may follow the add of this region that has this seq.

    None may if reads block on the key, which each add wakes, or if the add did not go into a node
    of its names.
    """
    node = stream.log(state.members.region_id).node_map.last()
    if stream.key in state.waiting.reads.by_key or node is None or node.names != names:
        return 0
    return room_after(seq)


def follow(
    state: EngineState, stream: Stream, names: bytes, ms: int, seq: int, room: int, packed: Packed
) -> AddedIds:
    """Issues the adds of a run that follow the add `ms`-`seq`; returns their IDs.

    It issues `room` of them at most.
    """
    count = min(packed.count, room, _room(state, stream, names, seq))
    if count <= 0 or not _may_wait(state, packed.input_bytes):
        return AddedIds(ms, seq, 0)
    data = packed.data if count == packed.count else first_entries(packed.data, count)
    state.journal.add_like(stream, ms, seq, names, data)
    return AddedIds(ms, seq + SEQ_STRIDE, count)


def follow_idempotent(
    state: EngineState,
    stream: Stream,
    names: bytes,
    ms: int,
    seq: int,
    room: int,
    pid: bytes,
    packed: Packed,
) -> AddedIds:
    """As `follow`, for idempotent adds of the producer `pid`.

    Issues those before the first whose pair is known here. Where the packed commands have no single
    word, the iids are made of the fields.
    """
    count = min(packed.count, room, _room(state, stream, names, seq))
    # The effect of an idempotent add has its ID, a time and a vector, too.
    if count <= 0 or not _may_wait(state, 2 * packed.input_bytes):
        return AddedIds(ms, seq, 0)
    data, ends, iids = packed.data, packed.ends, packed.words
    first_seq = seq + SEQ_STRIDE
    if not iids:
        ends = ends_of(data)
        iids = _automatic_iids(IdempotentAdds(names, data, ends, ms, first_seq, pid, iids))
    count = _count_new(stream, pid, iids[:count])
    if count:
        data, ends, iids = data[: ends[count - 1]], ends[:count], iids[:count]
        adds = IdempotentAdds(names, data, ends, ms, first_seq, pid, iids)
        state.journal.add_idempotent_like(stream, adds)
    return AddedIds(ms, first_seq, count)


def may_go_elsewhere(state: EngineState, packed: Packed) -> bool:
    """Whether adds to several keys may be issued together.

    They may not while reads block, on whichever key: the first add wakes the read that came first.
    """
    return not state.waiting.reads.by_key and _may_wait(state, packed.input_bytes)


def _automatic_iids(adds: IdempotentAdds) -> list[bytes]:
    """The iids that are made of the fields of entries (S9.5)."""
    names = decode_names(adds.names)
    return [
        automatic_iid(with_values(names, Reader(payload).bytes_())) for payload in adds.payloads()
    ]


def _count_new(stream: Stream, pid: bytes, iids: list[bytes]) -> int:
    """How many adds come before the first one whose pair is known, or whose iid is refused.

    Whether a known pair answers may depend on the pairs that the adds before it push out.
    """
    producer = stream.pairs.producers.get(pid)
    found: set[bytes] = set()
    count = 0
    for iid in iids:
        if not iid or (producer is not None and producer.may_have(iid)):
            break
        found.add(iid)
        if len(found) == count:
            # The run has it twice.
            break
        count += 1
    return count
