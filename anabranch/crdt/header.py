"""The header of a stream (S3), and the vector of the effects on its key.

In nearly every stream both say the same of one region. Such a header is kept without dicts:
`heads` and `touched` make one for the reader then. They are changed by methods.
"""

from __future__ import annotations

from typing import Optional

from mypy_extensions import mypyc_attr

from anabranch.crdt.ids import MAX_HALF
from anabranch.crdt.vector import Vector, covers


@mypyc_attr(acyclic=True)
class Header:
    """The newest add or XSETID of each region, and its newest effect on the key."""

    def __init__(self) -> None:
        # The header while it has one region: region_id (0: it is empty), counter and halves of the
        # entry ID. Otherwise the dict.
        self._head_region = 0
        self._head_counter = 0
        self._head_ms = 0
        self._head_seq = 0
        self._heads: Optional[dict[int, tuple[int, int]]] = None
        # None: as `touched` the counters of the header are valid.
        self._touched: Optional[Vector] = None

    @property
    def heads(self) -> dict[int, tuple[int, int]]:
        """region_id → (counter, entry ID) of its newest add or XSETID; observed-remove (S3)."""
        if self._heads is not None:
            return self._heads
        if self._head_region == 0:
            return {}
        return {self._head_region: (self._head_counter, (self._head_ms << 64) | self._head_seq)}

    def note(self, region_id: int, counter: int, ms: int, seq: int) -> None:
        """The newest add or XSETID of a region has this counter and ID."""
        if self._heads is None:
            if self._head_region in (0, region_id):
                self._head_region = region_id
                self._head_counter = counter
                self._head_ms = ms
                self._head_seq = seq
                return
            self._heads = self.heads
        self._heads[region_id] = (counter, (ms << 64) | seq)

    def set_heads(self, header: dict[int, tuple[int, int]]) -> None:
        """Replaces the header; `touched` stays."""
        if self._touched is None and header != self.heads:
            self._touched = self.touched
        self._heads = None
        self._head_region = 0
        for region_id, (counter, entry_id) in header.items():
            self.note(region_id, counter, entry_id >> 64, entry_id & MAX_HALF)

    def _is_one_head(self) -> bool:
        """Whether header and `touched` are kept without a dict: one dot and its ID, or nothing."""
        return self._heads is None and self._touched is None

    def has_head(self, region_id: int) -> bool:
        """Whether the header holds an add or XSETID of that region."""
        if self._heads is not None:
            return region_id in self._heads
        return self._head_region == region_id

    def is_same(self, other: Header) -> bool:
        """Whether header and `touched` are those of the other stream."""
        if self._is_one_head() and other._is_one_head():
            return self._head_region == other._head_region and (
                self._head_region == 0
                or (
                    self._head_counter == other._head_counter
                    and self._head_ms == other._head_ms
                    and self._head_seq == other._head_seq
                )
            )
        return self.touched == other.touched and self.heads == other.heads

    def replace(self, other: Header, our_vector: Vector) -> bool:
        """Takes the header and `touched` of the other stream if that is the join of both (S11.3).

        It is where each side has one head at most, both of one region, and `our_vector` does not
        cover theirs. Then theirs is the higher one, so the other side's vector covers ours. Returns
        False elsewhere, and changes nothing.
        """
        if not (self._is_one_head() and other._is_one_head()):
            return False
        region_id, counter = other._head_region, other._head_counter
        if region_id == 0 or covers(our_vector, region_id, counter):
            return False
        if self._head_region not in (0, region_id):
            return False
        self.note(region_id, counter, other._head_ms, other._head_seq)
        return True

    def has_heads(self) -> bool:
        return self._head_region != 0

    def is_above(self, vector: Vector) -> bool:
        """Whether it is one add or XSETID that the vector does not cover, and all of `touched`."""
        return (
            self._is_one_head()
            and self._head_region != 0
            and vector.get(self._head_region, 0) < self._head_counter
        )

    @property
    def touched(self) -> Vector:
        """region_id → counter of its newest effect on this key."""
        if self._touched is not None:
            return self._touched
        return {region_id: head[0] for region_id, head in self.heads.items()}

    def touch(self, region_id: int, counter: int) -> None:
        """The newest effect of a region on this key has this counter. `note` comes before."""
        if self._touched is None:
            if self._heads is None:
                known = self._head_counter if self._head_region == region_id else 0
            else:
                known = self._heads[region_id][0] if region_id in self._heads else 0
            if known == counter:
                return
            self._touched = self.touched
        self._touched[region_id] = counter

    def set_touched(self, touched: Vector) -> None:
        """Replaces `touched`; the header stays."""
        self._touched = None
        if self._heads is None and len(touched) == 1:
            # Nearly every stream: no other vector is made to compare.
            if self._head_region and touched.get(self._head_region) == self._head_counter:
                return
        elif touched == self.touched:
            return
        self._touched = touched

    def last_id(self) -> int:
        """Returns the highest ID in the header (S3.2); 0 if the header is empty."""
        if self._heads is None:
            return (self._head_ms << 64) | self._head_seq if self._head_region else 0
        highest = 0
        for _, entry_id in self._heads.values():
            if entry_id > highest:
                highest = entry_id
        return highest

    def last_halves(self) -> tuple[int, int]:
        """Returns the halves of `last_id`."""
        if self._heads is None:
            return (self._head_ms, self._head_seq) if self._head_region else (0, 0)
        last_id = self.last_id()
        return last_id >> 64, last_id & MAX_HALF
