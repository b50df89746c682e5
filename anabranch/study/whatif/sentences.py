"""An answer as sentences: the sum first, then each key, then what is not known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from anabranch.crdt import ids
from anabranch.crdt.vector import covers
from anabranch.escapes import shown
from anabranch.plural import counted, joined, listed
from anabranch.study.history.wording import RegionNames, local_time
from anabranch.study.replies.events import KeyEvent
from anabranch.study.whatif.answer import Answer
from anabranch.study.whatif.deliveries import Deliveries, Repeated
from anabranch.study.whatif.losses import Losses
from anabranch.study.whatif.survivors import Entries

# How the entries that would be delivered again stand in the lost region.
_STATES: Final = {
    "pending": "pending",
    "acknowledged": "acknowledged there alone",
    "dropped": "dropped with their consumer",
    "removed": "removed there, most of them after their delivery",
    "destroyed": "delivered before their group was destroyed there",
}
# The smaller totals: noun, its plural, and what becomes of them.
_SMALLER: Final = (
    ("groups_created", "group", "", "would be gone"),
    ("groups_destroyed", "destroyed group", "", "would be back"),
    ("deadlines", "deadline", "", "would be lost"),
    (
        "windows",
        "configuration of idempotent adds",
        "configurations of idempotent adds",
        "would be lost",
    ),
    ("last_ids", "last ID set by hand", "last IDs set by hand", "would be lost"),
    ("pairs", "idempotent pair", "", "would be forgotten"),
    ("acknowledged", "acknowledgement", "", "would be forgotten"),
)


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _entries(count: int) -> str:
    return counted(count, "entry", "entries")


class AnswerText:
    """The sentences of one answer."""

    def __init__(self, answer: Answer) -> None:
        self._answer: Final = answer
        self._survey: Final = answer.survey
        self._names: Final = RegionNames(dict(answer.names))
        self._region: Final = answer.names[answer.survey.lost]

    def lines(self) -> list[str]:
        """All sentences, a line each; lines that add to the one above are indented."""
        return list(self._lines())

    def _lines(self) -> Iterator[str]:
        if self._survey.lost_vector is None:
            yield from self._silence()
        else:
            yield self._sum()
        for losses in self._answer.losses:
            yield from self._key(losses)
        for group in self._answer.deliveries:
            yield from self._group(group)
        yield from self._limits()

    # -- the sum

    def _sum(self) -> str:
        totals = self._answer.totals
        parts: list[str] = []
        if totals.entries:
            keys = counted(totals.keys_with_entries, "key")
            parts.append(f"{_entries(totals.entries)} in {keys} would be lost")
        if totals.removals:
            removals = counted(totals.removals, "removal")
            parts.append(f"{_entries(totals.returning)} would be back from {removals}")
        for name, noun, nouns, verb in _SMALLER:
            if count := getattr(totals, name):
                parts.append(f"{counted(count, noun, nouns)} {verb}")
        for region, count in totals.again.items():
            if count:
                parts.append(f"{region} would deliver {_entries(count)} again")
        consequences = joined(parts) or "nothing would be lost or delivered again"
        return f"If {self._region} vanished now, {consequences}."

    def _silence(self) -> Iterator[str]:
        region, known = self._region, self._survey.vector_of_lost()
        yield f"{region} does not answer, so nobody knows which effects it alone has."
        if known:
            had = self._names.vector(known)
            yield f"  The others know that it had at least {had} on its disk."
        else:
            yield "  The others do not know of anything that it had on its disk."
        for other, vector in self._survey.vectors.items():
            yield f"  {self._names.region(other)} has {self._names.vector(vector)}."
        yield (
            f"  Effects that {region} issued after that would be lost if it never came back."
            " Its deliveries, and acknowledgements that it had not announced, are not known either."
        )

    # -- one key

    def _key(self, key: Losses) -> Iterator[str]:
        name, region, count = shown(key.key), self._region, len(key.entries)
        if count:
            ones = self._listed(key.entries)
            yield f"{_entries(count)} of {name} {_are(count)} only in {region}: {ones}."
            for silent, vector in self._survey.known.items():
                if there := sum(covers(vector, *dot) for dot in key.entries):
                    yield (
                        f"  {self._names.region(silent)}, which does not answer, is known to have"
                        f" {there} of them."
                    )
        for removal in self._last(key.removals):
            act = self._names.act(removal)
            yield f"{act[0].upper()}{act[1:]} on {name} would be undone."
        yield from self._more(key.removals, "removal")
        if key.returning:
            ones = self._listed(key.returning)
            yield f"  {_entries(len(key.returning))} would be back: {ones}."
        for group in key.groups_created:
            yield f"Group {shown(group)} of {name} is only in {region}."
        for group in key.groups_destroyed:
            yield f"Group {shown(group)} of {name} was destroyed in {region} and would be back."
        yield from self._settings(key, name)

    def _settings(self, key: Losses, name: str) -> Iterator[str]:
        for deadline in self._last(key.deadlines):
            value = "never" if deadline.at_ms is None else local_time(deadline.at_ms)
            yield f"The deadline of {name}, {value}, is only known in {self._region}."
        yield from self._more(key.deadlines, "deadline")
        for window in self._last(key.windows):
            yield (
                f"{name} keeps idempotent IDs for {window.duration_s} s, at most"
                f" {window.maxsize}: that is only known in {self._region}."
            )
        yield from self._more(key.windows, "configuration")
        for last in self._last(key.last_ids):
            yield f"The last ID {last.id} of {name}, set by {self._names.act(last)}, would be lost."
        yield from self._more(key.last_ids, "last ID")
        if count := len(key.pairs):
            pairs = self._shown([f"{shown(pid)} {shown(iid)}" for pid, iid in key.pairs])
            yield (
                f"{counted(count, 'idempotent pair')} of {name}"
                f" {_are(count)} only known in {self._region}: {pairs}."
                " A retry elsewhere would add its entry anew."
            )

    # -- one group

    def _group(self, group: Deliveries) -> Iterator[str]:
        region, pending, acknowledged = self._region, group.pending, group.acknowledged
        yield f"Group {shown(group.group)} of {shown(group.key)}:"
        if pending:
            consumers = ", ".join(
                f"{shown(one)} {count}" for one, count in group.consumers if count
            )
            yield f"  {_entries(pending)} {_are(pending)} pending in {region}, for: {consumers}."
        if count := len(acknowledged):
            yield (
                f"  {_entries(count)} {_are(count)} acknowledged in {region}, and no other region"
                f" has heard of that ({group.unannounced} not announced yet):"
                f" {self._listed(acknowledged)}."
            )
        for repeated in group.repeated:
            yield f"  {self._again(self._names.region(repeated.region), repeated)}"

    def _again(self, region: str, again: Repeated) -> str:
        if not again.has_group:
            return f"The group would not be in {region}: a read there gets NOGROUP."
        if not again.entries:
            return f"{region} would deliver none of its entries again."
        states = ", ".join(f"{count} {_STATES[state]}" for state, count in again.counts().items())
        return (
            f"{region} would deliver {_entries(len(again.entries))} again"
            f" ({states}): {self._listed(again.entries)}."
        )

    # -- what is not known

    def _limits(self) -> Iterator[str]:
        survey, region, names = self._survey, self._region, self._names
        for origin, (low, high) in survey.ahead().items():
            count = high - low
            yield (
                f"Of the effects of {names.region(origin)}, {counted(count, 'effect')}"
                f" ({low + 1} to {high}) {_are(count)} only on the disk of"
                f" {region}, of the regions that answer."
            )
        for origin, (low, high) in sorted(survey.unread.items()):
            yield (
                f"The effects {low + 1} to {high} of {names.region(origin)} were not read in"
                f" {region}, because its log does not reach back so far or holds too many."
                " Entries and groups are counted; removals, deadlines and pairs among these"
                " effects are not."
            )
        if silent := self._answer.silent:
            verb = "does" if len(silent) == 1 else "do"
            yield (
                f"{joined(silent)} {verb} not answer, so entries there do not count as"
                " kept, and effects that nobody else has are not known."
            )
        if survey.keys_asked < survey.keys_total:
            yield (
                f"{survey.keys_asked} of {survey.keys_total} keys were looked at; --keys N"
                " looks at more."
            )
        for key in survey.keys:
            if key.is_cut:
                yield (
                    f"{shown(key.key)} holds more entries than were read: its numbers are lower"
                    " bounds."
                )
        if survey.lost_vector is not None:
            yield (
                f"Later commands in {region} are not counted. Deliveries are told for the"
                " time when the other regions have exchanged all that they have."
            )

    # -- lists

    def _last(self, effects: list[KeyEvent]) -> list[KeyEvent]:
        return effects[-self._answer.listed :]

    def _more(self, effects: list[KeyEvent], noun: str) -> Iterator[str]:
        more = len(effects) - self._answer.listed
        if more > 0:
            yield f"  {counted(more, f'earlier {noun}')} more."

    def _listed(self, entries: Entries) -> str:
        return self._shown([ids.format_id(entry_id).decode() for entry_id in entries.values()])

    def _shown(self, words: Sequence[str]) -> str:
        return listed(words, self._answer.listed)
