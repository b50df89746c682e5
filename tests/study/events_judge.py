"""Judges the events and the state in a reply of CRDT.EXPLAIN against the true history."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from anabranch.crdt import effects as fx
from anabranch.crdt.vector import Vector
from anabranch.sim.arguments import shown
from anabranch.sim.checkers.state import NEVER, Create
from anabranch.sim.logged import Add, Dot, Logged
from tests.study.truth import ANYTHING, covers
from tests.study.views import View, vector_of

_KINDS: dict[type, str] = {
    Add: "add",
    fx.RemoveEntries: "remove-entries",
    fx.Trim: "trim",
    fx.Delete: "delete",
    fx.Flush: "flush",
    fx.SetId: "set-id",
    fx.CreateGroup: "create-group",
    fx.DestroyGroup: "destroy-group",
    fx.Acknowledge: "acknowledge",
    fx.SetDeadline: "set-deadline",
    fx.Configure: "configure",
}


def kind_of(effect: Logged) -> str:
    if isinstance(effect, fx.RemoveObserved):
        return "remove-observed" if effect.with_deadlines else "expire"
    return _KINDS[type(effect)]


def seen_in(effect: Logged) -> Vector | None:
    """The vector that an explanation shows of an effect; None if it shows none."""
    if isinstance(effect, fx.Trim):
        return effect.prefix
    if isinstance(effect, (fx.Delete, fx.Flush, fx.RemoveObserved, fx.CreateGroup, fx.Configure)):
        return effect.vector
    return None


def text(value: bytes) -> str:
    """Bytes as `questions.plain` gives them."""
    return value.decode("latin-1")


def is_named(view: View, dot: Dot, command: str) -> bool:
    """Whether a command, as an explanation shows it, issued the effect."""
    possible = view.truth.commands_of(dot)
    return possible is ANYTHING or command in possible


def is_time(view: View, dot: Dot, at_ms: int) -> bool:
    """Whether the region applied the effect at that time of its clock.

    It writes its own effects into the log when it closes their block, a commit later at most.
    """
    item = view.applied[dot]
    if item.source:
        return at_ms == item.clock_ms
    return item.clock_ms <= at_ms and (item.closed_ms is None or at_ms <= item.closed_ms)


def start_of(create: Create) -> Any:
    if create.start_id is not None:
        return shown(create.start_id).decode()
    return [one for pair in sorted(create.vector.items()) if pair[1] for one in pair]


def judge_reply(view: View) -> Iterator[str]:
    """The faults of a reply."""
    yield from _told(view)
    yield from _missing(view)
    yield from _snapshots(view)
    yield from _state(view)


def _told(view: View) -> Iterator[str]:
    place = 0
    for dot, event in view.told.items():
        if not view.has(dot):
            yield f"event: {dot} is told, which its vector {view.vector} does not cover"
            continue
        effect = view.effect(dot)
        command = event["command"].replace("|", " ").upper()
        if event["kind"] != kind_of(effect):
            yield f"event: {dot} is told as {event['kind']}, and is {kind_of(effect)}"
        elif not is_named(view, dot, command):
            yield (
                f"event: {dot} ({kind_of(effect)}) is told as of {command!r}; "
                f"it is of {sorted(view.truth.commands_of(dot))}"
            )
        if event["source"] != view.applied[dot].source:
            yield f"event: {dot} came from {view.applied[dot].source}, not {event['source']}"
        if not is_time(view, dot, event["clock-ms"]):
            item = view.applied[dot]
            yield (
                f"event: {dot} was applied at {item.clock_ms} to {item.closed_ms}, "
                f"not {event['clock-ms']}"
            )
        if view.places[dot] <= place:
            yield f"event: {dot} is told out of order"
        place = view.places[dot]
        yield from _fields(dot, effect, event)


def _fields(dot: Dot, effect: Logged, event: dict[str, Any]) -> Iterator[str]:
    expected: dict[str, Any] = {}
    seen = seen_in(effect)
    if seen is not None:
        expected["had-seen"] = seen
    if isinstance(effect, Add):
        expected["id"] = text(effect.shown_id)
        expected["fields"] = [text(one) for one in effect.fields]
        expected["pid"] = text(effect.pid) or None
    elif isinstance(effect, fx.RemoveEntries):
        expected["dots"] = [[*one] for one in effect.dots]
    elif isinstance(effect, (fx.CreateGroup, fx.DestroyGroup)):
        expected["group"] = text(effect.group)
    if isinstance(effect, fx.CreateGroup):
        expected["start"] = start_of(Create(dot, effect))
    if isinstance(effect, fx.SetDeadline):
        expected["at-ms"] = "never" if effect.at_ms == NEVER else effect.at_ms
    for name, value in expected.items():
        found = event.get(name)
        if name == "had-seen" and found is not None:
            found, value = vector_of(found), {one: last for one, last in value.items() if last}
        if found != value:
            yield f"event: {name} of {dot} is told as {found!r}, and is {value!r}"


def _missing(view: View) -> Iterator[str]:
    """Each effect on the key above the floor is told, and of a cut reply the newest ones."""
    adds = set(view.adds())
    newest_missing = 0
    for dot, effect in view.concerning():
        if covers(view.floor, dot) or dot in view.told:
            continue
        if isinstance(effect, Add) and dot not in adds:
            continue
        if isinstance(effect, fx.RemoveEntries) and not adds & set(effect.dots):
            continue
        if view.left_out:
            newest_missing = view.places[dot]
            continue
        yield f"event: {dot} ({kind_of(effect)}) is not told; the floor is {view.floor}"
    for dot in view.told:
        if view.has(dot) and view.places[dot] < newest_missing:
            yield f"event: {dot} is told, and newer ones are left out"


def _snapshots(view: View) -> Iterator[str]:
    joins = [(join.source, join.clock_ms) for join in view.life.joins]
    for event in view.reply["events"]:
        if event["kind"] != "snapshot" or (event["source"], event["clock-ms"]) in joins:
            continue
        # A snapshot that brings nothing moves no vector, so the truth does not know it.
        if any(counter > view.floor.get(one, 0) for one, counter in event["vector"][::2]):
            yield f"event: no snapshot of {event['source']} was joined at {event['clock-ms']}"


def _state(view: View) -> Iterator[str]:
    state, reply = view.state, view.reply
    hidden = view.is_hidden()
    expected: dict[str, Any] = {
        "exists": int(state.is_present() and not hidden),
        "hidden": int(hidden),
        "length": len(state.stream),
        "last-id": shown(state.last_id()).decode(),
        "deadlines": [
            [
                [*dot],
                "never" if at_ms == NEVER else at_ms,
                int(dot == (state.winning_deadline() or (None,))[0]),
            ]
            for dot, at_ms in sorted(state.deadlines.items())
        ],
        "entries": [[one.region, one.counter] for one in state.with_id(view.wanted)],
        "groups": [
            [text(name), [*dot], start_of(create)]
            for name, creates in sorted(state.groups.items())
            for dot, create in sorted(creates.items())
        ],
    }
    found = dict(reply)
    found["entries"] = [[one["region_id"], one["counter"]] for one in reply.get("entries", [])]
    found["groups"] = [[one["name"], one["create"], one["start"]] for one in reply["groups"]]
    for name, value in expected.items():
        if found[name] != value:
            yield f"state: {name} is told as {found[name]!r}, and is {value!r}"
