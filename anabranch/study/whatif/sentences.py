"""The facts of `answer` as sentences: the sum first, then each key, then what is not known."""

from __future__ import annotations

from typing import Any, Final

from anabranch.plural import counted
from anabranch.study.history.wording import joined, local_time
from anabranch.study.whatif.answer import Facts

# How the entries that would be delivered again stand in the lost region.
_STATES: Final = {
    "pending": "pending",
    "acknowledged": "acknowledged there alone",
    "dropped": "dropped with their consumer",
    "removed": "removed there, most of them after their delivery",
    "destroyed": "delivered before their group was destroyed there",
}


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


class Teller:
    """Tells the facts of one answer, whose names are text."""

    def __init__(self, facts: Facts) -> None:
        self._facts: Final = facts
        self._region: Final = str(facts["region"])
        self._regions: Final[dict[int, str]] = {
            int(one): str(name) for one, name in facts["regions"].items()
        }

    def lines(self) -> list[str]:
        """All sentences, a line each; lines that add to the one above are indented."""
        lines = self._silence() if not self._facts["answers"] else [self._sum()]
        for key in self._facts["keys"]:
            lines += self._key(key)
        for group in self._facts["groups"]:
            lines += self._group(group)
        return lines + self._limits()

    # -- the sum

    def _sum(self) -> str:
        totals = self._facts["totals"]
        parts: list[str] = []
        if totals["entries"]:
            keys = counted(totals["keys_with_entries"], "key")
            parts.append(
                f"{counted(totals['entries'], 'entry', 'entries')} in {keys} would be lost"
            )
        if totals["removals"]:
            back = counted(totals["returning"], "entry", "entries")
            parts.append(f"{back} would be back from {counted(totals['removals'], 'removal')}")
        parts += self._smaller_parts(totals)
        for region, count in totals["again"].items():
            if count:
                again = counted(count, "entry", "entries")
                parts.append(f"{region} would deliver {again} again")
        if not parts:
            return f"If {self._region} vanished now, nothing would be lost or delivered again."
        return f"If {self._region} vanished now, {joined(parts)}."

    def _smaller_parts(self, totals: Facts) -> list[str]:
        parts: list[str] = []
        for name, noun, verb in (
            ("groups_created", "group", "would be gone"),
            ("groups_destroyed", "destroyed group", "would be back"),
            ("deadlines", "deadline", "would be lost"),
            ("windows", "configuration of idempotent adds", "would be lost"),
            ("last_ids", "last ID set by hand", "would be lost"),
            ("pairs", "idempotent pair", "would be forgotten"),
            ("acknowledged", "acknowledgement", "would be forgotten"),
        ):
            if totals[name]:
                plural = {"windows": "configurations of idempotent adds"}.get(name, "")
                plural = {"last_ids": "last IDs set by hand"}.get(name, plural)
                parts.append(f"{counted(totals[name], noun, plural)} {verb}")
        return parts

    def _silence(self) -> list[str]:
        facts = self._facts
        lines = [f"{self._region} does not answer, so nobody knows which effects it alone has."]
        if facts["vector"]:
            known = self._vector(facts["vector"])
            lines.append(f"  The others know that it had at least {known} on its disk.")
        else:
            lines.append("  The others do not know of anything that it had on its disk.")
        for name, vector in facts["others"].items():
            lines.append(f"  {name} has {self._vector(vector)}.")
        lines.append(
            f"  Effects that {self._region} issued after that would be lost if it never came back."
            " Its deliveries, and acknowledgements that it had not announced, are not known either."
        )
        return lines

    def _vector(self, vector: dict[Any, int]) -> str:
        parts = [
            f"{self._regions.get(int(one), one)} up to {counter}"
            for one, counter in sorted(vector.items(), key=lambda item: int(item[0]))
        ]
        return ", ".join(parts) or "nothing"

    # -- one key

    def _key(self, key: Facts) -> list[str]:
        name, region = key["key"], self._region
        lines: list[str] = []
        if key["entries"]["count"]:
            lines.append(
                f"{counted(key['entries']['count'], 'entry', 'entries')} of {name}"
                f" {_are(key['entries']['count'])} only in {region}: {_listed(key['entries'])}."
            )
            for silent, count in key["entries"]["also_in"].items():
                lines.append(
                    f"  {silent}, which does not answer, is known to have {count} of them."
                )
        for removal in key["removals"]["listed"]:
            lines.append(f"{self._act(removal)} on {name} would be undone.")
        _more(lines, key["removals"], "removal")
        if key["returning"]["count"]:
            lines.append(
                f"  {counted(key['returning']['count'], 'entry', 'entries')} would be back:"
                f" {_listed(key['returning'])}."
            )
        lines += [
            f"Group {group} of {name} is only in {region}." for group in key["groups_created"]
        ]
        lines += [
            f"Group {group} of {name} was destroyed in {region} and would be back."
            for group in key["groups_destroyed"]
        ]
        return lines + self._settings(key)

    def _settings(self, key: Facts) -> list[str]:
        name = key["key"]
        lines: list[str] = []
        for deadline in key["deadlines"]["listed"]:
            at = deadline["at_ms"]
            value = local_time(at) if isinstance(at, int) else "never"
            lines.append(f"The deadline of {name}, {value}, is only known in {self._region}.")
        _more(lines, key["deadlines"], "deadline")
        for window in key["windows"]["listed"]:
            lines.append(
                f"{name} keeps idempotent IDs for {window['duration_s']} s, at most"
                f" {window['maxsize']}: that is only known in {self._region}."
            )
        _more(lines, key["windows"], "configuration")
        for last in key["last_ids"]["listed"]:
            act = self._act(last)
            lines.append(f"The last ID {last['id']} of {name}, set by {act}, would be lost.")
        _more(lines, key["last_ids"], "last ID", "last IDs")
        if key["pairs"]["count"]:
            pairs = ", ".join(f"{pid} {iid}" for pid, iid in key["pairs"]["listed"])
            lines.append(
                f"{counted(key['pairs']['count'], 'idempotent pair')} of {name}"
                f" {_are(key['pairs']['count'])} only known in {self._region}: {pairs}"
                f"{_rest(key['pairs'])}. A retry elsewhere would add its entry anew."
            )
        return lines

    def _act(self, effect: Facts) -> str:
        origin, counter = effect["effect"]
        name = self._regions.get(int(origin), f"region {origin}")
        rules = {"expire": "The removal of an expired key"}
        doing = effect["command"] or rules.get(effect["kind"], "A removal of what was left")
        return f"{doing} in {name} (effect {counter} of {name})"

    # -- one group

    def _group(self, group: Facts) -> list[str]:
        lines = [f"Group {group['group']} of {group['key']}:"]
        if group["pending"]:
            consumers = ", ".join(f"{name} {count}" for name, count in group["consumers"] if count)
            lines.append(
                f"  {counted(group['pending'], 'entry', 'entries')} {_are(group['pending'])}"
                f" pending in {self._region}, for: {consumers}."
            )
        known = group["acknowledged"]
        if known["count"]:
            lines.append(
                f"  {counted(known['count'], 'entry', 'entries')} {_are(known['count'])}"
                f" acknowledged in {self._region}, and no other region has heard of that"
                f" ({known['unannounced']} not announced yet): {_listed(known)}."
            )
        for region, again in group["again"].items():
            lines.append(f"  {self._again(region, again)}")
        return lines

    def _again(self, region: str, again: Facts) -> str:
        if not again["has_group"]:
            return f"The group would not be in {region}: a read there gets NOGROUP."
        if not again["count"]:
            return f"{region} would deliver none of its entries again."
        states = ", ".join(f"{count} {_STATES[state]}" for state, count in again["states"].items())
        return (
            f"{region} would deliver {counted(again['count'], 'entry', 'entries')} again"
            f" ({states}): {_listed(again)}."
        )

    # -- what is not known

    def _limits(self) -> list[str]:
        facts = self._facts
        lines: list[str] = []
        for one in facts["only_there"]:
            count = one["to"] - one["from"] + 1
            lines.append(
                f"Of the effects of {one['origin']}, {counted(count, 'effect')}"
                f" ({one['from']} to {one['to']}) {_are(count)} only on the disk of"
                f" {self._region}, of the regions that answer."
            )
        for one in facts["unread"]:
            lines.append(
                f"The effects {one['from']} to {one['to']} of {one['origin']} were not read in"
                f" {self._region}, because its log does not reach back so far or holds too many."
                " Entries and groups are counted; removals, deadlines and pairs among these"
                " effects are not."
            )
        if facts["silent"]:
            verb = "does" if len(facts["silent"]) == 1 else "do"
            lines.append(
                f"{joined(facts['silent'])} {verb} not answer, so entries there do not count as"
                " kept, and effects that nobody else has are not known."
            )
        if facts["keys_asked"] < facts["keys_total"]:
            lines.append(
                f"{facts['keys_asked']} of {facts['keys_total']} keys were looked at; --keys N"
                " looks at more."
            )
        for key in facts["keys_cut"]:
            lines.append(f"{key} holds more entries than were read: its numbers are lower bounds.")
        if facts["answers"]:
            lines.append(
                f"Later commands in {self._region} are not counted. Deliveries are told for the"
                " time when the other regions have exchanged all that they have."
            )
        return lines


def _rest(listed: Facts) -> str:
    more = listed["count"] - len(listed["listed"])
    return f" and {more} more" if more else ""


def _more(lines: list[str], listed: Facts, noun: str, nouns: str = "") -> None:
    more = listed["count"] - len(listed["listed"])
    if more:
        lines.append(f"  {counted(more, f'earlier {noun}', nouns and f'earlier {nouns}')} more.")


def _listed(entries: Facts) -> str:
    return ", ".join(one["id"] for one in entries["listed"]) + _rest(entries)
