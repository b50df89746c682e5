"""What became of an entry in one region, as facts, from what the regions tell (S5, S10, S11).

A fact is only what a log or a state shows. Where no log reaches, the fact says so.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Optional

from anabranch.crdt.vector import Dot, Vector, covers
from anabranch.study.history.delivery import DeliveryExplanation, explain_deliveries
from anabranch.study.history.evidence import Evidence, ToldEffect
from anabranch.study.replies.events import REMOVALS, SWEEPS
from anabranch.study.replies.histories import ExplainedHistory


@dataclass(frozen=True)
class Arrival:
    """A region that has applied an add: since when, and from which peer.

    `at_ms` is None if its log does not show when: the add came with a snapshot, or before the log
    begins.
    """

    region: int
    at_ms: Optional[int]
    source: Optional[int]


@dataclass(frozen=True)
class JoinedSnapshot:
    """A snapshot that the region joined."""

    source: int
    applied_ms: int


@dataclass(frozen=True, kw_only=True)
class AddExplanation:
    """What became of one add. The `fate` says which of the optional facts there are."""

    dot: Dot
    added: Optional[ToldEffect]
    applied: list[Arrival]
    silent: list[str]
    fate: str
    survived: Optional[list[ToldEffect]] = None
    applied_up_to: Optional[int] = None
    removed: Optional[ToldEffect] = None
    snapshot: Optional[JoinedSnapshot] = None
    left_out: Optional[int] = None
    log_begins_ms: Optional[int] = None
    deliveries: list[DeliveryExplanation]


@dataclass(frozen=True)
class Absence:
    """Why no add with the ID is known: proof that there was none, or the reason for doubt."""

    is_proven: bool
    applied: Vector
    log_begins_ms: Optional[int]
    log_floor: Vector
    left_out: int
    not_arrived: Vector
    silent: list[str]


@dataclass(frozen=True)
class EntryExplanation:
    """The entries with one ID."""

    id: str
    adds: list[AddExplanation]
    absence: Optional[Absence] = None


def explain_entry(evidence: Evidence, silent: list[str]) -> EntryExplanation:
    """The facts of the entry ID that the regions were asked for.

    `silent` are the names of the regions that did not answer.
    """
    dots = sorted({dot for history in evidence.histories for dot in _known(history)})
    return EntryExplanation(
        evidence.asked.state.entry_id,
        [_add(evidence, silent, dot) for dot in dots],
        None if dots else _absence(evidence, silent),
    )


def _known(history: ExplainedHistory) -> set[Dot]:
    """The dots of the entries with the ID that a region holds, or that its log names.

    Deliveries name an entry, too, also if its add is older than the log.
    """
    adds = {event.dot for event in history.events if event.kind == "add"}
    return {*history.state.entries, *adds, *(dot for one in history.events for dot in one.entries)}


def _add(evidence: Evidence, silent: list[str], dot: Dot) -> AddExplanation:
    """What became of the entry with this dot in the region in question."""
    asked = evidence.asked
    facts = AddExplanation(
        dot=dot,
        added=evidence.told(dot),
        applied=_applied(evidence.histories, dot),
        silent=silent,
        fate="hidden" if asked.state.is_hidden else "present",
        deliveries=explain_deliveries(evidence, dot),
    )
    if dot in asked.state.entries:
        return replace(facts, survived=_survived(evidence, dot))
    if not covers(asked.vector, *dot):
        return replace(facts, fate="not-arrived", applied_up_to=asked.vector.get(dot[0], 0))
    return _gone(evidence, facts)


def _applied(histories: list[ExplainedHistory], dot: Dot) -> list[Arrival]:
    """Which regions have applied the add."""
    found: list[Arrival] = []
    for history in histories:
        event = history.effect(dot)
        if event is not None and event.kind == "add":
            found.append(Arrival(history.region_id, event.clock_ms, event.source))
        elif covers(history.vector, *dot):
            found.append(Arrival(history.region_id, None, None))
    return found


# -- removed


def _gone(evidence: Evidence, facts: AddExplanation) -> AddExplanation:
    """Which removal took an entry whose add is applied and that is not there.

    Several removals may name one entry; the first took it. `is_certain` is False for one that
    names it while the logs do not tell which came first.
    """
    asked, dot = evidence.asked, facts.dot
    removals = [told for told in evidence.applied(REMOVALS) if told.event.removes(dot)]
    if removals:
        # A removal that the log of this region lacks came before those that it has.
        elsewhere = [told for told in removals if told.told_by != asked.region_id]
        removal, is_certain = (elsewhere or removals)[0], False
        if _is_first(asked, removals[0], dot):
            removal, is_certain = removals[0], True
        elif len(removals) == 1:
            is_certain = evidence.is_complete()
        removed = replace(removal, is_certain=is_certain)
        return replace(facts, fate="removed", removed=removed, log_begins_ms=asked.since_ms)
    snapshots = [event for event in asked.events if event.kind == "snapshot"]
    if snapshots:
        snapshot = JoinedSnapshot(snapshots[-1].source, snapshots[-1].clock_ms)
        return replace(facts, fate="removed-before-snapshot", snapshot=snapshot)
    if asked.left_out:
        return replace(facts, fate="removed-left-out", left_out=asked.left_out)
    return replace(facts, fate="removed-before-log", log_begins_ms=asked.since_ms)


def _is_first(asked: ExplainedHistory, removal: ToldEffect, dot: Dot) -> bool:
    """Whether the log of this region has the add, then the removal, and no snapshot between."""
    added, place = asked.place(dot), asked.place(removal.dot)
    if added is None or place is None:
        return False
    return not asked.has_snapshot_after(added, until=place)


# -- survived


def _survived(evidence: Evidence, dot: Dot) -> list[ToldEffect]:
    """The removals of the key that an entry survived because they are concurrent with its add.

    A removal that the adding region had applied before the add is none of them, nor a trim that
    had seen the entry and left it. If the logs do not tell, `is_certain` is False.
    """
    found: list[ToldEffect] = []
    for told in evidence.applied(SWEEPS):
        if told.event.removes(dot):
            continue
        answers = [evidence.had_seen(dot, told.dot)]
        if told.event.kind == "trim":
            # The others had not seen what they do not remove.
            answers.append(evidence.had_seen(told.dot, dot))
        if True not in answers:
            found.append(replace(told, is_certain=None not in answers))
    return found


# -- never added


def _absence(evidence: Evidence, silent: list[str]) -> Absence:
    asked = evidence.asked
    missing: Vector = {}
    for other in evidence.others:
        for region_id, counter in other.vector.items():
            if counter > max(asked.vector.get(region_id, 0), missing.get(region_id, 0)):
                missing[region_id] = counter
    begins_ms = None if asked.is_whole else asked.since_ms
    return Absence(
        evidence.is_complete(),
        asked.vector,
        begins_ms,
        asked.floor,
        asked.left_out,
        missing,
        silent,
    )
