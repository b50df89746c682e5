"""The facts of `explanation.explain` as sentences, the answer first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from anabranch.answers import vector_of
from anabranch.crdt.vector import Dot
from anabranch.escapes import shown
from anabranch.plural import counted, joined, listed
from anabranch.study.history.delivery import AnyStep, DeliveryExplanation, LeavingStep
from anabranch.study.history.entry import Absence, AddExplanation, Arrival, EntryExplanation
from anabranch.study.history.evidence import ToldEffect
from anabranch.study.history.explanation import DeadlineExplanation, Explanation
from anabranch.study.history.groups import EndedCreate, GroupExplanation, LivingCreate
from anabranch.study.history.wording import RegionNames, local_time
from anabranch.study.replies.events import KeyEvent

# Removals listed without an entry ID.
_REMOVALS_SHOWN: Final = 20
# Destroys and deletes named that a group survived.
_SURVIVED_SHOWN: Final = 3
# Entries named for one removal.
_DOTS_SHOWN: Final = 5


class ExplanationText:
    """The sentences of one explanation."""

    def __init__(self, facts: Explanation) -> None:
        self._facts: Final = facts
        self._key: Final = shown(facts.key)
        self._region: Final = facts.region
        self._names: Final = RegionNames(facts.regions)

    def lines(self) -> list[str]:
        """All sentences, a line each; lines that add to the one above are indented."""
        return list(self._lines())

    def _lines(self) -> Iterator[str]:
        facts = self._facts
        if facts.entry is not None:
            yield from self._of_entry(facts.entry)
        yield self._of_key()
        for group in facts.groups:
            yield from self._of_group(group)
        for deadline in facts.deadlines:
            yield self._of_deadline(deadline)
        if facts.entry is None:
            yield from self._removals()
            if facts.silent:
                yield (
                    f"{joined(facts.silent)} did not answer: what only the log there tells is not"
                    " known."
                )
        yield f"{self._region} has applied {self._names.vector(facts.applied)}."
        yield self._reach()

    def group_lines(self, name: str) -> list[str]:
        """The sentences about one group; one that says so if the log has nothing about it."""
        for group in self._facts.groups:
            if shown(group.name) == name:
                return list(self._of_group(group))
        return [f"{self._region} knows no group {name}, and its log tells of none."]

    # -- the key

    def _of_key(self) -> str:
        facts, key, region = self._facts, self._key, self._region
        if facts.hidden:
            return f"{key} is hidden in {region}: its deadline has passed."
        if not facts.exists:
            return f"{key} does not exist in {region}."
        entries = counted(facts.length, "entry", "entries")
        return f"{key} exists in {region}: {entries}, last ID {facts.last_id}."

    def _reach(self) -> str:
        log = self._facts.log
        if log.since_ms is None:
            return f"The log of {self._region} is empty."
        if log.is_whole:
            return f"The log of {self._region} holds its whole history."
        since = f"The log of {self._region} goes back to {local_time(log.since_ms)}"
        if log.left_out:
            return f"{since}; {counted(log.left_out, 'older event')} of this key are left out."
        return f"{since}. It holds no event before that."

    # -- an entry

    def _of_entry(self, entry: EntryExplanation) -> Iterator[str]:
        if entry.absence is not None:
            yield from self._absence(entry.id, entry.absence)
        for add in entry.adds:
            yield from self._add(entry.id, add)

    def _add(self, entry_id: str, add: AddExplanation) -> Iterator[str]:
        names, told = self._names, add.added
        yield f"Entry {entry_id} ({names.effect(add.dot)}) {self._fate(add)}"
        if told is None:
            yield "  No log that was read still holds its add."
        else:
            added = told.event
            other = "" if added.other_key is None else f" from {shown(added.other_key)}"
            pair = ""
            if added.pid is not None and added.iid is not None:
                pair = f" with the pair {shown(added.pid)}, {shown(added.iid)}"
            yield (
                f"  {names.act(added)} added it{other}{pair}, at {local_time(added.clock_ms)}"
                f" on the clock of {self._names.region(told.told_by)}."
            )
        for arrival in add.applied:
            yield f"  {self._arrival(arrival)}"
        if add.silent:
            yield f"  {joined(add.silent)} did not answer: what is there is not known."
        for survived in add.survived or ():
            yield f"  {self._survived(survived, add.dot)}"
        for delivery in add.deliveries:
            yield from (f"  {line}" for line in self._delivery(delivery))
        if add.snapshot is not None:
            yield (
                f"  {self._region} learned of its removal with that snapshot or before, and of no"
                " reason."
            )

    def _fate(self, add: AddExplanation) -> str:
        region, names = self._region, self._names
        if add.fate == "present":
            return f"is there in {region}."
        if add.fate == "hidden":
            return f"is there in {region}, but the key is hidden: its deadline has passed."
        if add.applied_up_to is not None:
            origin = names.region(add.dot[0])
            return (
                f"has not arrived in {region}, which has applied effects of {origin}"
                f" up to {add.applied_up_to}."
            )
        gone = f"is not there in {region}:"
        if add.removed is not None:
            return f"{gone} {self._removed(add.removed)}"
        if add.snapshot is not None:
            return (
                f"{gone} it was gone when {region} joined a snapshot of"
                f" {names.region(add.snapshot.source)}, at {local_time(add.snapshot.applied_ms)}."
            )
        if add.left_out is not None:
            older = counted(add.left_out, "older event")
            return (
                f"{gone} it was removed before the events that were read;"
                f" {older} of this key were left out."
            )
        return (
            f"{gone} it was removed before {local_time(add.log_begins_ms or 0)}, where the log of"
            f" {region} begins; no log that was read tells by which command."
        )

    def _removed(self, removed: ToldEffect) -> str:
        teller = self._names.region(removed.told_by)
        told = "" if teller == self._region else f", as the log of {teller} tells"
        verb, doubt = "removed it", ""
        if not removed.is_certain:
            verb = "names it"
            doubt = " Whether another effect removed it before is not known."
        act, when = self._names.act(removed.event), local_time(removed.event.clock_ms)
        return f"{act} {verb}, at {when}{told}.{self._had_seen(removed.event)}{doubt}"

    def _had_seen(self, removed: KeyEvent) -> str:
        if removed.had_seen is None:
            return ""
        verb = "It removes" if removed.kind == "trim" else "It had seen"
        return f" {verb} {self._names.vector(removed.had_seen)}."

    def _arrival(self, one: Arrival) -> str:
        region = self._names.region(one.region)
        if one.at_ms is None:
            return f"{region} has applied it; its log does not show when."
        source = f", from {self._names.region(one.source)}" if one.source else ""
        return f"{region} applied it at {local_time(one.at_ms)}{source}."

    def _survived(self, told: ToldEffect, dot: Dot) -> str:
        event = told.event
        seen = event.covered.get(dot[0], 0)
        verb = "it removes" if event.kind == "trim" else "it had seen"
        reason = f"{verb} effects of {self._names.region(dot[0])} only up to {seen}"
        act = self._names.act(event)
        if told.is_certain:
            return f"It survived {act}, which is concurrent: {reason}."
        return (
            f"{act} did not remove it: {reason}. Whether the two are concurrent is not known: the"
            " logs that were read do not tell."
        )

    def _absence(self, entry_id: str, absence: Absence) -> Iterator[str]:
        names, region, key = self._names, self._region, self._key
        if absence.is_proven:
            yield (
                f"Entry {entry_id} was never added to {key} by an effect that {region} has"
                " applied: the logs that were read hold all of them"
                f" ({names.vector(absence.applied)})."
            )
        else:
            cut = (
                f"{counted(absence.left_out, 'older event')} of this key were left out"
                if absence.left_out
                else f"the log of {region} begins at {local_time(absence.log_begins_ms or 0)}"
            )
            yield (
                f"Entry {entry_id} is not in {key} in {region}, and no log that was read holds an"
                f" add with this ID. Whether it was added and removed before is not known: {cut}."
            )
        if absence.not_arrived:
            yield (
                f"  Effects that other regions hold have not arrived in {region}:"
                f" {names.vector(absence.not_arrived)}; none that was read adds this ID."
            )
        if absence.silent:
            yield (
                f"  {joined(absence.silent)} did not answer: an add there that has not arrived is"
                " not known."
            )

    # -- deliveries

    def _delivery(self, delivery: DeliveryExplanation) -> Iterator[str]:
        yield f"Group {shown(delivery.group)}: {self._status(delivery)}"
        for step in delivery.here:
            yield f"  {_step(step, self._region)}"
        for one in delivery.acknowledged:
            yield (
                f"  {self._names.effect(one.effect)} announced its acknowledgement;"
                f" {self._region} applied that at {local_time(one.applied_ms)}."
            )
        for other in delivery.elsewhere:
            for step in other.steps:
                yield f"  {_step(step, self._names.region(other.region))}"
        if delivery.here and delivery.elsewhere:
            yield (
                "  Regions deliver independently, so several delivered it, until an announced"
                " acknowledgement arrived."
            )

    def _status(self, delivery: DeliveryExplanation) -> str:
        region = self._region
        again = (
            f"it is not given in {region}; the next read with > may deliver it again."
            if delivery.here
            else f"it was not delivered in {region} yet; the next read with > may deliver it."
        )
        return {
            "pending": (
                f"it is pending in {region} for consumer {shown(delivery.consumer or b'')}."
            ),
            "acknowledged": (
                "it is acknowledged, and every region hears so: no region delivers it again."
            ),
            "rewound": (
                f"it is acknowledged, but SETID went back below it in {region}: the next read with"
                " > may deliver it there again."
            ),
            "given": (
                f"it is acknowledged in {region}, and not announced to other regions: only runs"
                " without a gap are announced."
            ),
            "dropped": (
                f"it was pending in {region} for a consumer that was deleted there, so it is"
                " neither pending nor acknowledged; a read with > does not deliver it again."
            ),
            "deliverable": again,
            "below-floor": (
                f"{region} does not deliver it: it lies below the group's start or floor there."
            ),
        }[delivery.status]

    # -- groups

    def _of_group(self, group: GroupExplanation) -> Iterator[str]:
        state = "is there" if group.is_live else "is not there"
        yield f"Group {shown(group.name)} {state} in {self._region}."
        for create in group.creates:
            begins = (
                f"from {create.start}"
                if isinstance(create.start, str)
                else f"from what its creator had not seen"
                f" ({self._names.vector(vector_of(create.start))} was seen)"
            )
            act, when = self._names.effect(create.dot), ""
            if create.created is not None:
                act = self._names.act(create.created.event)
                when = f", applied at {local_time(create.created.event.clock_ms)}"
            line = f"  {act} created it, {begins}{when};"
            if isinstance(create, EndedCreate):
                yield f"{line} {self._end(create)}"
            else:
                yield f"{line} it lives."
                yield from self._life(create)

    def _life(self, create: LivingCreate) -> Iterator[str]:
        survived = create.survived
        if len(survived) > _SURVIVED_SHOWN:
            older = counted(len(survived) - _SURVIVED_SHOWN, "earlier removal")
            yield f"    Its creator had applied {older}, so none of them ended it."
        for told in survived[-_SURVIVED_SHOWN:]:
            act = self._names.act(told.event)
            yield f"    {act} did not end it: its creator had applied that."
        yield f"    Acknowledged everywhere: {self._names.spans(create.acked) or 'nothing'}."

    def _end(self, create: EndedCreate) -> str:
        end = create.destroyed
        if end is None:
            return "it is gone, and the log does not show which effect ended it."
        reason = {
            True: "which had seen it",
            False: "which had not seen it: of a create and a concurrent destroy, the destroy wins",
            None: "which the create had not seen: the destroy wins",
        }[end.had_seen_create]
        doubt = "" if end.is_certain else ", or another effect before"
        return f"{self._names.act(end.event)} ended it, {reason}{doubt}."

    # -- deadlines and removals

    def _of_deadline(self, deadline: DeadlineExplanation) -> str:
        names, at_ms, its = self._names, deadline.at_ms, deadline.set
        what = "never expires" if at_ms is None else f"expires at {local_time(at_ms)}"
        act = names.effect(deadline.dot) if its is None else names.act(its.event)
        wins = "this deadline is in force" if deadline.wins else "a longer deadline wins"
        return f"The key {what}, says {act}; {wins}."

    def _removals(self) -> Iterator[str]:
        removals, names = self._facts.removals, self._names
        if removals:
            yield "Removals that the log holds, oldest first:"
        if len(removals) > _REMOVALS_SHOWN:
            older = len(removals) - _REMOVALS_SHOWN
            yield f"  … {older} older ones; `anabranch log` shows them"
        for removal in removals[-_REMOVALS_SHOWN:]:
            took = self._had_seen(removal)
            if removal.dots:
                effects = listed([names.effect(dot) for dot in removal.dots], _DOTS_SHOWN)
                took = f" It removed the entries of {effects}."
            yield f"  at {local_time(removal.clock_ms)}: {names.act(removal)}.{took}"


def _step(step: AnyStep, region: str) -> str:
    """An event of a group as a sentence."""
    when = f"in {region} at {local_time(step.at_ms)}"
    if isinstance(step, LeavingStep):
        if step.is_acknowledged:
            return f"Acknowledged {when}."
        return f"Acknowledged {when}, or no longer pending because the entry had been removed."
    consumer = shown(step.consumer or b"")
    if step.kind == "delivered":
        no_ack = ", without waiting for an acknowledgement (NOACK)" if step.no_ack else ""
        return f"Delivered {when} to consumer {consumer}{no_ack}."
    if step.kind == "claimed":
        so_far = counted(step.deliveries or 0, "delivery", "deliveries")
        return f"Claimed {when} by consumer {consumer} ({so_far} so far)."
    if step.kind == "consumer-deleted":
        return f"Consumer {consumer} was deleted {when}; its pending entries are dropped."
    if step.kind == "create-group":
        return f"The group was created again, applied {when}: it delivers from its own start."
    return f"The floor was set to {step.floor} {when}."
