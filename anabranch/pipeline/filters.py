"""Filters that Spark pushes down: ranges that cannot hold a wanted entry are not read.

Spark evaluates every filter again, so a filter that is not understood here is simply left to it.
Comparisons of `id` other than equality are left, too: Spark compares IDs as texts.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final, Optional

from anabranch.crdt import ids
from anabranch.pipeline.offsets import Range
from anabranch.pipeline.regions import Regions
from anabranch.pipeline.resp import printable

_MS_MAX: Final = (1 << 64) - 1


class Bounds:
    """What the filters leave. Bounds are inclusive; None means that there is no bound."""

    def __init__(self) -> None:
        self.streams: Optional[set[Any]] = None
        self.regions: Optional[set[Any]] = None
        self.counter_min = 0
        self.counter_max: Optional[int] = None
        # Milliseconds of entry IDs.
        self.ms_min = 0
        self.ms_max: Optional[int] = None

    def take(self, filter: Any) -> None:
        """Notes one of Spark's filters (`pyspark.sql.datasource.Filter`)."""
        kind = type(filter).__name__
        column: tuple[str, ...] = getattr(filter, "attribute", ())
        value = getattr(filter, "value", None)
        if len(column) != 1 or value is None:
            return
        name = column[0]
        if kind in ("EqualTo", "EqualNullSafe", "In"):
            values = list(value) if kind == "In" else [value]
            self._one_of(name, [one for one in values if one is not None])
        elif kind in ("GreaterThan", "GreaterThanOrEqual"):
            self._at_least(name, value)
        elif kind in ("LessThan", "LessThanOrEqual"):
            self._at_most(name, value)

    def _one_of(self, name: str, values: list[Any]) -> None:
        if name == "stream":
            self.streams = set(values) & (self.streams if self.streams is not None else set(values))
        elif name == "region":
            self.regions = set(values) & (self.regions if self.regions is not None else set(values))
        elif values and name == "id":
            found = [_ms_of_id(value) for value in values]
            self._at_least_ms(min(found))
            self._at_most_ms(max(found))
        elif values and name in ("counter", "ts"):
            self._at_least(name, min(values))
            self._at_most(name, max(values))

    def _at_least(self, name: str, value: Any) -> None:
        if name == "counter":
            self.counter_min = max(self.counter_min, int(value))
        elif name == "ts" and (ms := _ms_of_time(value)) is not None:
            self._at_least_ms(ms)

    def _at_most(self, name: str, value: Any) -> None:
        if name == "counter":
            # Rounded up, since a literal may have a fraction.
            self.counter_max = _lower(self.counter_max, int(value) + 1)
        elif name == "ts" and (ms := _ms_of_time(value)) is not None:
            self._at_most_ms(ms)

    def _at_least_ms(self, ms: int) -> None:
        self.ms_min = max(self.ms_min, ms)

    def _at_most_ms(self, ms: int) -> None:
        self.ms_max = _lower(self.ms_max, ms)

    def narrowed(self, wanted: list[Range], regions: Regions) -> list[Range]:
        """The parts of the ranges in which a wanted entry may lie."""
        found: list[Range] = []
        for one in wanted:
            if self.streams is not None and printable(one.stream) not in self.streams:
                continue
            if self.regions is not None and printable(one.region) not in self.regions:
                continue
            after, end = max(one.after, self.counter_min - 1), one.end
            if self.counter_max is not None:
                end = min(end, self.counter_max)
            if after < end:
                after, end = self._by_time(one, after, end, regions)
            if after < end:
                found.append(one.part(after, end))
        return found

    def _by_time(self, one: Range, after: int, end: int, regions: Regions) -> tuple[int, int]:
        """Narrows (after, end] by ID: in a region log, IDs and counters ascend together."""
        if self.ms_min == 0 and self.ms_max is None:
            return after, end
        logs = regions.logs(one.stream) or []
        if not any(facts.region == one.region and facts.applied >= end for facts in logs):
            # The region that answers cannot tell yet where the times lie.
            return after, end
        if self.ms_min > 0:
            before = regions.counter_before(
                one.stream, one.region, f"{min(self.ms_min, _MS_MAX)}-0"
            )
            after = end if before is None else max(after, before)
        if self.ms_max is not None and self.ms_max < _MS_MAX:
            before = regions.counter_before(one.stream, one.region, f"{self.ms_max + 1}-0")
            end = end if before is None else min(end, before)
        return after, end


def _lower(one: Optional[int], other: int) -> int:
    return other if one is None else min(one, other)


def _ms_of_id(text: Any) -> int:
    """The ms of an ID; 0 if the text is no ID, which no entry has."""
    try:
        return ids.parse(str(text).encode(), 0) >> 64
    except ids.IdError:
        return 0


def _ms_of_time(value: Any) -> Optional[int]:
    """The millisecond in which a time lies, not below 0; None if the value is no time with zone."""
    if not isinstance(value, datetime) or value.tzinfo is None:
        return None
    since = value - datetime(1970, 1, 1, tzinfo=UTC)
    return max((since.days * 86_400 + since.seconds) * 1000 + since.microseconds // 1000, 0)
