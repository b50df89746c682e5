"""The steps of a key's history in the words of a drawing.

A point has the command in upper case, with what it did: the log holds effects, so an XADD is shown
with the ID that it got, and an XDEL with the IDs of the entries that it removed. An arrow has the
words of its effects, as in drawings of the simulator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final, Optional

from anabranch.crdt.vector import Dot, Vector
from anabranch.plural import listed
from anabranch.study.diagram import model
from anabranch.study.diagram.texts import cut, visible, word
from anabranch.study.history.steps import RENAMES, HistoryStep
from anabranch.study.history.wording import CONFLICT, LISTED_MAX, record_words
from anabranch.study.replies.events import REMOVALS, KeyEvent

TEXT_MAX: Final = 160
"""Characters of a point's text that are kept."""
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


def _word(name: Optional[bytes]) -> str:
    return word((name or b"")[: 4 * TEXT_MAX])


def kind_of(event: KeyEvent) -> str:
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

    def of_effect(self, event: KeyEvent) -> str:
        """An effect in a few words; an add is the ID of its entry."""
        if event.kind == "add":
            return str(event.id)
        if event.kind == "remove-entries":
            return f"removes {self._dots(event.dots)}"
        if event.kind == "trim":
            return f"trims up to {self._vector(event.covered)}"
        if event.kind in ("delete", "flush"):
            return event.command if event.other_key is None else f"removed by {event.command}"
        if event.kind in ("create-group", "destroy-group"):
            verb = "creates" if event.kind == "create-group" else "destroys"
            return f"{verb} group {visible(event.group or b'')}"
        if event.kind == "acknowledge":
            return f"acknowledged in {visible(event.group or b'')}"
        return {
            "expire": "removes what expired",
            "remove-observed": "clears the key",
            "set-id": f"last ID {event.id}",
            "set-deadline": "no deadline" if event.at_ms is None else "deadline",
        }.get(event.kind, "configuration")

    def of_step(self, step: HistoryStep) -> tuple[str, str]:
        """The kind and the text of the point of an issue, a record or a snapshot."""
        first = step.first
        if step.is_snapshot:
            holds = self._vector(first.vector) if first.vector else "nothing"
            text = f"joins a snapshot of {self._name(step.source)}, which holds {holds}"
            return model.LOGGED, text
        if not first.is_effect:
            return model.LOGGED, cut(self._record(step), TEXT_MAX)
        if not first.command or first.command == CONFLICT:
            rule = " (one of two idempotent adds of a pair)" if first.command else ""
            words = "; ".join(self.of_effect(event) for event in step.events)
            return model.OWN, cut(f"{BY_ITSELF}{words}{rule}", TEXT_MAX)
        return model.LOGGED, cut(self._command(step), TEXT_MAX)

    # -- commands

    def _command(self, step: HistoryStep) -> str:
        command = step.first.command
        if command in RENAMES and step.first.other_key is not None:
            return self._rename(step)
        main = step.events[-1] if step.first.kind == "remove-observed" else step.first
        rest = [self.of_effect(event) for event in step.events if event is not main]
        return "; ".join([f"{command} {self._arguments(main)}".rstrip(), *rest])

    def _rename(self, step: HistoryStep) -> str:
        command, other = step.first.command, _word(step.first.other_key)
        adds = [str(event.id) for event in step.events if event.kind == "add"]
        if all(event.kind == "delete" for event in step.events):
            return f"{command} → {other}"
        return f"{command} ← {other}{': adds ' + listed(adds, LISTED_MAX) if adds else ''}"

    def _arguments(self, event: KeyEvent) -> str:
        if event.kind == "add":
            pair = "" if event.pid is None else f" (IDMP {_word(event.pid)} {_word(event.iid)})"
            return " ".join([str(event.id), *map(_word, event.fields)]) + pair
        if event.kind == "remove-entries":
            known = dict.fromkeys(map(self._entry, event.dots))
            return listed(list(known), LISTED_MAX)
        if event.kind == "trim":
            return f"up to {self._vector(event.covered)}"
        if event.kind in ("delete", "flush"):
            return ""
        if event.kind == "set-id":
            return str(event.id)
        if event.kind == "create-group":
            start = event.start if isinstance(event.start, str) else "$"
            return f"{_word(event.group)} {start}"
        if event.kind == "destroy-group":
            return _word(event.group)
        if event.kind == "set-deadline":
            return "" if event.at_ms is None else f"at {utc(event.at_ms)}"
        if event.kind == "configure":
            return f"IDMP-DURATION {event.duration_s} IDMP-MAXSIZE {event.maxsize}"
        return f"({self.of_effect(event)})"

    def _entry(self, dot: Dot) -> str:
        """The ID of an entry, or its dot if no log tells its add."""
        return self._fates[dot].entry_id if dot in self._fates else self._dots([dot])

    def _dots(self, dots: list[Dot]) -> str:
        return listed([f"{self._name(origin)}:{counter}" for origin, counter in dots], LISTED_MAX)

    def _vector(self, vector: Vector) -> str:
        parts = [f"{self._name(one)}:{counter}" for one, counter in sorted(vector.items())]
        return ", ".join(parts) or "0"

    # -- local records

    def _record(self, step: HistoryStep) -> str:
        is_new = ", a new consumer" if len(step.events) > 1 else ""
        return record_words(step.events[-1], self._vector, _word, self._stays(step)) + is_new

    def _stays(self, step: HistoryStep) -> bool:
        """Whether the region had not removed the entries of a record before it."""
        fates = [self._fates.get(dot) for dot in step.first.entries]
        return all(
            fate is not None
            and all(region != step.region or ms > step.ms for region, ms, _ in fate.removals)
            for fate in fates
        )
