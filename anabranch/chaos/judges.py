"""The judges: what must hold after a run, computed from what clients saw and what regions hold.

Each judge is a function that returns a line for each violation. With ``appendfsync always`` a write
that was acknowledged is on disk. With ``everysec`` a kill may take what was acknowledged within
`LOSS_S` before it. Where a backup is put back, what other regions do not have yet is gone.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from math import inf
from typing import Final

from anabranch.chaos.final_state import FinalState
from anabranch.chaos.history import DRAIN, OK, REFUSED, UNKNOWN, Add, History, Loss, id_pair
from anabranch.crdt.ids import SEQ_STRIDE

# A commit follows a write within a second (everysec), and takes its time on a busy machine.
LOSS_S: Final = 2.5
# Errors that a region gives while its commits fail, and while it recovers.
REASONS: Final = ("MISCONF", "READONLY")
_ZERO_FIGURES: Final = ("crdt_divergence", "crdt_gaps", "crdt_forks", "internal_errors")

Judge = Callable[["Case"], Iterator[str]]


class Case:
    """A run as judges see it.

    `is_always`: the regions ran with appendfsync always. `group_keys`: the streams with a group.
    """

    def __init__(
        self,
        history: History,
        final: FinalState,
        is_always: bool,
        group_keys: tuple[str, ...] = ("jobs",),
    ) -> None:
        self.history = history
        self.final = final
        self.is_always = is_always
        self.group_keys = group_keys
        # (key, value) → its attempts.
        self.attempts: dict[tuple[str, str], list[Add]] = defaultdict(list)
        for add in history.adds:
            self.attempts[add.key, add.value].append(add)
        self._losses: dict[str, list[Loss]] = defaultdict(list)
        for loss in history.losses:
            self._losses[loss.region].append(loss)

    def may_be_lost(self, region: str, answered_s: float, is_local: bool = False) -> bool:
        """Whether a kill may have taken a write that was acknowledged at that time.

        `is_local`: at first only this region knew of it, so no other one could give it back.
        """
        for loss in self._losses[region]:
            if loss.backup_s is None and self.is_always:
                continue
            since_s = loss.since_s if loss.backup_s is None or not is_local else loss.backup_s
            if since_s - (0.0 if self.is_always else LOSS_S) <= answered_s <= loss.at_s:
                return True
        return False


def lost(case: Case) -> Iterator[str]:
    """An acknowledged add is in every region, unless a removal of a client covers it."""
    covers = _Covers(case)
    for state in case.final.regions:
        held = {key: {value for _, value in entries} for key, entries in state.streams.items()}
        for (key, value), attempts in case.attempts.items():
            if value in held.get(key, ()):
                continue
            acknowledged = [add for add in attempts if add.outcome == OK]
            kept = [add for add in acknowledged if not case.may_be_lost(add.region, add.answered_s)]
            if kept and not any(map(covers.cover, kept)):
                add = kept[0]
                yield (
                    f"{state.name} lacks {key} {add.entry_id} ({value}),"
                    f" which {add.region} acknowledged at {add.answered_s:.2f} s"
                )


class _Covers:
    """Which adds may be gone because a client removed or trimmed them."""

    def __init__(self, case: Case) -> None:
        self._removed = {
            (removal.key, removal.entry_id)
            for removal in case.history.removals
            if removal.outcome != REFUSED
        }
        self._lowest: dict[str, tuple[int, int]] = {}
        # key → the greatest MAXLEN trim: (least length, end of the last trim).
        self._lengths: dict[str, tuple[int, float]] = {}
        for trim in case.history.trims:
            if trim.outcome == REFUSED:
                continue
            if trim.way == "MINID":
                minimum = id_pair(trim.threshold)
                self._lowest[trim.key] = max(minimum, self._lowest.get(trim.key, minimum))
            else:
                length, end_s = self._lengths.get(trim.key, (int(trim.threshold), 0.0))
                # A region that was paused may execute a request long after its client gave up.
                later_s = trim.answered_s if trim.outcome == OK else inf
                self._lengths[trim.key] = (min(length, int(trim.threshold)), max(end_s, later_s))
        self._ids: dict[str, list[tuple[int, int]]] = defaultdict(list)
        self._unknown: Counter[str] = Counter()
        for add in case.history.adds:
            if add.outcome == OK:
                self._ids[add.key].append(id_pair(add.entry_id))
            elif add.outcome == UNKNOWN:
                self._unknown[add.key] += 1
        for ids in self._ids.values():
            ids.sort()

    def cover(self, add: Add) -> bool:
        """Whether the entry of an add may be gone: its ID was removed or trimmed."""
        key = add.key
        if (key, add.entry_id) in self._removed:
            return True
        place = id_pair(add.entry_id)
        if key in self._lowest and place < self._lowest[key]:
            return True
        if key in self._lengths:
            length, end_s = self._lengths[key]
            above = len(self._ids[key]) - bisect_left(self._ids[key], place) - 1
            # MAXLEN n removes an entry only if n higher ones are there.
            return add.sent_s <= end_s and above + self._unknown[key] >= length
        return False


def phantoms(case: Case) -> Iterator[str]:
    """Every entry was added by a client, under the ID that was answered, and was not refused.

    One with other fields than its add had counts as one that nobody added (`value_of`).
    """
    for state in case.final.regions:
        for key, entries in state.streams.items():
            for entry_id, value in entries:
                attempts = case.attempts.get((key, value), [])
                if not attempts:
                    yield f"{state.name} holds {key} {entry_id} ({value}), which nobody added"
                elif all(add.outcome == REFUSED for add in attempts):
                    yield f"{state.name} holds {key} {entry_id} ({value}), which was refused"
                elif all(add.outcome == OK for add in attempts) and not any(
                    add.entry_id == entry_id for add in attempts
                ):
                    said = ", ".join(sorted({add.entry_id for add in attempts}))
                    yield f"{state.name} holds {key} {value} as {entry_id}; answered was {said}"
    for one in case.history.deliveries:
        if one.value and (one.key, one.value) not in case.attempts:
            entry = f"{one.key} {one.entry_id} ({one.value})"
            yield f"{one.region} delivered {entry}, which nobody added"


def twice(case: Case) -> Iterator[str]:
    """No add stands twice: neither one that was sent once, nor an idempotent one."""
    for state in case.final.regions:
        for key, entries in state.streams.items():
            counts = Counter(value for _, value in entries)
            for value, count in counts.items():
                if count > 1:
                    ids = [entry_id for entry_id, one in entries if one == value]
                    yield f"{state.name} holds {key} {value} {count} times: {', '.join(ids)}"


def skipped(case: Case) -> Iterator[str]:
    """In each region, a group delivers every entry, unless it was acknowledged somewhere."""
    acknowledged = {
        (one.key, one.entry_id) for one in case.history.acknowledgements if one.outcome != REFUSED
    }
    delivered = {(one.region, one.key, one.entry_id) for one in case.history.deliveries}
    for state in case.final.regions:
        for key in case.group_keys:
            for entry_id, value in state.streams.get(key, []):
                if (key, entry_id) in acknowledged or (state.name, key, entry_id) in delivered:
                    continue
                yield f"the group in {state.name} never delivered {key} {entry_id} ({value})"


def delivered_again(case: Case) -> Iterator[str]:
    """A region does not deliver an entry again that it has heard to be acknowledged."""
    first: dict[tuple[str, str, str], float] = {}
    for one in case.history.acknowledgements:
        if one.outcome == OK and not case.may_be_lost(one.region, one.answered_s, is_local=True):
            place = (one.region, one.key, one.entry_id)
            first[place] = min(one.answered_s, first.get(place, one.answered_s))
    for delivery in case.history.deliveries:
        at_s = first.get((delivery.region, delivery.key, delivery.entry_id))
        if at_s is not None and delivery.sent_s > at_s:
            yield (
                f"{delivery.region} delivered {delivery.key} {delivery.entry_id} at"
                f" {delivery.sent_s:.2f} s, acknowledged there at {at_s:.2f} s"
            )


def order(case: Case) -> Iterator[str]:
    """IDs ascend: in every stream, in every reply of a group, and with the adds of one region.

    Each region has IDs of its own (S4.1).
    """
    for state in case.final.regions:
        for key, entries in state.streams.items():
            ids = [id_pair(entry_id) for entry_id, _ in entries]
            for former, later in pairwise(ids):
                if former >= later:
                    yield f"{state.name}: {key} has {former} before {later}"
    numbers = {state.name: number for number, state in enumerate(case.final.regions, 1)}
    for add in case.history.adds:
        # An idempotent add may be answered with the ID of an attempt in another region.
        if add.outcome == OK and not add.is_idempotent:
            if id_pair(add.entry_id)[1] % SEQ_STRIDE != numbers[add.region]:
                yield f"{add.region} gave {add.key} {add.value} the ID {add.entry_id} of another"
    yield from _order_of_replies(case)
    yield from _order_of_adds(case)


def _order_of_replies(case: Case) -> Iterator[str]:
    replies: dict[int, list[tuple[int, str]]] = defaultdict(list)
    for delivery in case.history.deliveries:
        if delivery.way == "read":
            replies[delivery.reply].append((delivery.place, delivery.entry_id))
    for reply, found in replies.items():
        ids = [id_pair(entry_id) for _, entry_id in sorted(found)]
        if ids != sorted(ids):
            yield f"reply {reply} of a group is out of order: {ids}"


def _order_of_adds(case: Case) -> Iterator[str]:
    """An add that is sent after another one was answered by the same region gets a higher ID."""
    by_place: dict[tuple[str, str], list[Add]] = defaultdict(list)
    for add in case.history.adds:
        # An idempotent add may be answered with the ID of an earlier attempt.
        if add.outcome == OK and not add.is_idempotent:
            if not case.may_be_lost(add.region, add.answered_s):
                by_place[add.region, add.key].append(add)
    for (region, key), adds in by_place.items():
        answered = sorted(adds, key=lambda add: add.answered_s)
        highest: Add | None = None
        position = 0
        for add in sorted(adds, key=lambda add: add.sent_s):
            while position < len(answered) and answered[position].answered_s < add.sent_s:
                former = answered[position]
                if highest is None or id_pair(former.entry_id) > id_pair(highest.entry_id):
                    highest = former
                position += 1
            if highest is not None and id_pair(add.entry_id) <= id_pair(highest.entry_id):
                yield (
                    f"{region} gave {key} {add.value} the ID {add.entry_id},"
                    f" not above {highest.entry_id}, which it had answered before"
                )


def returned(case: Case) -> Iterator[str]:
    """An entry that a region removed, by XDEL or by MINID, does not come back."""
    gone = {
        (removal.key, removal.entry_id): removal
        for removal in case.history.removals
        if removal.outcome == OK
        and removal.count > 0
        and not case.may_be_lost(removal.region, removal.answered_s)
    }
    for state in case.final.regions:
        for key, entries in state.streams.items():
            for entry_id, value in entries:
                removal = gone.get((key, entry_id))
                if removal is not None:
                    yield (
                        f"{state.name} holds {key} {entry_id} ({value}),"
                        f" which {removal.region} removed at {removal.answered_s:.2f} s"
                    )
    yield from _left_by_trims(case)


def _left_by_trims(case: Case) -> Iterator[str]:
    """XTRIM MINID removes what its region had added before under a lower ID."""
    trims = [
        trim
        for trim in case.history.trims
        if trim.way == "MINID"
        and trim.outcome == OK
        and not case.may_be_lost(trim.region, trim.answered_s)
    ]
    for state in case.final.regions:
        for key in {trim.key for trim in trims}:
            for entry_id, value in state.streams.get(key, []):
                for add in case.attempts.get((key, value), []):
                    for trim in trims:
                        if (
                            trim.key == key
                            and trim.region == add.region
                            and add.outcome == OK
                            and add.answered_s < trim.sent_s
                            and id_pair(add.entry_id) < id_pair(trim.threshold)
                        ):
                            yield (
                                f"{state.name} holds {key} {entry_id}, which {trim.region}"
                                f" trimmed with MINID {trim.threshold} at {trim.answered_s:.2f} s"
                            )
                            break


def tailed(case: Case) -> Iterator[str]:
    """A reader with XREAD gets ascending IDs, and only entries that were added.

    It may miss an entry that its region merged under an ID below one that it had read (S7.2).
    """
    last: dict[tuple[str, str], str] = {}
    for reading in case.history.readings:
        former = last.get((reading.client, reading.key))
        if former is not None and id_pair(former) >= id_pair(reading.entry_id):
            yield f"{reading.client} read {reading.key} {reading.entry_id} after {former}"
        last[reading.client, reading.key] = reading.entry_id
        attempts = case.attempts.get((reading.key, reading.value), [])
        entry = f"{reading.client} read {reading.key} {reading.entry_id} ({reading.value})"
        if all(add.outcome == REFUSED for add in attempts):
            yield f"{entry}, which {'was refused' if attempts else 'nobody added'}"
        elif all(add.outcome == OK and add.entry_id != reading.entry_id for add in attempts):
            yield f"{entry}, which was answered with {attempts[0].entry_id}"


def unequal(case: Case) -> Iterator[str]:
    """All regions hold the same entries, and have equal vectors and digests."""
    first, *others = case.final.regions
    for state in others:
        for key in sorted({*first.streams, *state.streams}):
            one, other = first.streams.get(key, []), state.streams.get(key, [])
            if one != other:
                only = sorted({*one} ^ {*other})[:3]
                yield (
                    f"{key}: {first.name} holds {len(one)} entries and {state.name} {len(other)};"
                    f" not in both: {only}"
                )
        if state.vector != first.vector:
            yield f"the vectors of {first.name} and {state.name} differ"
        elif state.digest != first.digest:
            yield f"{first.name} and {state.name} have equal vectors and unequal digests"


def late(case: Case) -> Iterator[str]:
    """The regions hold the same within a bound after the last fault has ended."""
    final = case.final
    if final.level_s is None:
        yield f"the regions did not level within {final.level_bound_s:g} s: {final.level_text}"


def alarms(case: Case) -> Iterator[str]:
    """No region reports an error of its own, has died by itself, or has lost what others hold.

    Only a region that was put back to an old backup recovers, and it must.
    """
    for state in case.final.regions:
        if state.recoveries < state.restores:
            yield f"{state.name} was put back {state.restores} times and told of {state.recoveries}"
        elif state.recoveries and not state.restores:
            yield f"{state.name} has entered recovery"
        for name in _ZERO_FIGURES:
            if state.info.get(name, "0") != "0":
                yield f"{state.name} reports {name}:{state.info[name]}"
        yield from (f"{state.name}: {text}" for text in (*state.deaths, *state.errors))
        yield from (f"{state.name} logged: {line}" for line in state.bad_lines)


def vacuous(case: Case) -> Iterator[str]:
    """Clients did something, and regions refused them only for the reasons that faults give."""
    history = case.history
    if not any(add.outcome == OK for add in history.adds):
        yield "no add was acknowledged"
    if not any(one.way != DRAIN for one in history.deliveries):
        yield "no entry was delivered to a consumer"
    if not history.readings:
        yield "no entry was read by a tailing reader"
    for text, count in sorted(history.refusals.items()):
        if not text.startswith(REASONS):
            yield f"{count} requests were refused with '{text}'"


JUDGES: Final[dict[str, Judge]] = {
    "lost": lost,
    "phantom": phantoms,
    "twice": twice,
    "skipped": skipped,
    "delivered again": delivered_again,
    "order": order,
    "tailed": tailed,
    "returned": returned,
    "divergent": unequal,
    "level": late,
    "alarm": alarms,
    "vacuous": vacuous,
}


def judge(case: Case, names: Iterable[str] = JUDGES) -> dict[str, list[str]]:
    """The violations by judge, of all judges or of the named ones."""
    return {name: list(JUDGES[name](case)) for name in names}
