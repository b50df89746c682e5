"""The facts of `anabranch whatif region-lost`, as values that JSON can hold once names are text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from anabranch.crdt import ids
from anabranch.crdt.vector import covers
from anabranch.study.whatif.deliveries import Deliveries, Repeated, deliveries_of
from anabranch.study.whatif.losses import Losses, losses_of
from anabranch.study.whatif.survey import Survey
from anabranch.study.whatif.telling import Effect, Entries, word

Facts = dict[str, Any]


def answer(survey: Survey, targets: Sequence[int], names: Mapping[int, str], listed: int) -> Facts:
    """All facts. Names of keys, groups, consumers and pairs are bytes.

    Args:
        survey: The answers of the regions.
        targets: The region_ids to which clients may fail over.
        names: region_id → name of every region.
        listed: The most IDs that each list holds.
    """
    writer = _Writer(survey, names, listed)
    losses = [losses_of(survey, key) for key in survey.keys]
    deliveries = [one for key in survey.keys for one in deliveries_of(key, list(targets))]
    return {
        "region": names[survey.lost],
        "answers": survey.lost_vector is not None,
        "regions": {str(one): name for one, name in sorted(names.items())},
        "fail_over_to": [names[one] for one in targets],
        "silent": [names[one] for one in survey.known if one != survey.lost],
        "vector": survey.lost_vector or survey.known.get(survey.lost, {}),
        "others": {names[one]: vector for one, vector in survey.vectors.items()},
        "known": {names[one]: vector for one, vector in survey.known.items()},
        "only_there": writer.ranges(survey.ahead()),
        "unread": writer.ranges(survey.unread),
        "keys_total": survey.keys_total,
        "keys_asked": survey.keys_asked,
        "keys_cut": [key.key for key in survey.keys if key.is_cut],
        "totals": _totals(losses, deliveries, targets, names),
        "keys": [writer.losses(one) for one in losses if one.is_any()],
        "groups": [writer.deliveries(one) for one in deliveries if one.is_any()],
    }


def _totals(
    losses: list[Losses],
    deliveries: list[Deliveries],
    targets: Sequence[int],
    names: Mapping[int, str],
) -> Facts:
    counts = ("entries", "returning", "groups_created", "groups_destroyed", "pairs")
    effects = ("removals", "deadlines", "windows", "last_ids")
    return {
        "keys_with_entries": sum(bool(one.entries) for one in losses),
        **{name: sum(len(getattr(one, name)) for one in losses) for name in counts},
        # An effect on every key, FLUSHALL, is in the list of each key.
        **{
            name: len({effect.dot for one in losses for effect in getattr(one, name)})
            for name in effects
        },
        "pending": sum(one.pending for one in deliveries),
        "acknowledged": sum(len(one.acknowledged) for one in deliveries),
        "again": {
            names[target]: sum(
                len(repeated.entries)
                for one in deliveries
                for repeated in one.repeated
                if repeated.region == target
            )
            for target in targets
        },
    }


class _Writer:
    """Writes the parts, with region names and bounded lists."""

    def __init__(self, survey: Survey, names: Mapping[int, str], listed: int) -> None:
        self._survey = survey
        self._names = names
        self._listed = listed

    def ranges(self, ranges: Mapping[int, tuple[int, int]]) -> list[Facts]:
        return [
            {"origin": self._names[origin], "from": low + 1, "to": high}
            for origin, (low, high) in sorted(ranges.items())
        ]

    def _entries(self, entries: Entries) -> Facts:
        shown = list(entries.items())[: self._listed]
        return {
            "count": len(entries),
            "listed": [
                {"id": ids.format_id(entry_id).decode(), "dot": list(dot)}
                for dot, entry_id in shown
            ],
        }

    def _effect(self, effect: Effect) -> Facts:
        facts: Facts = {"command": effect.command, "kind": effect.kind, "effect": list(effect.dot)}
        for name in ("at-ms", "duration-s", "maxsize", "id", "group"):
            if name in effect.facts:
                value = effect.facts[name]
                number = isinstance(value, int)
                facts[name.replace("-", "_")] = value if number else word(value)
        return facts

    def _effects(self, effects: list[Effect]) -> Facts:
        return {
            "count": len(effects),
            "listed": [self._effect(effect) for effect in effects[-self._listed :]],
        }

    def losses(self, losses: Losses) -> Facts:
        entries = self._entries(losses.entries)
        # A region that does not answer may be known to hold some of them.
        entries["also_in"] = {
            self._names[one]: count
            for one, vector in self._survey.known.items()
            if (count := sum(covers(vector, *dot) for dot in losses.entries))
        }
        return {
            "key": losses.key,
            "entries": entries,
            "removals": self._effects(losses.removals),
            "returning": self._entries(losses.returning),
            "groups_created": losses.groups_created,
            "groups_destroyed": losses.groups_destroyed,
            "deadlines": self._effects(losses.deadlines),
            "windows": self._effects(losses.windows),
            "last_ids": self._effects(losses.last_ids),
            "pairs": {
                "count": len(losses.pairs),
                "listed": [list(pair) for pair in losses.pairs[: self._listed]],
            },
        }

    def deliveries(self, one: Deliveries) -> Facts:
        return {
            "key": one.key,
            "group": one.group,
            "pending": one.pending,
            "consumers": [list(consumer) for consumer in one.consumers],
            "acknowledged": {**self._entries(one.acknowledged), "unannounced": one.unannounced},
            "again": {self._names[to.region]: self._repeated(to) for to in one.repeated},
        }

    def _repeated(self, repeated: Repeated) -> Facts:
        states = list(repeated.states.values())
        facts = self._entries(repeated.entries)
        facts["has_group"] = repeated.has_group
        facts["states"] = {state: states.count(state) for state in sorted(set(states))}
        return facts
