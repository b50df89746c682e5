"""The fate of each entry, and the last state of the key in each region, from the logs.

The state of a key is a function of the effects that a region has applied (S13.9): an entry is there
if its add is applied and no applied effect removes it. So the logs of all regions together tell the
state of each, also of one that joined a snapshot, as long as some log holds the effects.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final, Optional

from anabranch.crdt import ids
from anabranch.crdt.vector import Dot, Vector, covers, raise_to
from anabranch.study.diagram.model import Fate, LastState
from anabranch.study.history.steps import HistoryStep, RegionAnswer
from anabranch.study.replies.events import REMOVALS, KeyEvent

# Removals that remove the header, too: all but those of entries (S3.1).
_OF_HEADER: Final = REMOVALS - {"remove-entries", "trim"}


class Effects:
    """The effects on the key that any log tells, by dot, in the words of its own region if it can.

    `adds` are those that add entries, `removals` those that remove entries.
    """

    def __init__(self, answers: Sequence[RegionAnswer]) -> None:
        self.by_dot: dict[Dot, KeyEvent] = {}
        self._answers: Final = answers
        for answer in answers:
            for event in answer.events:
                is_new = event.dot not in self.by_dot or event.dot[0] == answer.region_id
                if event.is_effect and is_new:
                    self.by_dot[event.dot] = event
        self.by_dot = dict(sorted(self.by_dot.items()))
        self.adds = {dot: one for dot, one in self.by_dot.items() if one.kind == "add"}
        self.removals = {dot: one for dot, one in self.by_dot.items() if one.kind in REMOVALS}

    def are_all_known(self, vector: Vector) -> bool:
        """Whether logs hold every effect that a vector covers."""
        return all(
            any(
                not one.history.left_out
                and not one.history.floor.get(origin)
                and one.vector.get(origin, 0) >= counter
                for one in self._answers
            )
            for origin, counter in vector.items()
        )

    def entries(self, vector: Vector) -> list[Dot]:
        """The entries that are there once the effects of a vector are applied, by ID."""
        prefix: Vector = {}
        named: set[Dot] = set()
        for dot, event in self.removals.items():
            if not covers(vector, *dot):
                continue
            named.update(event.dots)
            raise_to(prefix, event.covered)
        found = [
            dot
            for dot in self.adds
            if covers(vector, *dot) and dot not in named and not covers(prefix, *dot)
        ]
        return sorted(found, key=lambda dot: (_order(self.adds[dot]), dot[0]))

    def groups(self, vector: Vector) -> dict[bytes, list[Dot]]:
        """name → live creates, by S6.1 and S10.3."""
        applied = [event for dot, event in self.by_dot.items() if covers(vector, *dot)]
        found: dict[bytes, list[Dot]] = {}
        for create in applied:
            if create.kind == "create-group" and not any(one.ends(create) for one in applied):
                found.setdefault(create.group or b"", []).append(create.dot)
        return dict(sorted(found.items()))

    def has_header(self, vector: Vector) -> bool:
        """Whether the header is non-empty (S3.1)."""
        prefix: Vector = {}
        for dot, event in self.removals.items():
            if event.kind in _OF_HEADER and covers(vector, *dot):
                raise_to(prefix, event.covered)
        return any(
            event.kind in ("add", "set-id") and covers(vector, *dot) and not covers(prefix, *dot)
            for dot, event in self.by_dot.items()
        )

    def is_hidden(self, vector: Vector, clock_ms: int) -> bool:
        """Whether the longest deadline has passed (S10.2)."""
        deadlines: dict[Dot, Optional[int]] = {}
        gone: set[Dot] = set()
        prefix: Vector = {}
        for dot, event in self.by_dot.items():
            if not covers(vector, *dot):
                continue
            if event.kind == "set-deadline":
                deadlines[dot] = event.at_ms
                gone.update(event.replaces)
            elif event.kind == "remove-observed":
                raise_to(prefix, event.covered)
        ends = [at for dot, at in deadlines.items() if dot not in gone and not covers(prefix, *dot)]
        return bool(ends) and all(at_ms is not None and clock_ms > at_ms for at_ms in ends)


def _order(add: KeyEvent) -> int:
    return ids.parse((add.id or "").encode(), 0)


class _Lane:
    """The entries that a region has not removed yet, while its steps are replayed.

    By causality, an effect removes only entries whose adds the region has applied before. So known
    entries count as there from the beginning, also if the log does not reach back to their adds.
    """

    def __init__(self, adds: Mapping[Dot, KeyEvent]) -> None:
        self._left: dict[int, deque[int]] = {}
        for origin, counter in adds:
            self._left.setdefault(origin, deque()).append(counter)
        self._gone: set[Dot] = set()
        self._adds: Final = adds

    def removed_by(self, event: KeyEvent) -> list[Dot]:
        """The entries that an effect removes now."""
        found = [dot for dot in event.dots if dot in self._adds and dot not in self._gone]
        for origin, last in event.covered.items():
            counters = self._left.get(origin, deque())
            while counters and counters[0] <= last:
                dot = (origin, counters.popleft())
                if dot not in self._gone:
                    found.append(dot)
        self._gone.update(found)
        return found


def fates(effects: Effects, lanes: Sequence[Sequence[HistoryStep]], key: bytes) -> dict[Dot, Fate]:
    """The fate of each entry; fills in `removes` of the steps. Times are those of the steps."""
    arrivals: dict[Dot, list[tuple[int, int]]] = {dot: [] for dot in effects.adds}
    removals: dict[Dot, list[tuple[int, int, Optional[Dot]]]] = {dot: [] for dot in effects.adds}
    for steps in lanes:
        lane, applied, here = _Lane(effects.adds), set[Dot](), set[Dot]()
        for step in steps:
            events = step.events
            adds = [event.dot for event in events if event.kind == "add"]
            if step.is_snapshot:
                # It brings what its vector covers and the region had not applied.
                seen = step.first.vector
                events = [
                    event
                    for dot, event in effects.removals.items()
                    if covers(seen, *dot) and dot not in applied
                ]
                adds = [dot for dot in effects.entries(seen) if dot not in applied]
            for event in events:
                if event.kind not in REMOVALS:
                    continue
                for dot in lane.removed_by(event):
                    if step.is_snapshot and dot not in here:
                        continue
                    step.removes.append(dot)
                    removals[dot].append((step.region, step.ms, event.dot))
            here.update(adds)
            applied.update(step.dots)
            for dot in adds:
                arrivals[dot].append((step.region, step.ms))
    return {
        dot: Fate(
            dot, key, event.id or "", event.fields, tuple(arrivals[dot]), tuple(removals[dot])
        )
        for dot, event in effects.adds.items()
    }


def last_state(effects: Effects, answer: RegionAnswer, key: bytes, entry_id: str) -> LastState:
    """The state of the key in one region at the end of the range; `entry_id`: only its entries."""
    entries = effects.entries(answer.vector)
    if answer.state is None:
        groups = effects.groups(answer.vector)
        is_hidden = effects.is_hidden(answer.vector, answer.clock_ms)
        exists = (effects.has_header(answer.vector) or bool(groups)) and not is_hidden
        note = ""
        if not effects.are_all_known(answer.vector):
            note = "the logs do not reach back to the beginning: more may be there"
    else:
        groups = {}
        for create in answer.state.groups:
            groups.setdefault(create.group, []).append(create.dot)
        exists, is_hidden = answer.state.exists, answer.state.is_hidden
        note = _difference(answer.state.length - len(entries))
    if entry_id:
        note = f"only entries with the ID {entry_id} are listed"
    live = tuple((name, tuple(sorted(dots))) for name, dots in sorted(groups.items()))
    return LastState(answer.region_id, key, exists, is_hidden, tuple(entries), live, note)


def _difference(more: int) -> str:
    """Words for entries that are there beside those that the logs tell."""
    if more == 0:
        return ""
    if more < 0:
        return f"{-more} of these are gone; the logs do not tell which"
    return f"and {more} older {'entry' if more == 1 else 'entries'}, which the logs do not tell"
