"""Asks the regions: vectors, effects that one disk alone has, groups, and ranges of region logs.

Only the questions are here; the caller carries them (`Ask`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Optional, Union

from anabranch.answers import vector_of
from anabranch.crdt.spans import SpansByRegion
from anabranch.crdt.vector import Dot, Vector
from anabranch.study.replies.events import KeyEvent, event_of
from anabranch.study.replies.groups import KeyGroups
from anabranch.study.replies.histories import KeyHistory
from anabranch.study.replies.parts import fields_of, id_of, raw
from anabranch.study.replies.spans import minus, spans_of, union
from anabranch.study.whatif.delivered import ToldDeliveries
from anabranch.study.whatif.survey import NO_END, KeySurvey, Survey, joined
from anabranch.study.whatif.survivors import KeyInRegion

Words = tuple[Union[bytes, str, int], ...]
Ask = Callable[[int, Sequence[Words]], list[Any]]
"""(region_id, commands) → the reply of each; maps are dicts. An error reply is raised."""
Progress = Callable[[int, int], None]
"""(keys looked at, keys in all)"""

_KEYS_AT_ONCE: Final = 100
_PAGE: Final = 10_000
# With more spans than this, the range from the first to the last is asked for.
_SPANS_MAX: Final = 16


@dataclass(frozen=True)
class Bounds:
    """The most that is read: keys, lost effects, and entries of each region log of a key."""

    keys: int = 10_000
    effects: int = 100_000
    entries: int = 100_000


def survey(
    ask: Ask,
    lost: int,
    is_lost_answering: bool,
    others: Sequence[int],
    bounds: Bounds,
    progress: Progress = lambda done, total: None,
) -> Survey:
    """Asks what only the region `lost` has, and what the `others` hold of the keys concerned.

    Args:
        ask: Carries commands to a region.
        lost: The region_id in question.
        is_lost_answering: Whether that region answers.
        others: The region_ids of the other regions that answer.
        bounds: The most that is read.
        progress: Receives how many keys have been looked at.
    """
    vectors = {one: vector_of(ask(one, [("CRDT.VECTOR",)])[0]) for one in others}
    lost_vector = vector_of(ask(lost, [("CRDT.VECTOR",)])[0]) if is_lost_answering else None
    found = Survey(lost, lost_vector, vectors)
    answering = [*others, *([lost] if is_lost_answering else [])]
    found.known.update(_known(ask, answering))
    if lost_vector is None:
        found.known.setdefault(lost, {})
    found.raise_known()
    if lost_vector is not None:
        _Asker(ask, found, bounds).look(progress)
    return found


def _known(ask: Ask, answering: Sequence[int]) -> dict[int, Vector]:
    """What those that answer know that the others have on their disks."""
    known: dict[int, list[Vector]] = {}
    for one in answering:
        for reply in ask(one, [("CRDT.PEERS",)])[0]:
            peer = fields_of(reply)
            region_id = int(peer["region_id"])
            if region_id not in answering and not int(peer["lost"]):
                known.setdefault(region_id, []).append(vector_of(peer["acknowledged"]))
    return {region_id: joined(vectors) for region_id, vectors in sorted(known.items())}


class _Asker:
    """Asks the region in question and the others about effects and keys."""

    def __init__(self, ask: Ask, survey: Survey, bounds: Bounds) -> None:
        assert survey.lost_vector is not None
        self._ask: Final = ask
        self._survey: Final = survey
        self._bounds: Final = bounds
        self._vector: Final[Vector] = survey.lost_vector
        self._by_key: Final[dict[Optional[bytes], list[KeyEvent]]] = {}

    def look(self, progress: Progress) -> None:
        """Fills the survey."""
        survey = self._survey
        for origin, (base, top) in survey.ahead().items():
            self._read_effects(origin, base, top)
        for effect in survey.effects:
            self._by_key.setdefault(effect.key, []).append(effect)
        survey.keys_total = int(self._ask(survey.lost, [("DBSIZE",)])[0])
        keys = self._scan(survey.lost)
        if None in self._by_key or survey.unread:
            for one in survey.vectors:
                keys |= self._scan(one)
        ordered = sorted(keys | {key for key in self._by_key if key is not None})
        for start in range(0, len(ordered), _KEYS_AT_ONCE):
            progress(start, len(ordered))
            self._look_at(ordered[start : start + _KEYS_AT_ONCE])
        progress(len(ordered), len(ordered))
        survey.keys_asked = len(ordered)

    def _read_effects(self, origin: int, base: int, top: int) -> None:
        survey = self._survey
        after: Optional[int] = base
        first = base
        read = base
        while after is not None and len(survey.effects) < self._bounds.effects:
            count = min(_PAGE, self._bounds.effects - len(survey.effects))
            command = ("CRDT.EFFECTS", origin, after, "COUNT", count, "NOFIELDS")
            reply = fields_of(self._ask(survey.lost, [command])[0])
            first = max(first, vector_of(reply["log-floor"]).get(origin, 0))
            found = [event_of(event) for event in reply["events"]]
            survey.effects.extend(found)
            read = max([read, *(effect.dot[1] for effect in found)])
            after = None if reply["next"] is None else int(reply["next"])
        if first > base:
            survey.unread[origin] = (base, min(first, top))
        elif after is not None and read < top:
            survey.unread[origin] = (read, top)

    def _scan(self, region: int) -> set[bytes]:
        """The keys of a region, up to the bound."""
        found: set[bytes] = set()
        cursor: Any = 0
        while len(found) < self._bounds.keys:
            cursor, keys = self._ask(region, [("SCAN", cursor, "COUNT", 1000)])[0]
            found.update(raw(key) for key in keys)
            if int(cursor) == 0:
                break
        return set(sorted(found)[: self._bounds.keys])

    # -- keys

    def _look_at(self, keys: list[bytes]) -> None:
        survey = self._survey
        own = self._groups(survey.lost, keys)
        flushes = self._by_key.get(None, [])
        wanted = [
            key
            for key in keys
            if own[key].groups or self._by_key.get(key) or flushes or survey.unread
        ]
        others = {one: self._groups(one, wanted) for one in survey.vectors}
        found = [
            KeySurvey(
                key,
                [*self._by_key.get(key, []), *flushes],
                own[key],
                {one: keys[key] for one, keys in others.items()},
                survey.vectors,
            )
            for key in wanted
        ]
        for one in found:
            self._ask_delivered(one)
        self._read_logs(survey.lost, [(one, self._wanted_of_lost(one)) for one in found])
        for region in survey.vectors:
            self._read_logs(region, [(one, self._wanted_of_others(one)) for one in found])
        survey.keys.extend(found)

    def _groups(self, region: int, keys: list[bytes]) -> dict[bytes, KeyInRegion]:
        commands: list[Words] = [("CRDT.GROUPS", key, "COUNT", 0) for key in keys]
        replies = self._ask(region, commands) if keys else []
        groups = [KeyInRegion(KeyGroups(reply).groups) for reply in replies]
        return dict(zip(keys, groups, strict=True))

    def _ask_delivered(self, key: KeySurvey) -> None:
        """Finds what was delivered under groups that the region has destroyed since."""
        destroyed = key.destroyed_groups(self._vector)
        found: list[ToldDeliveries] = []
        after = 0
        while destroyed:
            command: Words = ("CRDT.HISTORY", key.key, "AFTER", after, "COUNT", _PAGE)
            history = KeyHistory(self._ask(self._survey.lost, [command])[0])
            found = found or [
                ToldDeliveries(name, creates, history.floor) for name, creates in destroyed.items()
            ]
            for event in history.events:
                for one in found:
                    one.take(event)
            after = history.next
            if not after:
                break
        for one in found:
            key.delivered[one.name] = one.dots

    def _wanted_of_others(self, key: KeySurvey) -> SpansByRegion:
        """The counters whose entries matter in the other regions."""
        parts = [key.removed()]
        for name, group in key.lost.groups.items():
            parts += [
                minus(group.handed_out(), key.survivors.given(region, name))
                for region in key.others
            ]
        parts += [_hull(dots) for dots in key.delivered.values()]
        return union(*parts)

    def _wanted_of_lost(self, key: KeySurvey) -> SpansByRegion:
        """The counters whose entries matter in the region in question."""
        has_adds = self._survey.unread or any(effect.kind == "add" for effect in key.effects)
        parts = [self._wanted_of_others(key)]
        if has_adds:
            parts.append(self._survey.only_there())
        parts += [key.unheard(name) for name in key.lost.groups]
        return union(*parts)

    def _read_logs(self, region: int, wanted: list[tuple[KeySurvey, SpansByRegion]]) -> None:
        """Reads the entries in the wanted ranges, a page of each at a time."""
        ranges = [
            (key, origin, low, high)
            for key, spans in wanted
            for origin, its in spans.items()
            for low, high in _ranges(list(zip(its.starts, its.ends, strict=True)))
        ]
        lost = self._survey.lost
        while ranges:
            commands: list[Words] = [
                (
                    *("CRDT.LOG", key.key, origin, "COUNTERS", low, min(high, NO_END)),
                    *("COUNT", _PAGE, "NOFIELDS"),
                )
                for key, origin, low, high in ranges
            ]
            rest: list[tuple[KeySurvey, int, int, int]] = []
            for (key, origin, _, high), reply in zip(
                ranges, self._ask(region, commands), strict=True
            ):
                there = key.lost if region == lost else key.others[region]
                last = 0
                for entry in map(fields_of, reply):
                    last = int(entry["counter"])
                    there.entries[origin, last] = id_of(entry["id"])
                if len(reply) == _PAGE and len(there.entries) >= self._bounds.entries:
                    key.is_cut = True
                elif len(reply) == _PAGE:
                    rest.append((key, origin, last, high))
            ranges = rest


def _hull(dots: Iterable[Dot]) -> SpansByRegion:
    """For each region log, the range from its lowest to its highest counter among `dots`."""
    by_region: dict[int, list[int]] = {}
    for region_id, counter in dots:
        by_region.setdefault(region_id, []).append(counter)
    return spans_of((one, min(its) - 1, max(its)) for one, its in by_region.items())


def _ranges(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The spans, or one range around all of them if there are many."""
    if len(spans) <= _SPANS_MAX:
        return spans
    return [(spans[0][0], spans[-1][1])]
