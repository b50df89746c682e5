"""Finding pending entries by ID, one after the other, as XACK mostly names them."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64, mypyc_attr

from anabranch.crdt.ids import is_above
from anabranch.crdt.pel import Pel
from anabranch.crdt.pel_chunk import EntryRef
from anabranch.crdt.pel_part import PelPart
from anabranch.crdt.pel_slices import copied, word_of
from anabranch.crdt.scan import is_up_to, unsigned, word

# Entries that a finder copies out of the columns at first.
_WINDOW_MIN: Final = 8


@mypyc_attr(acyclic=True)
class _PartFinder:
    """Finds entries of one region log.

    After each entry that it has to search, it copies those that follow out of the columns, because
    bytes are faster to read than an array: more with each copy, and none before the second search.
    """

    def __init__(self, part: PelPart) -> None:
        self._part: Final = part
        self._window = 0
        # The copies, the next entry and how many there are, and the offset of the first in the
        # chunk of the part's place.
        self._ms = b""
        self._seqs = b""
        self._counters = b""
        self._at: i64 = 0
        self._size: i64 = 0
        self._start = 0

    def find(self, ms: int, seq: int, found: list[EntryRef]) -> None:
        """Appends the entries that bear the ID to `found`, ascending by counter."""
        at = self._at
        if at < self._size:
            ms_word, seq_word = word(ms), word(seq)
            # Entries between the last ID and this one are passed over.
            while at < self._size and not is_up_to(
                ms_word, seq_word, word_of(self._ms, at), word_of(self._seqs, at)
            ):
                at += 1
            self._at = at
            if at < self._size:
                if word_of(self._seqs, at) == seq_word and word_of(self._ms, at) == ms_word:
                    counter = unsigned(word_of(self._counters, at))
                    found.append(EntryRef(self._part.region_id, counter, ms, seq))
                    self._at = at + 1
                return
        part = self._part
        if at:
            part.offset = self._start + int(at) - 1
        before = len(found)
        part.put_refs(ms, seq, found)
        # Where IDs and counters do not ascend together, several entries can bear an ID.
        if len(found) > before and part.agrees:
            self._copy()
        else:
            self._size = 0
            self._at = 0

    def _copy(self) -> None:
        """Copies the entries that follow the part's place."""
        part = self._part
        chunk = part.chunks[part.index]
        self._at = 0
        self._start = start = part.offset + 1
        stop = start + self._window
        self._window = 2 * self._window or _WINDOW_MIN
        self._ms = copied(chunk.ms, start, stop)
        self._seqs = copied(chunk.seqs, start, stop)
        self._counters = copied(chunk.counters, start, stop)
        self._size = len(self._seqs) // 8


class PelFinder:
    """Collects in `found` the pending entries that bear given IDs, which ascend.

    Those of one ID ascend by (region_id, counter). The PEL must not change meanwhile.
    """

    def __init__(self, pel: Pel) -> None:
        self.found: list[EntryRef] = []
        self._parts: Final = [
            _PartFinder(pel.parts[region_id])
            for region_id in sorted(pel.parts)
            if pel.parts[region_id].length
        ]
        self._last_ms = -1
        self._last_seq = 0

    def is_above(self, ms: int, seq: int) -> bool:
        """Whether the ID of these halves is above the last one."""
        return is_above(ms, seq, self._last_ms, self._last_seq)

    def find(self, ms: int, seq: int) -> None:
        """Finds the entries that bear the ID of these halves, which is above the last one."""
        self._last_ms = ms
        self._last_seq = seq
        for part in self._parts:
            part.find(ms, seq, self.found)
