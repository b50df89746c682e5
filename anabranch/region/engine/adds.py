"""Runs of adds: an XADD and those that follow it, with other values only, in a client's input.

Idempotent adds (S9) of one producer form runs, too: their iids may differ as well. Such a run ends
before a pair that is known here, which may be a retry. Adds that go to other keys are no run, but
are executed together as well.

A run begins with an XADD with `*` for its ID, which is executed as any command. It may have
MAXLEN with `~`: then the run ends before an add after which entries are to be removed.
The adds that follow it in the input, and differ from it only in their values, are issued together,
under the same reading of the clock. Each is a unit of its own (S1.2), and its effect, ID and reply
are those that it would have alone. Only the packed nodes that hold the entries may be cut a few
bytes later or earlier, so `~` may remove one node more or less. An add after which something else
must happen before the next one is not followed by others: `may_follow` names the cases.
"""

from __future__ import annotations

from typing import Final, Optional

from anabranch.crdt.adds import ROOM_MAX, IdempotentAdds, room_after
from anabranch.crdt.encoding import Reader
from anabranch.crdt.ids import SEQ_STRIDE, make
from anabranch.crdt.node import decode_fields, decode_names, with_values
from anabranch.crdt.pair import automatic_iid
from anabranch.crdt.stream import Stream
from anabranch.region.engine.journal import Journal
from anabranch.region.engine.session import Session
from anabranch.region.engine.settings import CachedSettings
from anabranch.region.engine.waiting import BlockedReads

# XADD key * name value …
PLAIN_FIRST_VALUE: Final = 4


class AddedIds:
    """The replies to the adds of a run: `count` IDs of one ms, at intervals of `SEQ_STRIDE`."""

    def __init__(self, ms: int, first_seq: int, count: int) -> None:
        self.ms: Final = ms
        self.first_seq: Final = first_seq
        self.count: Final = count

    def ids(self) -> list[int]:
        return [make(self.ms, self.first_seq + n * SEQ_STRIDE) for n in range(self.count)]


class RunOfAdds:
    """The run whose last add is the last command executed; none otherwise (`stream` is None)."""

    def __init__(self, journal: Journal, cached: CachedSettings) -> None:
        self._journal: Final = journal
        self._cached: Final = cached
        self._stream: Optional[Stream] = None
        self.names = b""
        self._ms = 0
        self._seq = 0
        self._room = 0
        self._words: list[bytes] = []
        self.first_value = 0
        # The producer of idempotent adds, and the index of the iid in each; 0: it is made of the
        # fields, -1: the adds are plain ones.
        self._pid = b""
        self.iid_at = -1

    def begin(
        self,
        stream: Stream,
        names: bytes,
        ms: int,
        seq: int,
        words: list[bytes],
        first_value: int,
        room: int = ROOM_MAX,
    ) -> None:
        """The XADD `words` that begins a run added the entry `ms`-`seq`; no EXEC runs it.

        `first_value` is the index of the first value in `words`. At most `room` adds may follow.
        """
        self._stream = stream
        self.names = names
        self._ms = ms
        self._seq = seq
        self._words = words
        self.first_value = first_value
        self._room = room
        self.iid_at = -1

    def with_pairs(self, pid: bytes, iid_at: int) -> None:
        """The run that has begun is one of idempotent adds, with the iid at this index.

        0: the iid is made of the fields (IDMPAUTO).
        """
        self._pid = pid
        self.iid_at = iid_at

    def end(self) -> None:
        """Another command begins."""
        self._stream = None

    def may_follow(self, session: Session, reads: BlockedReads, input_bytes: int) -> int:
        """How many adds may follow; `input_bytes` are not less than what they hold.

        None may, if the last command was no such add, if `reads` block on the key, which each add
        wakes, if CLIENT REPLY suppresses replies, if so many bytes could wait for the disk that an
        add is refused (S14), or if the last add did not go into a node of its names.
        """
        stream = self._stream
        if stream is None or self._room == 0:
            return 0
        node = stream.log(self._journal.keyspace.region_id).rax.last()
        if self.iid_at >= 0:
            # The effect of an idempotent add has its ID, a time and a vector, too.
            input_bytes *= 2
        if (
            session.reply_mode != "on"
            or stream.key in reads.by_key
            or self._journal.pending_bytes() + input_bytes > self._cached.uncommitted_max_bytes
            or node is None
            or node.names != self.names
        ):
            return 0
        return min(room_after(self._seq), self._room)

    def may_go_elsewhere(self, session: Session, reads: BlockedReads, input_bytes: int) -> bool:
        """Whether adds that are like the last command, but go to other keys, may be issued with it.

        They may not, if it was no such add or has options, and for the reasons of `may_follow`.
        """
        return (
            self._stream is not None
            and self.first_value == PLAIN_FIRST_VALUE
            and session.reply_mode == "on"
            and not reads.by_key
            and self._journal.pending_bytes() + input_bytes <= self._cached.uncommitted_max_bytes
        )

    def words(self, values: bytes, iid: bytes = b"") -> tuple[bytes, ...]:
        """The command that is an add of the run with these encoded values, and this iid."""
        fields = decode_fields(self.names, values)
        words = [*self._words[: self.first_value - 1], *fields]
        if self.iid_at > 0:
            words[self.iid_at] = iid
        return tuple(words)

    def words_elsewhere(self, key: bytes, values: bytes) -> tuple[bytes, ...]:
        """The command that is like the first one, with this key and these encoded values."""
        words = self.words(values)
        return (words[0], key, *words[2:])

    def follow(self, data: bytes, count: int) -> AddedIds:
        """Issues the adds that follow: `data` holds `count` of them, encoded (`crdt/adds.py`)."""
        stream = self._stream
        assert stream is not None
        self._journal.add_like(stream, self._ms, self._seq, self.names, data, count)
        added = AddedIds(self._ms, self._seq + SEQ_STRIDE, count)
        self._seq += count * SEQ_STRIDE
        self._room -= count
        return added

    def follow_idempotent(self, data: bytes, ends: list[int], iids: list[bytes]) -> AddedIds:
        """Issues the idempotent adds that follow, up to the first whose pair may be known here.

        `data` holds their entries, each of which ends at one of `ends`; `iids` is empty if the iids
        are made of the fields. Returns the IDs of those that it issued, none if it issued none.
        """
        stream = self._stream
        assert stream is not None
        seq = self._seq + SEQ_STRIDE
        adds = IdempotentAdds(self.names, data, ends, self._ms, seq, self._pid, iids)
        if self.iid_at == 0:
            iids = self._automatic_iids(adds)
        count = self._count_new(stream, iids)
        if count:
            data, ends, iids = data[: ends[count - 1]], ends[:count], iids[:count]
            adds = IdempotentAdds(self.names, data, ends, self._ms, seq, self._pid, iids)
            self._journal.add_idempotent_like(stream, adds)
            self._seq += count * SEQ_STRIDE
            self._room -= count
        return AddedIds(self._ms, seq, count)

    def _automatic_iids(self, adds: IdempotentAdds) -> list[bytes]:
        """The iids that are made of the fields of entries (S9.5)."""
        names = decode_names(adds.names)
        return [
            automatic_iid(with_values(names, Reader(payload).bytes_()))
            for payload in adds.payloads()
        ]

    def _count_new(self, stream: Stream, iids: list[bytes]) -> int:
        """How many adds come before the first one whose pair is known, or whose iid is refused.

        Whether a known pair answers may depend on the pairs that the adds before it push out.
        """
        producer = stream.pairs.producers.get(self._pid)
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
