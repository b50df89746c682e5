"""Entries as a list, the logical stream as a sorted list, spans as sets (S1, S5.2, S7.1, S12)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

Dot = tuple[int, int]
Fields = tuple[bytes, ...]


@dataclass(frozen=True)
class NaiveEntry:
    """One entry. Its dot is (region_id, counter)."""

    entry_id: int
    region_id: int
    counter: int
    fields: Fields


class NaiveLog:
    """A region log: a list that ascends by ID and counter."""

    def __init__(self, region_id: int) -> None:
        self.region_id = region_id
        self.entries: list[NaiveEntry] = []

    def append(self, entry_id: int, counter: int, fields: Fields) -> None:
        self.entries.append(NaiveEntry(entry_id, self.region_id, counter, fields))

    def remove(self, counter: int) -> int:
        """Removes one entry. Returns its ID, -1 if it is not present."""
        for entry in self.entries:
            if entry.counter == counter:
                self.entries.remove(entry)
                return entry.entry_id
        return -1

    def remove_prefix(self, counter: int) -> tuple[int, int]:
        """Removes the entries up to `counter`. Returns their number and highest ID, -1 if none."""
        gone = [entry for entry in self.entries if entry.counter <= counter]
        self.entries = [entry for entry in self.entries if entry.counter > counter]
        return len(gone), max((entry.entry_id for entry in gone), default=-1)

    def last_counter_not_above(self, entry_id: int) -> int:
        """The counter of the last entry whose ID is not above `entry_id`, 0 if none."""
        return max(
            (entry.counter for entry in self.entries if entry.entry_id <= entry_id), default=0
        )

    def last_counter_up_to(self, counter: int) -> int:
        """The counter of the last entry up to `counter`, 0 if none."""
        return max((entry.counter for entry in self.entries if entry.counter <= counter), default=0)


def logical(entries: Iterable[NaiveEntry]) -> list[NaiveEntry]:
    """The logical stream: all entries by (ID, region_id)."""
    return sorted(entries, key=lambda entry: (entry.entry_id, entry.region_id))


def page(ordered: list[NaiveEntry], count: int) -> list[NaiveEntry]:
    """The first `count` entries, and all further entries with the ID of the last one (S7.1).

    A negative `count` means all entries.
    """
    if count < 0 or count >= len(ordered):
        return ordered
    taken = ordered[:count]
    return taken + [
        entry for entry in ordered[count:] if taken and entry.entry_id == taken[-1].entry_id
    ]


def prefix_of(entries: Iterable[NaiveEntry]) -> dict[int, int]:
    """The prefix that a trim of these entries replicates: region_id → highest counter (S5.2)."""
    prefix: dict[int, int] = {}
    for entry in entries:
        prefix[entry.region_id] = max(prefix.get(entry.region_id, 0), entry.counter)
    return prefix


def trim_to_length(entries: Iterable[NaiveEntry], length_max: int) -> dict[int, int]:
    """The prefix of an exact MAXLEN trim, decided on the logical stream."""
    ordered = logical(entries)
    return prefix_of(ordered[: max(0, len(ordered) - length_max)])


def trim_below_id(entries: Iterable[NaiveEntry], entry_id: int) -> dict[int, int]:
    """The prefix of an exact MINID trim."""
    return prefix_of(entry for entry in entries if entry.entry_id < entry_id)


def spans_of(counters: set[int]) -> list[tuple[int, int]]:
    """A set of counters as disjoint, non-adjacent spans `(from, to]`, in ascending order."""
    spans: list[tuple[int, int]] = []
    for counter in sorted(counters):
        if spans and spans[-1][1] == counter - 1:
            spans[-1] = (spans[-1][0], counter)
        else:
            spans.append((counter - 1, counter))
    return spans


def counters_of(spans: Iterable[tuple[int, int]]) -> set[int]:
    """The set of counters in these spans."""
    return {counter for start, end in spans for counter in range(start + 1, end + 1)}
