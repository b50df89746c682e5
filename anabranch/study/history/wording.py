"""Names, times and events as words."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Final, Optional

from anabranch.answers import vector_of
from anabranch.crdt.vector import Dot, Vector
from anabranch.escapes import shown
from anabranch.plural import listed
from anabranch.study.replies.events import KeyEvent
from anabranch.study.replies.histories import KeyHistory
from anabranch.study.replies.spans import Span

# Rules of a region that issue effects without a command, by the kind of the effect.
_RULES: Final = {
    "expire": "the removal of an expired key",
    "remove-observed": "the removal of what was left of a key",
    "acknowledge": "an announced acknowledgement",
}
CONFLICT: Final = "IDMP CONFLICT"
VALUE_MAX: Final = 160
"""Characters of a name or value that are shown."""
LISTED_MAX: Final = 4
"""Dots and IDs that a text lists."""


def short(value: Optional[bytes]) -> str:
    """A name or value with escapes, or its beginning if it is long."""
    text = shown(value or b"")
    return text if len(text) <= VALUE_MAX else f"{text[:VALUE_MAX]}…"


def local_time(at_ms: int) -> str:
    """A time as ``2026-11-23 14:05:09.250 (1795446309250 ms)``, in the zone of this machine."""
    try:
        at = datetime.fromtimestamp(at_ms / 1000)
    except (OverflowError, ValueError, OSError):
        return f"{at_ms} ms"
    return f"{at:%Y-%m-%d %H:%M:%S}.{at_ms % 1000:03d} ({at_ms} ms)"


class RegionNames:
    """Region names for ids."""

    def __init__(self, names: dict[int, str]) -> None:
        self._names: Final = names

    def region(self, region_id: int) -> str:
        """A region's name, or its id if no region told the name."""
        return self._names.get(region_id, f"region {region_id}")

    def effect(self, dot: Dot) -> str:
        """A dot as ``effect 42 of us``."""
        return f"effect {dot[1]} of {self.region(dot[0])}"

    def vector(self, vector: Vector) -> str:
        """A vector as ``us up to 5, eu up to 3``."""
        parts = [f"{self.region(one)} up to {counter}" for one, counter in sorted(vector.items())]
        return ", ".join(parts) or "nothing"

    def spans(self, spans: list[Span]) -> str:
        """Spans as ``us 1–3, eu 2–2``."""
        return ", ".join(f"{self.region(one)} {low + 1}–{high}" for one, low, high in spans)

    def act(self, event: KeyEvent) -> str:
        """Who did what: ``DEL in eu (effect 7 of eu)``."""
        doing = event.command
        if doing == CONFLICT:
            doing = "the rule for two idempotent adds of one pair"
        elif not doing:
            doing = _RULES.get(event.kind, event.kind)
        elif event.kind == "trim" and doing == "XADD":
            doing = "XADD with MAXLEN or MINID"
        elif event.kind == "destroy-group" and event.group is not None:
            doing = f"{doing} {shown(event.group)}"
        return f"{doing} in {self.region(event.dot[0])} ({self.effect(event.dot)})"


# -- events


def story(history: KeyHistory, names: RegionNames) -> list[str]:
    """The events as `anabranch log` prints them, a line for each, oldest first."""
    return [f"{local_time(one.time_ms)}  {tell(one, history, names)}" for one in history.events]


def tell(event: KeyEvent, history: KeyHistory, names: RegionNames) -> str:
    """One event as a sentence, without its time."""
    if event.is_effect:
        came = f", from {names.region(event.source)}" if event.source else ""
        return f"{names.act(event)}{came}: {_effect(event, names)}"
    if event.kind == "snapshot":
        vector, source = names.vector(event.vector), names.region(event.source)
        return f"{history.region}: joined a snapshot of {source}, which holds {vector}"
    return f"{history.region}: {record_words(event, names.vector)}"


def _effect(event: KeyEvent, names: RegionNames) -> str:
    kind, group, had_seen = event.kind, short(event.group), names.vector(event.covered)
    if kind == "add":
        fields = " ".join(map(short, event.fields[: 2 * LISTED_MAX]))
        more = " …" if len(event.fields) > 2 * LISTED_MAX else ""
        pair = "" if event.pid is None else f" (pair {short(event.pid)}, {short(event.iid)})"
        return f"added {event.id} {fields}{more}{pair}"
    if kind == "remove-entries":
        return f"removed the entries of {listed(list(map(names.effect, event.dots)), LISTED_MAX)}"
    if kind in ("delete", "flush"):
        what = "this key" if kind == "delete" else "every key"
        moved = "" if event.other_key is None else f" (moved to {short(event.other_key)})"
        return f"deleted {what}{moved}, having seen {had_seen}"
    if kind == "create-group":
        start = event.start
        begins = start if isinstance(start, str) else f"$ ({names.vector(vector_of(start))})"
        return f"created group {group} from {begins}"
    if kind == "set-deadline":
        at_ms = event.at_ms
        return "set no deadline" if at_ms is None else f"set the deadline {local_time(at_ms)}"
    if kind == "configure":
        return f"kept idempotent IDs for {event.duration_s} s, at most {event.maxsize}"
    if kind == "acknowledge":
        return f"announced what group {group} has acknowledged: {names.spans(event.spans)}"
    return {
        "trim": f"removed the oldest entries: {had_seen}",
        "set-id": f"set the last ID to {event.id}",
        "destroy-group": f"destroyed group {group}",
    }.get(kind, f"removed what it had seen: {had_seen}")


def record_words(
    event: KeyEvent,
    vector: Callable[[Vector], str],
    word: Callable[[bytes], str] = short,
    is_sure: bool = False,
) -> str:
    """What a local record did; `is_sure`: entries that left the PEL had not been removed.

    `vector` and `word` write vectors, and names of groups and consumers.
    """
    group, consumer = f"group {word(event.group or b'')}", word(event.consumer or b"")
    ids, floor = listed(list(event.entries.values()), LISTED_MAX), event.floor
    place = vector(vector_of(floor)) if isinstance(floor, list) else floor
    return {
        "delivered": f"{group} delivers {ids} to {consumer}{' (NOACK)' if event.no_ack else ''}",
        "claimed": f"{group}: {consumer} claims {ids}",
        "left-pel": f"{group}: {ids} acknowledged{'' if is_sure else ', or removed while pending'}",
        "consumer-made": f"{group} has a new consumer {consumer}",
        "consumer-deleted": f"{group}: consumer {consumer} deleted",
    }.get(event.kind, f"{group}: floor {place}")
