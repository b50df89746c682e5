"""The steps of a key's history in the words of a drawing.

A point has the command in upper case, with what it did: the log holds effects, so an XADD is shown
with the ID that it got, and an XDEL with the IDs of the entries that it removed. An arrow has the
words of its effects, as in drawings of the simulator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from anabranch.answers import vector_of
from anabranch.crdt.vector import Dot, Vector
from anabranch.study.diagram import model
from anabranch.study.diagram.texts import cut, visible, word
from anabranch.study.history.events import REMOVALS, Event
from anabranch.study.history.steps import RENAMES, Step
from anabranch.study.history.wording import CONFLICT

TEXT_MAX: Final = 160
"""Characters of a point's text that are kept."""
LISTED_MAX: Final = 4
"""IDs that a text lists."""
BY_ITSELF: Final = "by itself: "

Name = Callable[[int], str]
"""region_id → name"""


def utc(at_ms: int) -> str:
    """A time as ``2026-11-23 14:05:09.250 UTC``, the same on every machine."""
    try:
        at = datetime.fromtimestamp(at_ms // 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{at_ms} ms"
    return f"{at:%Y-%m-%d %H:%M:%S}.{at_ms % 1000:03d} UTC"


def to_bytes(text: Any) -> bytes:
    """The bytes of a text in which surrogates stand for bytes that are not UTF-8."""
    return str(text).encode("utf-8", "surrogateescape")


def _word(text: Any) -> str:
    return word(to_bytes(text)[: 4 * TEXT_MAX])


def kind_of(event: Event) -> str:
    """The kind of an effect, as drawings have it."""
    if event.kind == "add":
        return model.ADD
    if event.kind == "create-group":
        return model.GROUP
    is_removal = event.kind in REMOVALS or event.kind == "destroy-group"
    return model.REMOVAL if is_removal else model.OTHER


class Phrases:
    """Words for effects and steps. `fates` are those of the entries that the logs tell."""

    def __init__(self, name: Name, fates: Mapping[Dot, model.Fate]) -> None:
        self._name: Final = name
        self._fates: Final = fates

    def of_effect(self, event: Event) -> str:
        """An effect in a few words; an add is the ID of its entry."""
        facts = event.facts
        if event.kind == "add":
            return str(facts["id"])
        if event.kind == "remove-entries":
            return f"removes {self._dots(event.dots)}"
        if event.kind == "trim":
            return f"trims up to {self._vector(event.had_seen)}"
        if event.kind in ("delete", "flush"):
            return f"removed by {event.command}" if "other-key" in facts else event.command
        if event.kind in ("create-group", "destroy-group"):
            verb = "creates" if event.kind == "create-group" else "destroys"
            return f"{verb} group {visible(facts['group'])}"
        if event.kind == "acknowledge":
            return f"acknowledged in {visible(facts['group'])}"
        return {
            "expire": "removes what expired",
            "remove-observed": "clears the key",
            "set-id": f"last ID {facts.get('id')}",
            "set-deadline": "no deadline" if facts.get("at-ms") == "never" else "deadline",
        }.get(event.kind, "configuration")

    def of_step(self, step: Step) -> tuple[str, str]:
        """The kind and the text of the point of an issue, a record or a snapshot."""
        first = step.first
        if step.is_snapshot:
            holds = self._vector(vector_of(first.facts["vector"])) or "nothing"
            text = f"joins a snapshot of {self._name(step.source)}, which holds {holds}"
            return model.LOGGED, text
        if first.dot is None:
            return model.LOGGED, cut(self._record(step), TEXT_MAX)
        if not first.command or first.command == CONFLICT:
            rule = " (one of two idempotent adds of a pair)" if first.command else ""
            words = "; ".join(self.of_effect(event) for event in step.events)
            return model.OWN, cut(f"{BY_ITSELF}{words}{rule}", TEXT_MAX)
        return model.LOGGED, cut(self._command(step), TEXT_MAX)

    # -- commands

    def _command(self, step: Step) -> str:
        command = step.first.command
        if command in RENAMES and "other-key" in step.first.facts:
            return self._rename(step)
        main = step.events[-1] if step.first.kind == "remove-observed" else step.first
        rest = [self.of_effect(event) for event in step.events if event is not main]
        return "; ".join([f"{command} {self._arguments(main)}".rstrip(), *rest])

    def _rename(self, step: Step) -> str:
        command, other = step.first.command, _word(step.first.facts["other-key"])
        adds = [str(event.facts["id"]) for event in step.events if event.kind == "add"]
        if all(event.kind == "delete" for event in step.events):
            return f"{command} → {other}"
        return f"{command} ← {other}{': adds ' + _listed(adds) if adds else ''}"

    def _arguments(self, event: Event) -> str:
        facts = event.facts
        if event.kind == "add":
            pair = f" (IDMP {_word(facts['pid'])} {_word(facts['iid'])})" if "pid" in facts else ""
            return " ".join([str(facts["id"]), *map(_word, facts["fields"])]) + pair
        if event.kind == "remove-entries":
            known = dict.fromkeys(map(self._entry, event.dots))
            return _listed(list(known))
        if event.kind == "trim":
            return f"up to {self._vector(event.had_seen)}"
        if event.kind in ("delete", "flush"):
            return ""
        if event.kind == "set-id":
            return str(facts["id"])
        if event.kind == "create-group":
            start = facts["start"]
            return f"{_word(facts['group'])} {start if isinstance(start, str) else '$'}"
        if event.kind == "destroy-group":
            return _word(facts["group"])
        if event.kind == "set-deadline":
            at_ms = facts["at-ms"]
            return "" if at_ms == "never" else f"at {utc(int(at_ms))}"
        if event.kind == "configure":
            return f"IDMP-DURATION {facts['duration-s']} IDMP-MAXSIZE {facts['maxsize']}"
        return f"({self.of_effect(event)})"

    def _entry(self, dot: Dot) -> str:
        """The ID of an entry, or its dot if no log tells its add."""
        return self._fates[dot].entry_id if dot in self._fates else self._dots([dot])

    def _dots(self, dots: list[Dot]) -> str:
        return _listed([f"{self._name(origin)}:{counter}" for origin, counter in dots])

    def _vector(self, vector: Vector) -> str:
        return ", ".join(f"{self._name(one)}:{counter}" for one, counter in sorted(vector.items()))

    # -- local records

    def _record(self, step: Step) -> str:
        event = step.events[-1]
        facts = event.facts
        group = f"group {_word(facts['group'])}"
        consumer = _word(facts.get("consumer", ""))
        is_new = ", a new consumer" if len(step.events) > 1 else ""
        ids = _listed([str(entry[2]) for entry in facts.get("entries", [])])
        if event.kind == "delivered":
            no_ack = " (NOACK)" if facts["no-ack"] else ""
            return f"{group} delivers {ids} to {consumer}{no_ack}{is_new}"
        if event.kind == "claimed":
            return f"{group}: {consumer} claims {ids}{is_new}"
        if event.kind == "left-pel":
            doubt = "" if self._stays(step) else ", or removed while pending"
            return f"{group}: {ids} acknowledged{doubt}"
        if event.kind == "consumer-made":
            return f"{group} has a new consumer {consumer}"
        if event.kind == "consumer-deleted":
            return f"{group}: consumer {consumer} deleted"
        floor = facts["floor"]
        shown = floor if isinstance(floor, str) else self._vector(vector_of(floor))
        return f"{group}: floor {shown or '0'}"

    def _stays(self, step: Step) -> bool:
        """Whether the region had not removed the entries of a record before it."""
        fates = [self._fates.get(dot) for dot in step.first.entry_dots()]
        return all(
            fate is not None
            and all(region != step.region or ms > step.ms for region, ms, _ in fate.removals)
            for fate in fates
        )


def _listed(words: list[str]) -> str:
    more = f" and {len(words) - LISTED_MAX} more" if len(words) > LISTED_MAX else ""
    return f"{', '.join(words[:LISTED_MAX])}{more}"
