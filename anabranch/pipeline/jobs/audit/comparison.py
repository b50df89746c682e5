"""Compares the state of a stream beside its entries (`KeyState`) between regions.

Theory of operation
-------------------
All of the state is observed-remove or delete-wins, so an element that a region has removed never
comes back under the same dot, and acked spans only grow while their create is live.

Each region is looked at twice. Between the looks every region applies all that any region had
applied at its first look. Let B lack an element at its first look whose dot its vector covered
then: B has applied an effect that removed it. A, at its second look, has applied that effect, too.
If A still has the element then, the two have diverged. Likewise, spans that A has at its first look
must be in B at its second. Both looks tell the vector of the same step of the region. So clients
that go on writing cause no false difference.

The functions here are pure; `task` asks the regions.
"""

from __future__ import annotations

from typing import Final

from anabranch.crdt.vector import Dot, Vector, covers, includes
from anabranch.pipeline.jobs.audit.differences import (
    DAMAGED,
    LOST,
    NOT_RECEIVED,
    REMOVAL_NOT_RECEIVED,
    STANDS,
    Difference,
)
from anabranch.pipeline.jobs.key_state import (
    ACKED,
    GROUP,
    HEADER,
    Key,
    KeyState,
    Removal,
    SpanKey,
    Spans,
)
from anabranch.pipeline.jobs.report import listed

_SPANS_SHOWN: Final = 5


