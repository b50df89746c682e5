"""An idempotent add: the pair (producer ID, idempotent ID), and the entry that it made (S9)."""

from __future__ import annotations

from typing import Final, Optional

from mypy_extensions import mypyc_attr
from xxhash import xxh3_128_digest, xxh3_128_intdigest

from anabranch.crdt.encoding import with_length
from anabranch.crdt.ids import MAX_HALF, make
from anabranch.crdt.vector import Dot, Vector, covers

_IID_MASK: Final = (1 << 128) - 1


def automatic_iid(fields: list[bytes]) -> bytes:
    """IDMPAUTO's iid of a list of field, value, field, value, …, 16 bytes (S9.5).

    The iid is a sum, so the order of the pairs does not matter and equal pairs do not cancel out.
    It is part of the wire contract.
    """
    if len(fields) == 2:
        return xxh3_128_digest(with_length(fields[0]) + fields[1])
    total = 0
    for index in range(0, len(fields), 2):
        total += xxh3_128_intdigest(with_length(fields[index]) + fields[index + 1])
    return (total & _IID_MASK).to_bytes(16, "big")


@mypyc_attr(acyclic=True)
class Pair:
    """One idempotent add. All times are in ms since the epoch.

    `recorded_ms` is the time at which the adder recorded the pair; `vector` covers the effects that
    the adder had applied; `held_ms` is the time since which this region has held the pair.

    A region can hold a million pairs, so it keeps their records (`crdt/pair_run.py`), and makes
    this object when it looks at one. `is_retired` tells of that moment (S9.3). Pairs share what
    they can: those of one region that were added between two merges have seen the same of all
    others.
    """

    def __init__(
        self,
        pid: bytes,
        iid: bytes,
        region_id: int,
        counter: int,
        ms: int,
        seq: int,
        recorded_ms: int,
        held_ms: int,
        seen_own: int,
        seen: Vector,
    ) -> None:
        self.pid: Final = pid
        self.iid: Final = iid
        # The dot.
        self.region_id: Final = region_id
        self.counter: Final = counter
        # The halves of the entry ID.
        self.ms: Final = ms
        self.seq: Final = seq
        self.recorded_ms: Final = recorded_ms
        self.held_ms: Final = held_ms
        self.is_retired = False
        # What the adder had seen of its own region, and of all others once pairs `share` it.
        self.seen_own: Final = seen_own
        self.seen = seen

    @property
    def dot(self) -> Dot:
        return (self.region_id, self.counter)

    @property
    def age_ms(self) -> int:
        """The time by which its producer's pairs are ordered (S9.3).

        An own pair is recorded when it is added. A merged pair is no younger than its arrival, or
        the pairs of a region whose clock is ahead would outlast all others.
        """
        return min(self.recorded_ms, self.held_ms)

    @property
    def entry_id(self) -> int:
        return make(self.ms, self.seq)

    @property
    def vector(self) -> Vector:
        """A copy of the vector."""
        vector = dict(self.seen)
        vector[self.region_id] = self.seen_own
        if not self.seen_own:
            del vector[self.region_id]
        return vector

    def share(self, seen: Optional[Vector]) -> Vector:
        """Takes over what another pair of the region has seen of all others, if it is the same.

        Returns what this pair has seen of them.
        """
        self.seen = others_in(self.seen, self.region_id, seen)
        return self.seen

    def has_seen(self, other: Pair) -> bool:
        """Whether its adder had applied the other add."""
        if other.region_id == self.region_id:
            return other.counter <= self.seen_own
        return covers(self.seen, other.region_id, other.counter)

    def is_stable(self, stable: Vector) -> bool:
        """Whether the stable vector covers its add."""
        return covers(stable, self.region_id, self.counter)

    def order(self) -> tuple[int, int, int]:
        """Returns the sort key by which the lower pair of a conflict wins (S9.2)."""
        return (self.ms, self.seq, self.region_id)


def pair_of(
    pid: bytes, iid: bytes, dot: Dot, entry_id: int, recorded_ms: int, vector: Vector, held_ms: int
) -> Pair:
    """The pair of an add whose dot, entry ID and vector are whole."""
    ms, seq, seen_own = entry_id >> 64, entry_id & MAX_HALF, vector.get(dot[0], 0)
    return Pair(pid, iid, dot[0], dot[1], ms, seq, recorded_ms, held_ms, seen_own, vector)


def others_in(vector: Vector, region_id: int, known: Optional[Vector]) -> Vector:
    """The vector without this region; `known` itself if it is equal."""
    if known is not None and _are_others(known, vector, region_id):
        return known
    others = vector.copy()
    others.pop(region_id, None)
    return others


def _are_others(known: Vector, vector: Vector, region_id: int) -> bool:
    own = 1 if region_id in vector else 0
    return len(vector) - own == len(known) and all(
        vector.get(other, -1) == known[other] for other in known
    )


def is_conflict(one: Pair, other: Pair, duration_ms: int) -> bool:
    """Whether two adds of one pair are a conflict (S9.2).

    Neither adder had seen the other add, and the two were recorded at most the duration apart.
    """
    return (
        (one.region_id != other.region_id or one.counter != other.counter)
        and not one.has_seen(other)
        and not other.has_seen(one)
        and abs(one.recorded_ms - other.recorded_ms) <= duration_ms
    )
