"""The facts of `explanation.explain` as sentences, the answer first."""

from __future__ import annotations

from typing import Any, Final

from anabranch.answers import vector_of
from anabranch.plural import counted
from anabranch.study.history.entry import Facts
from anabranch.study.history.wording import Names, joined, local_time, moment

# Removals listed without an entry ID.
_REMOVALS_SHOWN: Final = 20
# Destroys and deletes named that a group survived.
_SURVIVED_SHOWN: Final = 3
# Entries named for one removal.
_DOTS_SHOWN: Final = 5


class Teller:
    """Tells the facts of one explanation."""

    def __init__(self, facts: Facts) -> None:
        self._facts: Final = facts
        self._region: Final = str(facts["region"])
        self._names: Final = Names({int(one): name for one, name in facts["regions"].items()})

    def lines(self) -> list[str]:
        """All sentences, a line each; lines that add to the one above are indented."""
        facts = self._facts
        lines: list[str] = []
        if "entry" in facts:
            lines += self._entry(facts["entry"])
        lines.append(self._key())
        for group in facts["groups"]:
            lines += self._group(group)
        for deadline in facts["deadlines"]:
            lines += self._deadline(deadline)
        if "entry" not in facts:
            lines += self._removals()
            if facts["silent"]:
                lines.append(
                    f"{joined(facts['silent'])} did not answer: what only the log there tells is"
                    " not known."
                )
        lines.append(f"{self._region} has applied {self._names.vector(facts['applied'])}.")
        lines.append(self._reach())
        return lines

    def group_lines(self, name: str) -> list[str]:
        """The sentences about one group; one that says so if the log has nothing about it."""
        for group in self._facts["groups"]:
            if group["name"] == name:
                return self._group(group)
        return [f"{self._region} knows no group {name}, and its log tells of none."]

    # -- the key

    def _key(self) -> str:
        facts = self._facts
        where = f"{facts['key']} exists in {self._region}"
        if facts["hidden"]:
            return f"{facts['key']} is hidden in {self._region}: its deadline has passed."
        if not facts["exists"]:
            return f"{facts['key']} does not exist in {self._region}."
        entries = counted(facts["length"], "entry", "entries")
        return f"{where}: {entries}, last ID {facts['last_id']}."

    def _reach(self) -> str:
        log = self._facts["log"]
        if log["since_ms"] is None:
            return f"The log of {self._region} is empty."
        if log["is_whole"]:
            return f"The log of {self._region} holds its whole history."
        since = f"The log of {self._region} goes back to {local_time(log['since_ms'])}"
        if log["left_out"]:
            return f"{since}; {counted(log['left_out'], 'older event')} of this key are left out."
        return f"{since}. It holds no event before that."

    # -- an entry

    def _entry(self, entry: Facts) -> list[str]:
        if "absence" in entry:
            return self._absence(entry["id"], entry["absence"])
        lines: list[str] = []
        for add in entry["adds"]:
            lines += self._add(entry["id"], add)
        return lines

    def _add(self, entry_id: str, add: Facts) -> list[str]:
        names, region = self._names, self._region
        lines = [f"Entry {entry_id} ({names.effect(add['dot'])}) {self._fate(add)}"]
        added = add["added"]
        if added is None:
            lines.append("  No log that was read still holds its add.")
        else:
            lines.append(
                f"  {names.act(added)} added it{_of_other_key(added)}{_of_pair(added)},"
                f" {moment(added['applied_ms'])}"
                f" on the clock of {names.region(added['told_by'])}."
            )
        lines += [f"  {self._applied(one)}" for one in add["applied"]]
        if add["silent"]:
            lines.append(f"  {joined(add['silent'])} did not answer: what is there is not known.")
        for event in add.get("survived", []):
            lines.append(f"  {self._survived(event, add['dot'])}")
        for delivery in add["deliveries"]:
            lines += [f"  {line}" for line in self._delivery(delivery)]
        if add["fate"] == "removed-before-snapshot":
            lines.append(
                f"  {region} learned of its removal with that snapshot or before, and of no reason."
            )
        return lines

    def _fate(self, add: Facts) -> str:
        region, names = self._region, self._names
        fate = add["fate"]
        if fate == "present":
            return f"is there in {region}."
        if fate == "hidden":
            return f"is there in {region}, but the key is hidden: its deadline has passed."
        if fate == "not-arrived":
            origin = names.region(add["dot"][0])
            return (
                f"has not arrived in {region}, which has applied effects of {origin}"
                f" up to {add['applied_up_to']}."
            )
        if fate == "removed":
            removed = add["removed"]
            told = (
                ""
                if names.region(removed["told_by"]) == region
                else f", as the log of {names.region(removed['told_by'])} tells"
            )
            verb, doubt = "removed it", ""
            if not removed["is_certain"]:
                verb = "names it"
                doubt = " Whether another effect removed it before is not known."
            return (
                f"is not there in {region}: {names.act(removed)} {verb},"
                f" {moment(removed['applied_ms'])}{told}.{self._had_seen(removed)}{doubt}"
            )
        if fate == "removed-before-snapshot":
            snapshot = add["snapshot"]
            return (
                f"is not there in {region}: it was gone when {region} joined a snapshot of"
                f" {names.region(snapshot['source'])}, {moment(snapshot['applied_ms'])}."
            )
        if fate == "removed-left-out":
            older = counted(add["left_out"], "older event")
            return (
                f"is not there in {region}: it was removed before the events that were read;"
                f" {older} of this key were left out."
            )
        return (
            f"is not there in {region}: it was removed before"
            f" {local_time(add['log_begins_ms'])}, where the log of {region} begins;"
            " no log that was read tells by which command."
        )

    def _had_seen(self, removed: Facts) -> str:
        if "had_seen" not in removed:
            return ""
        verb = "It removes" if removed["kind"] == "trim" else "It had seen"
        return f" {verb} {self._names.vector(removed['had_seen'])}."

    def _applied(self, one: Facts) -> str:
        names = self._names
        region = names.region(one["region"])
        if one["at_ms"] is None:
            return f"{region} has applied it; its log does not show when."
        source = f", from {names.region(one['source'])}" if one["source"] else ""
        return f"{region} applied it at {local_time(one['at_ms'])}{source}."

    def _survived(self, event: Facts, dot: Any) -> str:
        names = self._names
        seen = event["had_seen"].get(int(dot[0]), 0)
        verb = "it removes" if event["kind"] == "trim" else "it had seen"
        reason = f"{verb} effects of {names.region(dot[0])} only up to {seen}"
        if event["is_certain"]:
            return f"It survived {names.act(event)}, which is concurrent: {reason}."
        return (
            f"{names.act(event)} did not remove it: {reason}. Whether the two are concurrent is not"
            " known: the logs that were read do not tell."
        )

    def _absence(self, entry_id: str, absence: Facts) -> list[str]:
        names, region, key = self._names, self._region, self._facts["key"]
        if absence["is_proven"]:
            line = (
                f"Entry {entry_id} was never added to {key} by an effect that {region} has"
                " applied: the logs that were read hold all of them"
                f" ({names.vector(absence['applied'])})."
            )
        else:
            cut = (
                f"{counted(absence['left_out'], 'older event')} of this key were left out"
                if absence["left_out"]
                else f"the log of {region} begins at {local_time(absence['log_begins_ms'])}"
            )
            line = (
                f"Entry {entry_id} is not in {key} in {region}, and no log that was read holds an"
                f" add with this ID. Whether it was added and removed before is not known: {cut}."
            )
        lines = [line]
        if absence["not_arrived"]:
            lines.append(
                f"  Effects that other regions hold have not arrived in {region}:"
                f" {names.vector(absence['not_arrived'])}; none that was read adds this ID."
            )
        if absence["silent"]:
            lines.append(
                f"  {joined(absence['silent'])} did not answer: an add there that has not arrived"
                " is not known."
            )
        return lines

    # -- deliveries

    def _delivery(self, delivery: Facts) -> list[str]:
        lines = [f"Group {delivery['group']}: {self._status(delivery)}"]
        lines += [f"  {_step(step, self._region)}" for step in delivery["here"]]
        for one in delivery["acknowledged"]:
            lines.append(
                f"  {self._names.effect(one['effect'])} announced its acknowledgement;"
                f" {self._region} applied that at {local_time(one['applied_ms'])}."
            )
        for other in delivery["elsewhere"]:
            region = self._names.region(other["region"])
            lines += [f"  {_step(step, region)}" for step in other["steps"]]
        if delivery["here"] and delivery["elsewhere"]:
            lines.append(
                "  Regions deliver independently, so several delivered it, until an announced"
                " acknowledgement arrived."
            )
        return lines

    def _status(self, delivery: Facts) -> str:
        region = self._region
        status = delivery["status"]
        if status == "pending":
            return f"it is pending in {region} for consumer {delivery['consumer']}."
        if status == "acknowledged":
            return "it is acknowledged, and every region hears so: no region delivers it again."
        if status == "rewound":
            return (
                f"it is acknowledged, but SETID went back below it in {region}: the next read with"
                " > may deliver it there again."
            )
        if status == "given":
            return (
                f"it is acknowledged in {region}, and not announced to other regions: only runs"
                " without a gap are announced."
            )
        if status == "dropped":
            return (
                f"it was pending in {region} for a consumer that was deleted there, so it is"
                " neither pending nor acknowledged; a read with > does not deliver it again."
            )
        if status == "deliverable":
            if delivery["here"]:
                return f"it is not given in {region}; the next read with > may deliver it again."
            return f"it was not delivered in {region} yet; the next read with > may deliver it."
        return f"{region} does not deliver it: it lies below the group's start or floor there."

    # -- groups

    def _group(self, group: Facts) -> list[str]:
        state = "is there" if group["is_live"] else "is not there"
        lines = [f"Group {group['name']} {state} in {self._region}."]
        for create in group["creates"]:
            lines += [f"  {line}" for line in self._create(create)]
        return lines

    def _create(self, create: Facts) -> list[str]:
        names = self._names
        created = create["created"]
        start = create["start"]
        begins = (
            f"from {start}"
            if isinstance(start, str)
            else f"from what its creator had not seen ({names.vector(vector_of(start))} was seen)"
        )
        when = "" if created is None else f", applied {moment(created['applied_ms'])}"
        act = names.effect(create["dot"]) if created is None else names.act(created)
        line = f"{act} created it, {begins}{when}"
        if create["is_live"]:
            lines = [f"{line}; it lives."]
            survived = create["survived"]
            if len(survived) > _SURVIVED_SHOWN:
                older = counted(
                    len(survived) - _SURVIVED_SHOWN, "earlier removal", "earlier removals"
                )
                lines.append(f"  Its creator had applied {older}, so none of them ended it.")
            for event in survived[-_SURVIVED_SHOWN:]:
                lines.append(f"  {names.act(event)} did not end it: its creator had applied that.")
            spans = [
                f"{names.region(region)} {int(low) + 1}–{high}"
                for region, low, high in create["acked"]
            ]
            lines.append(f"  Acknowledged everywhere: {', '.join(spans) or 'nothing'}.")
            return lines
        destroyed = create["destroyed"]
        if destroyed is None:
            return [f"{line}; it is gone, and the log does not show which effect ended it."]
        reason = {
            True: "which had seen it",
            False: "which had not seen it: of a create and a concurrent destroy, the destroy wins",
            None: "which the create had not seen: the destroy wins",
        }[destroyed["had_seen_create"]]
        if not destroyed["is_certain"]:
            reason += ", or another effect before"
        return [f"{line}; {names.act(destroyed)} ended it, {reason}."]

    # -- deadlines and removals

    def _deadline(self, deadline: Facts) -> list[str]:
        names = self._names
        at_ms = deadline["at_ms"]
        what = "never expires" if at_ms is None else f"expires at {local_time(at_ms)}"
        act = names.effect(deadline["dot"])
        if deadline["set"] is not None:
            act = names.act(deadline["set"])
        wins = "this deadline is in force" if deadline["wins"] else "a longer deadline wins"
        return [f"The key {what}, says {act}; {wins}."]

    def _removals(self) -> list[str]:
        removals = self._facts["removals"]
        if not removals:
            return []
        lines = ["Removals that the log holds, oldest first:"]
        if len(removals) > _REMOVALS_SHOWN:
            older = len(removals) - _REMOVALS_SHOWN
            lines.append(f"  … {older} older ones; `anabranch log` shows them")
        for removal in removals[-_REMOVALS_SHOWN:]:
            took = self._taken(removal["dots"]) or self._had_seen(removal).strip()
            act = self._names.act(removal)
            lines.append(f"  {moment(removal['applied_ms'])}: {act}. {took}".rstrip())
        return lines

    def _taken(self, dots: list[Any]) -> str:
        if not dots:
            return ""
        more = f" and {len(dots) - _DOTS_SHOWN} more" if len(dots) > _DOTS_SHOWN else ""
        effects = ", ".join(self._names.effect(dot) for dot in dots[:_DOTS_SHOWN])
        return f"It removed the entries of {effects}{more}."


def _of_other_key(added: Facts) -> str:
    return f" from {added['other_key']}" if "other_key" in added else ""


def _of_pair(added: Facts) -> str:
    return f" with the pair {added['pid']}, {added['iid']}" if "pid" in added else ""


def _step(step: Facts, region: str) -> str:
    """A local record as a sentence."""
    when = f"in {region} at {local_time(step['at_ms'])}"
    kind = step["kind"]
    if kind == "delivered":
        no_ack = ", without waiting for an acknowledgement (NOACK)" if step["no_ack"] else ""
        return f"Delivered {when} to consumer {step['consumer']}{no_ack}."
    if kind == "claimed":
        return (
            f"Claimed {when} by consumer {step['consumer']}"
            f" ({counted(step['deliveries'], 'delivery', 'deliveries')} so far)."
        )
    if kind == "left-pel":
        if step["is_acknowledged"]:
            return f"Acknowledged {when}."
        return f"Acknowledged {when}, or no longer pending because the entry had been removed."
    if kind == "consumer-deleted":
        return f"Consumer {step['consumer']} was deleted {when}; its pending entries are dropped."
    if kind == "create-group":
        return f"The group was created again, applied {when}: it delivers from its own start."
    return f"The floor was set to {step['floor']} {when}."
