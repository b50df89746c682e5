"""Judges the facts about deliveries of an entry against the commands of groups and their replies.

Local records are not replicated, and a crash may lose the last of them. So each step that is told
must have a command, and the commands since the last start must be told.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Optional

from anabranch.crdt import effects as fx
from anabranch.region.engine.replies import ErrorReply, Reply
from anabranch.sim.arguments import name_of, shown
from anabranch.sim.history import Operation, Words
from anabranch.sim.logged import Add, Dot
from anabranch.sim.replies import entries_by_key, entry_ids
from anabranch.sim.twin.reading import parse
from anabranch.sim.twin.region import TwinRegion
from tests.study.events_judge import text
from tests.study.facts_judge import Case, Facts, dot_of
from tests.study.views import View

# Commands after which entries may have left the PELs, and those that set a floor.
_LEAVING: Final = frozenset(b"XACK XACKDEL XDELEX XCLAIM XAUTOCLAIM XNACK".split())


def _commands(view: View) -> Iterator[tuple[Operation, Words, Reply]]:
    """The accepted commands of a region, those of transactions included."""
    for operation in view.truth.operations[view.region]:
        replies = operation.reply if operation.queued else [operation.reply]
        if isinstance(replies, list):
            for words, reply in zip(operation.commands(), replies, strict=False):
                if not isinstance(reply, ErrorReply):
                    yield operation, words, reply


def _entries(words: Words, reply: Reply, key: bytes, group: bytes) -> list[bytes]:
    """The IDs that a reply hands to a consumer of the group, new or pending."""
    name = name_of(words)
    if name == b"XREADGROUP":
        request = parse(words)
        if request.group != group:
            return []
        return [
            one
            for of_key, entries in entries_by_key(reply)
            if of_key == key
            for one in entry_ids(entries, len(entries))
        ]
    if name in (b"XCLAIM", b"XAUTOCLAIM") and words[1:3] == (key, group):
        entries = reply[1] if name == b"XAUTOCLAIM" and isinstance(reply, list) else reply
        return entry_ids(entries, len(entries)) if isinstance(entries, list) else []
    return []


def _is_new(words: Words, key: bytes) -> bool:
    """Whether the command delivers new entries of the key."""
    if name_of(words) != b"XREADGROUP":
        return False
    request = parse(words)
    return (key, b">") in zip(request.keys, request.positions, strict=True)


def _consumer(words: Words) -> bytes:
    return parse(words).consumer if name_of(words) == b"XREADGROUP" else words[3]


def judge_deliveries(case: Case, twin: Optional[TwinRegion]) -> Iterator[str]:
    """`twin`: the twin of the region, if its groups are known at this moment."""
    for add in case.facts["entry"]["adds"]:
        dot = dot_of(add["dot"])
        is_here = dot in case.asked.state.adds
        names = sorted(case.asked.state.groups) if is_here else []
        found = [one["group"] for one in add["deliveries"]]
        if found != [text(name) for name in names]:
            yield f"deliveries: of groups {found}; expected {names}"
            continue
        for name, one in zip(names, add["deliveries"], strict=True):
            yield from _steps(case.asked, name, one["here"])
            told = {other["region"]: other["steps"] for other in one["elsewhere"]}
            for view in case.others:
                yield from _steps(view, name, told.pop(view.region, []))
            if told:
                yield f"deliveries: elsewhere in {sorted(told)}"
            yield from _announced(case.asked, name, dot, one["acknowledged"])
            if twin is not None:
                yield from _status(case, twin, name, dot, one)


def _steps(view: View, name: bytes, steps: list[Facts]) -> Iterator[str]:
    key, entry_id = view.key, shown(view.wanted)
    where = f"deliveries: group {text(name)} in {view.name}"
    commands = list(_commands(view))
    delivered: set[tuple[int, str]] = set()
    for step in steps:
        kind, at_ms = step["kind"], step["at_ms"]
        if kind in ("delivered", "claimed"):
            delivered.add((at_ms, step["consumer"]))
            if not any(
                operation.clock_ms == at_ms
                and entry_id in _entries(words, reply, key, name)
                and text(_consumer(words)) == step["consumer"]
                and (kind == "claimed" or _is_new(words, key))
                and (kind == "claimed" or bool(step["no_ack"]) == parse(words).no_ack)
                for operation, words, reply in commands
            ):
                yield f"{where}: {kind} {text(entry_id)} at {at_ms}: no command did so"
        elif kind == "left-pel" and not any(
            operation.clock_ms == at_ms and name_of(words) in _LEAVING
            for operation, words, _ in commands
        ):
            yield f"{where}: {text(entry_id)} left the PEL at {at_ms}: no command did so"
    if view.left_out:
        return
    if _is_shared(view):
        # The step may be one of another entry with the ID; then its record has that entry's dot.
        delivered |= {
            (event["at-ms"], event["consumer"])
            for event in view.reply["events"]
            if event["kind"] == "delivered" and event["group"] == text(name)
        }
    for operation, words, reply in commands:
        # Local records of former processes may be lost; older ones than the log are gone.
        if (
            operation.start == view.life.start
            and view.reply["log-ms"] < operation.clock_ms < view.now_ms
            and _is_new(words, key)
            and entry_id in _entries(words, reply, key, name)
            and (operation.clock_ms, text(_consumer(words))) not in delivered
        ):
            yield f"{where}: the delivery of {text(entry_id)} at {operation.clock_ms} is not told"


def _is_shared(view: View) -> bool:
    """Whether several entries bear the ID: replies do not show which of them was delivered."""
    adds = [
        one
        for one in view.truth.effects.values()
        if isinstance(one, Add) and one.key == view.key and one.entry_id == view.wanted
    ]
    return len(adds) > 1


def _announced(view: View, name: bytes, dot: Dot, facts: list[Facts]) -> Iterator[str]:
    """The announcements that cover an entry, as far as the log tells."""
    expected = []
    for one in view.told:
        effect = view.effect(one)
        if isinstance(effect, fx.Acknowledge) and effect.group == name:
            spans = effect.spans.get(dot[0])
            if spans is not None and any(
                low < dot[1] <= high for low, high in zip(spans.starts, spans.ends, strict=True)
            ):
                expected.append(one)
    if [dot_of(one["effect"]) for one in facts] != expected:
        yield f"deliveries: {dot} announced by {facts}; the log tells {expected}"


def _status(case: Case, twin: TwinRegion, name: bytes, dot: Dot, facts: Facts) -> Iterator[str]:
    """The state of the entry in the group, by the twin."""
    key = twin.state.visible(case.asked.key)
    if key is None or name not in key.groups or twin.state.vector != case.asked.vector:
        return
    group = key.groups[name]
    pending = group.local.pel.get(dot)
    expected: tuple[str, Optional[str]]
    if pending is not None:
        expected = ("pending", text(pending.consumer))
    elif dot in group.acked():
        is_above = group.is_above_floor(dot, key.entries[dot].entry_id)
        is_again = is_above and dot not in group.local.given
        expected = ("rewound" if is_again else "acknowledged", None)
    elif dot in group.local.dropped:
        expected = ("dropped", None)
    elif dot in group.local.given:
        expected = ("given", None)
    elif group.is_above_floor(dot, key.entries[dot].entry_id):
        expected = ("deliverable", None)
    else:
        expected = ("below-floor", None)
    if (facts["status"], facts["consumer"]) != expected:
        yield (
            f"deliveries: {dot} is {facts['status']} {facts['consumer']} in {text(name)}; "
            f"expected {expected}"
        )