def minus(spans: Spans, others: Spans) -> list[tuple[int, int]]:
    """The parts of `spans` that `others` lack, as (from, to], ascending."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(spans):
        for start, end in sorted(others):
            if end <= first or start >= last:
                continue
            if start > first:
                found.append((first, start))
            first = max(first, end)
        if first < last:
            found.append((first, last))
    return found


class Comparison:
    """Compares two looks at the same key in several regions.

    `first` and `second` hold the state by the name of the region, `target` the vector up to which
    elements are compared, and `names` the names of regions by their region_id.
    """

    def __init__(
        self,
        stream: str,
        first: dict[str, KeyState],
        second: dict[str, KeyState],
        target: Vector,
        names: dict[int, str],
    ) -> None:
        self._stream: Final = stream
        self._first: Final = first
        self._second: Final = second
        self._target: Final = target
        self._names: Final = names

    def differences(self) -> list[Difference]:
        """All differences that the two looks prove, sorted."""
        keys = {key for state in self._second.values() for key in state.elements}
        found = [
            one for key in sorted(keys) if covers(self._target, *key[2]) for one in self._of(key)
        ]
        spans = {key for state in self._first.values() for key in state.spans}
        return found + [one for span in sorted(spans) for one in self._of_spans(span)]

    def _of(self, key: Key) -> list[Difference]:
        """The differences in one element."""
        part = key[0]
        has = [region for region, state in self._second.items() if key in state.elements]
        values = {region: self._second[region].elements[key] for region in has}
        if len(set(values.values())) > 1:
            told = "; ".join(f"{region}: {value}" for region, value in values.items())
            detail = f"{part} with different values: {told}"
            first = values[has[0]]
            others = [region for region in has if values[region] != first]
            same = [region for region in has if values[region] == first]
            return [self._difference(key, DAMAGED, same, others, detail)]
        causes: dict[tuple[str, tuple[str, ...]], list[str]] = {}
        for region in self._second:
            if region in has or key in self._first[region].elements:
                continue
            if part == HEADER and self._has_newer_head(region, key[2]):
                continue
            judged = self._judged(key, has, region)
            if judged is not None:
                causes.setdefault(judged, []).append(region)
        found = []
        for (cause, holders), lacks in causes.items():
            removal = removal_of(self._second, [*lacks, *holders], key) if cause == STANDS else None
            detail = reason(cause, list(holders), lacks, removal, self._names)
            found.append(self._difference(key, cause, list(holders), lacks, detail))
        return found

    def _has_newer_head(self, region: str, dot: Dot) -> bool:
        """Whether a newer head of the same origin, which is compared itself, took its place."""
        return any(
            part == HEADER and other[0] == dot[0] and other[1] > dot[1]
            for part, _, other in self._second[region].elements
            if covers(self._target, *other)
        )

    def _judged(self, key: Key, has: list[str], lacks: str) -> tuple[str, tuple[str, ...]] | None:
        """The cause, and the regions that it concerns, if one region lacks an element."""
        before, dot = self._first[lacks].vector, key[2]
        if not covers(before, *dot):
            received = covers(self._second[lacks].vector, *dot)
            return None if received else (NOT_RECEIVED, tuple(has))
        level = [one for one in has if includes(self._second[one].vector, before)]
        if not level:
            return REMOVAL_NOT_RECEIVED, tuple(has)
        return (STANDS if removal_of(self._second, [lacks, *level], key) else LOST), tuple(level)

    def _of_spans(self, key: SpanKey) -> list[Difference]:
        """The differences in the acked spans of one create for one region log."""
        name, dot, region_id = key
        live = [one for one, state in self._second.items() if (GROUP, name, dot) in state.elements]
        found: dict[tuple[str, tuple[tuple[int, int], ...]], tuple[list[str], list[str]]] = {}
        for lacks in live:
            theirs = self._second[lacks].spans.get(key, frozenset())
            for has in self._first:
                missing = tuple(minus(self._first[has].spans.get(key, frozenset()), theirs))
                if not missing or has == lacks:
                    continue
                level = includes(self._second[lacks].vector, self._first[has].vector)
                cause = LOST if level else NOT_RECEIVED
                holders, lacking = found.setdefault((cause, missing), ([], []))
                for regions, region in ((holders, has), (lacking, lacks)):
                    if region not in regions:
                        regions.append(region)
        log = self._names.get(region_id, str(region_id))
        return [
            Difference(
                self._stream,
                ACKED,
                name,
                log,
                missing[0][1],
                "",
                cause,
                ",".join(holders),
                ",".join(lacking),
                f"acknowledged in the log of {log}: {_spans(missing)}; "
                + reason(cause, holders, lacking, None, self._names),
            )
            for (cause, missing), (holders, lacking) in found.items()
        ]

    def _difference(
        self, key: Key, cause: str, has: list[str], lacks: list[str], detail: str
    ) -> Difference:
        part, name, (region_id, counter) = key
        region = self._names.get(region_id, str(region_id))
        entry_id = self._second[has[0]].elements[key] if part == HEADER else ""
        return Difference(
            self._stream,
            part,
            name,
            region,
            counter,
            entry_id,
            cause,
            ",".join(has),
            ",".join(lacks),
            detail,
        )


def removal_of(states: dict[str, KeyState], regions: list[str], key: Key) -> Removal | None:
    """The newest removal of an element that the log of one of the regions holds."""
    for region in regions:
        for removal in reversed(states[region].removals):
            if removal.takes(*key):
                return removal
    return None


def _spans(spans: tuple[tuple[int, int], ...]) -> str:
    texts = [f"({first}, {last}]" for first, last in spans[:_SPANS_SHOWN]]
    if len(spans) > _SPANS_SHOWN:
        texts.append(f"and {len(spans) - _SPANS_SHOWN} more")
    return ", ".join(texts)


def reason(
    cause: str, has: list[str], lacks: list[str], removal: Removal | None, names: dict[int, str]
) -> str:
    """The sentence for a cause; `removal` is the one that a log holds, if any."""
    some, others = listed(has), listed(lacks)
    verb = "has" if len(lacks) == 1 else "have"
    if cause == NOT_RECEIVED:
        return f"{others} {verb} not received it yet"
    if cause == REMOVAL_NOT_RECEIVED:
        return f"{others} {verb} removed it; {some} did not receive all effects of {others} in time"
    if cause == STANDS and removal is not None:
        effect = f"effect {removal.dot[1]} of {names.get(removal.dot[0], removal.dot[0])}"
        return (
            f"it still stands in {some}, although {some} and {others} have applied its removal "
            f"({removal.name}, {effect})"
        )
    return f"{others} {verb} lost it: {some} and {others} have applied the same effects"
