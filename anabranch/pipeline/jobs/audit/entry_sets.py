"""Which entries of a range of a region log differ between regions.

Theory of operation
-------------------
An entry has one dot and never changes, and a removed entry never comes back. So each region is read
once, after its vector `before` was asked for. Entries that all have, with one hash, are equal. If
a region lacks an entry that its `before` covers, it has applied a removal of it. Then the vectors
are asked for again (`after`), each region applies what all others had there, and the regions that
have the entry are read again. An entry that still stands in a region that has applied the `after`
of one that lacks it is a divergence. All else was a removal on its way.

The functions here are pure; `task` asks the regions.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left
from dataclasses import dataclass

from anabranch.crdt.vector import Vector, covers, includes
from anabranch.pipeline.entry_hashes import HASH_BYTES
from anabranch.pipeline.jobs.audit.differences import (
    DAMAGED,
    LOST,
    NOT_RECEIVED,
    REMOVAL_NOT_RECEIVED,
)


@dataclass(frozen=True)
class Reading:
    """What a region holds of a range: counters and hashes as `EntryHashes` gives them.

    `before` is the vector that the region had on disk before it was read.
    """

    counters: bytes
    hashes: bytes
    before: Vector

    def has_equal_entries(self, other: Reading) -> bool:
        """Whether both hold the same entries."""
        return self.counters == other.counters and self.hashes == other.hashes

    def __len__(self) -> int:
        return len(self.counters) // 8

    def contents(self) -> dict[int, bytes]:
        """The hash of each entry by its counter, ascending."""
        hashes = self.hashes
        return {
            counter: hashes[n * HASH_BYTES : (n + 1) * HASH_BYTES]
            for n, counter in enumerate(self.numbers())
        }

    def numbers(self) -> list[int]:
        """The counters, ascending."""
        found = array("q", self.counters)
        if sys.byteorder == "big":
            found.byteswap()
        return found.tolist()


@dataclass(frozen=True)
class Suspects:
    """What is to be looked at again: counters by the region that lacks them, and damaged ones."""

    lacking: dict[str, set[int]]
    damaged: set[int]

    def counters(self) -> set[int]:
        """All of them."""
        return self.damaged.union(*self.lacking.values())


def suspects(readings: dict[str, Reading]) -> Suspects:
    """The entries that are not the same in all regions."""
    contents = {region: reading.contents() for region, reading in readings.items()}
    every = set[int]().union(*contents.values())
    lacking = {region: every - present.keys() for region, present in contents.items()}
    damaged: set[int] = set()
    first: dict[int, bytes] = {}
    for present in contents.values():
        for counter, content in present.items():
            if first.setdefault(counter, content) != content:
                damaged.add(counter)
    return Suspects(lacking, damaged)


@dataclass(frozen=True)
class Finding:
    """A difference in one entry. LOST becomes STANDS if a removal of it is remembered."""

    counter: int
    cause: str
    has: tuple[str, ...]
    lacks: tuple[str, ...]


def findings(
    region_id: int,
    readings: dict[str, Reading],
    found: Suspects,
    still: dict[str, set[int]],
    after: dict[str, Vector],
    reached: dict[str, Vector],
) -> list[Finding]:
    """The differences that the second reading proves, by counter.

    Args:
        region_id: The region whose log it is.
        readings: The first reading, by region.
        found: What differed in it.
        still: The suspects that each region had at the second reading.
        after: The vector of each region after its first reading.
        reached: The vector of each region before its second reading.
    """
    made: list[Finding] = []
    for counter in sorted(found.counters()):
        if counter in found.damaged:
            made.append(_damaged(counter, readings))
            continue
        has = [region for region in readings if counter in still[region]]
        if not has:
            continue
        causes: dict[tuple[str, tuple[str, ...]], list[str]] = {}
        for lacks, counters in found.lacking.items():
            if counter not in counters:
                continue
            if not covers(readings[lacks].before, region_id, counter):
                if not covers(reached[lacks], region_id, counter):
                    causes.setdefault((NOT_RECEIVED, tuple(has)), []).append(lacks)
                continue
            level = tuple(one for one in has if includes(reached[one], after[lacks]))
            key = (LOST, level) if level else (REMOVAL_NOT_RECEIVED, tuple(has))
            causes.setdefault(key, []).append(lacks)
        made += [
            Finding(counter, cause, holders, tuple(lacks))
            for (cause, holders), lacks in causes.items()
        ]
    return made


def _damaged(counter: int, readings: dict[str, Reading]) -> Finding:
    """The finding for an entry with two contents: regions with the first, and the others."""
    contents: dict[str, bytes] = {}
    for region, reading in readings.items():
        numbers = reading.numbers()
        at = bisect_left(numbers, counter)
        if at < len(numbers) and numbers[at] == counter:
            contents[region] = reading.hashes[at * HASH_BYTES : (at + 1) * HASH_BYTES]
    first = next(iter(contents.values()))
    same = tuple(region for region, content in contents.items() if content == first)
    return Finding(counter, DAMAGED, same, tuple(one for one in contents if one not in same))
