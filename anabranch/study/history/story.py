"""The events of a key as a story, a line for each: `anabranch log`."""

from __future__ import annotations

from typing import Any, Final

from anabranch.answers import vector_of
from anabranch.plural import counted
from anabranch.study.history.entry import effect_facts
from anabranch.study.history.events import Event, Telling
from anabranch.study.history.wording import Names, local_time, short

# Dots and entries that one line shows.
_SHOWN: Final = 4


def story(telling: Telling, names: Names) -> list[str]:
    """A line for each event, oldest first: time, region that issued it, what it did."""
    return [
        f"{local_time(event.time_ms)}  {tell(event, telling, names)}" for event in telling.events
    ]


def tell(event: Event, telling: Telling, names: Names) -> str:
    """One event as a sentence, without its time."""
    if event.kind == "snapshot":
        vector = names.vector(vector_of(event.facts["vector"]))
        source = names.region(event.source)
        return f"{telling.region}: joined a snapshot of {source}, which holds {vector}"
    if event.dot is None:
        return f"{telling.region}: {_record(event)}"
    act = names.act(effect_facts(event))
    came = f", from {names.region(event.source)}" if event.source else ""
    return f"{act}{came}: {_effect(event, names)}"


def _effect(event: Event, names: Names) -> str:
    facts = event.facts
    if event.kind == "add":
        fields = facts["fields"]
        shown = " ".join(short(word) for word in fields[: 2 * _SHOWN])
        more = " …" if len(fields) > 2 * _SHOWN else ""
        pair = f" (pair {short(facts['pid'])}, {short(facts['iid'])})" if "pid" in facts else ""
        return f"added {facts['id']} {shown}{more}{pair}"
    if event.kind == "remove-entries":
        dots = [names.effect(dot) for dot in event.dots]
        more = f" and {len(dots) - _SHOWN} more" if len(dots) > _SHOWN else ""
        return f"removed the entries of {', '.join(dots[:_SHOWN])}{more}"
    if event.kind == "trim":
        return f"removed the oldest entries: {names.vector(event.had_seen)}"
    if event.kind in ("delete", "flush"):
        what = "this key" if event.kind == "delete" else "every key"
        moved = f" (moved to {short(facts['other-key'])})" if "other-key" in facts else ""
        return f"deleted {what}{moved}, having seen {names.vector(event.had_seen)}"
    if event.kind in ("expire", "remove-observed"):
        return f"removed what it had seen: {names.vector(event.had_seen)}"
    return _rare(event, names)


def _rare(event: Event, names: Names) -> str:
    facts = event.facts
    if event.kind == "set-id":
        return f"set the last ID to {facts['id']}"
    if event.kind == "create-group":
        start = facts["start"]
        begins = start if isinstance(start, str) else f"$ ({names.vector(vector_of(start))})"
        return f"created group {short(facts['group'])} from {begins}"
    if event.kind == "destroy-group":
        return f"destroyed group {short(facts['group'])}"
    if event.kind == "acknowledge":
        spans = ", ".join(
            f"{names.region(region)} {int(low) + 1}–{high}" for region, low, high in facts["spans"]
        )
        return f"announced what group {short(facts['group'])} has acknowledged: {spans}"
    if event.kind == "set-deadline":
        at_ms = facts["at-ms"]
        return (
            "set no deadline" if at_ms == "never" else f"set the deadline {local_time(int(at_ms))}"
        )
    return f"kept idempotent IDs for {facts['duration-s']} s, at most {facts['maxsize']}"


def _record(event: Event) -> str:
    facts: dict[str, Any] = event.facts
    group = f"group {short(facts['group'])}"
    consumer = short(facts.get("consumer", ""))
    entries = facts.get("entries", [])
    listed = ", ".join(str(entry[2]) for entry in entries[:_SHOWN])
    if len(entries) > _SHOWN:
        listed += f" and {counted(len(entries) - _SHOWN, 'more', 'more')}"
    if event.kind == "delivered":
        return f"{group} delivered {listed} to {consumer}"
    if event.kind == "claimed":
        return f"{group}: {consumer} claimed {listed}"
    if event.kind == "left-pel":
        return f"{group}: {listed} acknowledged, or no longer pending because it was removed"
    if event.kind == "consumer-made":
        return f"{group} has a new consumer {consumer}"
    if event.kind == "consumer-deleted":
        return f"{group}: consumer {consumer} deleted"
    return f"{group}: the floor is {_floor(facts['floor'])}"


def _floor(floor: Any) -> str:
    return floor if isinstance(floor, str) else str(vector_of(floor))
