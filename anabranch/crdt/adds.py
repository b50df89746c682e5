"""Runs of adds: entries that this region adds to one stream, one right after the other.

The entries of a run have the same field names, the same ms, and seqs at intervals of `SEQ_STRIDE`,
as `*` gives them to adds of one ms (S4.1). So each follows the one before it by the same few bytes,
`node.FOLLOWS`, and a run is encoded as in a node: `FOLLOWS`, length and payload of each entry.
"""

from __future__ import annotations

from typing import Final

from anabranch.crdt.ids import MAX_HALF, SEQ_STRIDE
from anabranch.crdt.node import FOLLOWS
from anabranch.crdt.scan import Scan, unsigned, word


class Adds:
    """A run that follows the entry with the ID `ms`-`seq` and the counter `counter`.

    `data` holds its entries, at least one. The run is taken in pieces, each of which fits one node:
    `walk` stands on the first entry that is not taken, while `is_left` is True.
    """

    def __init__(self, names: bytes, data: bytes, ms: int, seq: int, counter: int) -> None:
        self.names: Final = names
        self.data: Final = data
        self.ms: Final = ms
        self.walk: Final = Scan(data, counter)
        self.walk.ms_word = word(ms)
        self.walk.seq_word = word(seq)
        self.is_left = self.walk.step()

    def take(self, entries_max: int, bytes_max: int) -> AddsPiece:
        """Takes the next entries: at least one, and no more than fit `entries_max` and `bytes_max`.

        0 means no limit.
        """
        walk = self.walk
        piece = AddsPiece(self, walk.copy())
        start = walk.start
        count = 0
        while True:
            end = walk.next
            count += 1
            last_seq = walk.seq_word
            last_counter = walk.counter_word
            self.is_left = walk.step()
            if (
                not self.is_left
                or count == entries_max
                or (bytes_max and walk.next - start > bytes_max)
            ):
                break
        piece.end = end
        piece.count = count
        piece.last_seq = unsigned(last_seq)
        piece.last_counter = last_counter
        return piece


class AddsPiece:
    """Entries of a run that one node takes. `first` stands on the first of them."""

    def __init__(self, adds: Adds, first: Scan) -> None:
        self.names: Final = adds.names
        self.ms: Final = adds.ms
        self.first: Final = first
        self._data: Final = adds.data
        self.count = 0
        # Offset after the last entry, and what it bears.
        self.end = 0
        self.last_seq = 0
        self.last_counter = 0

    def data(self) -> bytes:
        """Returns the bytes up to the last entry, in which `first` stands."""
        return self._data[: self.end]


class IdempotentAdds:
    """Idempotent adds of one producer (S9) that follow each other: a run, and an iid for each.

    `names` and `data` are those of `Adds`; `ends` are the offsets in `data` at which the entries
    end. `ms`-`seq` is the ID of the first, `pid` the producer.
    """

    def __init__(
        self,
        names: bytes,
        data: bytes,
        ends: list[int],
        ms: int,
        seq: int,
        pid: bytes,
        iids: list[bytes],
    ) -> None:
        self.names: Final = names
        self.data: Final = data
        self.ends: Final = ends
        self.ms: Final = ms
        self.seq: Final = seq
        self.pid: Final = pid
        self.iids: Final = iids

    def count(self) -> int:
        return len(self.ends)

    def last_seq(self) -> int:
        return self.seq + (len(self.ends) - 1) * SEQ_STRIDE

    def payloads(self) -> list[bytes]:
        """The values of each after their length, as they stand in a node, a block and an effect."""
        found: list[bytes] = []
        begin = 0
        for end in self.ends:
            found.append(self.data[begin + len(FOLLOWS) : end])
            begin = end
        return found

    def entries(self, counter: int) -> Adds:
        """Their entries, of which the first has the counter after this one."""
        return Adds(self.names, self.data, self.ms, self.seq - SEQ_STRIDE, counter)


def first_entries(data: bytes, count: int) -> bytes:
    """Returns the first `count` entries of a run's `data`, which has no fewer."""
    walk = Scan(data, 0)
    for _ in range(count):
        walk.step()
    return data[: walk.next]


def ends_of(data: bytes) -> list[int]:
    """Returns the offsets at which the entries of a run's `data` end."""
    walk = Scan(data, 0)
    ends: list[int] = []
    while walk.step():
        ends.append(walk.next)
    return ends


# After lower seqs, more than `ROOM_MAX` entries can follow. Compiled code compares such numbers
# without a call.
_HIGH_SEQ: Final = 1 << 61
# More entries than anybody adds at once.
ROOM_MAX: Final = 1 << 40


def room_after(seq: int) -> int:
    """Returns how many entries of the same ms may follow that with this seq, at most `ROOM_MAX`."""
    return ROOM_MAX if seq < _HIGH_SEQ else min((MAX_HALF - seq) // SEQ_STRIDE, ROOM_MAX)
