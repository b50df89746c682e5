"""Sets of counters of region logs, as spans."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from anabranch.crdt.spans import UNKNOWN_ID, Spans, SpansByRegion
from anabranch.crdt.vector import Dot

Span = tuple[int, int, int]
"""(region_id, from, to): the counters above `from`, up to `to`."""


def triples_of(spans: Iterable[Any]) -> list[Span]:
    """Spans, in their order."""
    return [(int(region_id), int(low), int(high)) for region_id, low, high in spans]


def holds(spans: SpansByRegion, dot: Dot) -> bool:
    """Whether spans hold the counter of a dot."""
    mine = spans.get(dot[0])
    return mine is not None and mine.contains(dot[1])


def spans_of(triples: Iterable[Any]) -> SpansByRegion:
    """Spans as sets of counters."""
    found: SpansByRegion = {}
    for region_id, low, high in triples_of(triples):
        found.setdefault(region_id, Spans()).add(low, high, UNKNOWN_ID)
    return found


def spans_with(dots: Iterable[Dot]) -> SpansByRegion:
    """Spans that hold these dots and no others."""
    return spans_of((region_id, counter - 1, counter) for region_id, counter in dots)


def minus(spans: SpansByRegion, other: SpansByRegion) -> SpansByRegion:
    """The counters of `spans` that `other` lacks."""
    empty = Spans()
    left = {one: mine.minus(other.get(one, empty)) for one, mine in spans.items()}
    return {one: mine for one, mine in left.items() if mine}


def union(*parts: SpansByRegion) -> SpansByRegion:
    """The counters of all parts."""
    found: SpansByRegion = {}
    for part in parts:
        for region_id, spans in part.items():
            found.setdefault(region_id, Spans()).union(spans)
    return found
