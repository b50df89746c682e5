"""An answer as JSON: the only place that knows the names of its fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from anabranch.crdt import ids
from anabranch.crdt.vector import covers
from anabranch.escapes import shown
from anabranch.study.replies.events import KeyEvent
from anabranch.study.whatif.answer import Answer
from anabranch.study.whatif.deliveries import Deliveries, Repeated
from anabranch.study.whatif.losses import Losses
from anabranch.study.whatif.survivors import Entries

JsonObject = dict[str, Any]


def as_json(answer: Answer) -> JsonObject:
    """All facts, as JSON has them."""
    survey, names = answer.survey, answer.names
    writer = _Writer(answer)
    return {
        "region": names[survey.lost],
        "answers": survey.lost_vector is not None,
        "regions": dict(sorted(names.items())),
        "fail_over_to": [names[one] for one in answer.targets],
        "silent": answer.silent,
        "vector": survey.vector_of_lost(),
        "others": {names[one]: vector for one, vector in survey.vectors.items()},
        "known": {names[one]: vector for one, vector in survey.known.items()},
        "only_there": writer.ranges(survey.ahead()),
        "unread": writer.ranges(survey.unread),
        "keys_total": survey.keys_total,
        "keys_asked": survey.keys_asked,
        "keys_cut": [shown(key.key) for key in survey.keys if key.is_cut],
        "totals": asdict(answer.totals),
        "keys": [writer.losses(one) for one in answer.losses],
        "groups": [writer.deliveries(one) for one in answer.deliveries],
    }


class _Writer:
    """Writes the parts, with region names and bounded lists."""

    def __init__(self, answer: Answer) -> None:
        self._known = answer.survey.known
        self._names = answer.names
        self._listed = answer.listed

    def ranges(self, ranges: Mapping[int, tuple[int, int]]) -> list[JsonObject]:
        return [
            {"origin": self._names[origin], "from": low + 1, "to": high}
            for origin, (low, high) in sorted(ranges.items())
        ]

    def _entries(self, entries: Entries) -> JsonObject:
        first = list(entries.items())[: self._listed]
        return {
            "count": len(entries),
            "listed": [
                {"id": ids.format_id(entry_id).decode(), "dot": dot} for dot, entry_id in first
            ],
        }

    def _effects(self, effects: list[KeyEvent]) -> JsonObject:
        last = effects[-self._listed :]
        return {"count": len(effects), "listed": [_effect(effect) for effect in last]}

    def losses(self, losses: Losses) -> JsonObject:
        entries = self._entries(losses.entries)
        # A region that does not answer may be known to hold some of them.
        entries["also_in"] = {
            self._names[one]: count
            for one, vector in self._known.items()
            if (count := sum(covers(vector, *dot) for dot in losses.entries))
        }
        pairs = [list(map(shown, pair)) for pair in losses.pairs[: self._listed]]
        return {
            "key": shown(losses.key),
            "entries": entries,
            "removals": self._effects(losses.removals),
            "returning": self._entries(losses.returning),
            "groups_created": list(map(shown, losses.groups_created)),
            "groups_destroyed": list(map(shown, losses.groups_destroyed)),
            "deadlines": self._effects(losses.deadlines),
            "windows": self._effects(losses.windows),
            "last_ids": self._effects(losses.last_ids),
            "pairs": {"count": len(losses.pairs), "listed": pairs},
        }

    def deliveries(self, one: Deliveries) -> JsonObject:
        return {
            "key": shown(one.key),
            "group": shown(one.group),
            "pending": one.pending,
            "consumers": [[shown(name), count] for name, count in one.consumers],
            "acknowledged": {**self._entries(one.acknowledged), "unannounced": one.unannounced},
            "again": {self._names[to.region]: self._repeated(to) for to in one.repeated},
        }

    def _repeated(self, repeated: Repeated) -> JsonObject:
        return {
            **self._entries(repeated.entries),
            "has_group": repeated.has_group,
            "states": repeated.counts(),
        }


def _effect(effect: KeyEvent) -> JsonObject:
    facts: JsonObject = {"command": effect.command, "kind": effect.kind, "effect": effect.dot}
    if effect.kind == "set-deadline":
        facts["at_ms"] = "never" if effect.at_ms is None else effect.at_ms
    if effect.kind == "configure":
        facts |= {"duration_s": effect.duration_s, "maxsize": effect.maxsize}
    return facts if effect.id is None else {**facts, "id": effect.id}
