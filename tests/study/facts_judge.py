"""Judges the facts about an entry in `study.history.explanation.explain` against the true history.

Each fact must be true. A fact that says that something is not known is right only if the logs that
were read cannot tell it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Optional

from anabranch.crdt import effects as fx
from anabranch.escapes import shown as escaped
from anabranch.sim.arguments import shown
from anabranch.sim.logged import Add, Dot
from tests.study.events_judge import is_named, is_time, kind_of, seen_in, text
from tests.study.views import SWEEPING, View, takes, tell_all

Facts = dict[str, Any]


def dot_of(pair: list[int]) -> Dot:
    return pair[0], pair[1]


class Case:
    """One explanation: the region in question, the others that answered, and the facts."""

    def __init__(self, asked: View, others: list[View], silent: list[str], facts: Facts) -> None:
        self.asked: Final = asked
        self.others: Final = others
        self.views: Final = [asked, *others]
        self.silent: Final = silent
        self.facts: Final = facts
        self.by_region: Final = {view.region: view for view in self.views}

    def told(self, dot: Dot) -> list[View]:
        """The regions whose logs, as read, tell an effect."""
        return [view for view in self.views if dot in view.told]

    def told_effects(self) -> list[Dot]:
        """All effects that the logs tell and that the region in question has applied."""
        found = {dot for view in self.views for dot in view.told if self.asked.has(dot)}
        return sorted(found, key=lambda dot: self.asked.places[dot])


def judge_effect(case: Case, facts: Facts, default: Optional[View] = None) -> Iterator[str]:
    """The facts of one effect, as the log of one region tells them."""
    dot = dot_of(facts["effect"])
    view = case.by_region[facts["told_by"]] if "told_by" in facts else default or case.asked
    where = f"effect {dot} told by {view.name}"
    if dot not in view.told:
        yield f"{where}: its log does not tell it"
        return
    effect = view.effect(dot)
    if facts["kind"] != kind_of(effect):
        yield f"{where}: kind {facts['kind']}, is {kind_of(effect)}"
    if not is_named(view, dot, facts["command"]):
        names = sorted(view.truth.commands_of(dot))
        yield f"{where}: command {facts['command']!r}, is {names}"
    if facts["source"] != view.applied[dot].source:
        yield f"{where}: came from {facts['source']}, is {view.applied[dot].source}"
    if not is_time(view, dot, facts["applied_ms"]):
        yield f"{where}: applied at {facts['applied_ms']}, is {view.applied[dot].clock_ms}"
    seen = seen_in(effect)
    if seen is not None and facts["had_seen"] != {one: last for one, last in seen.items() if last}:
        yield f"{where}: had seen {facts['had_seen']}, is {seen}"
    if isinstance(effect, Add):
        if facts["id"] != text(effect.shown_id):
            yield f"{where}: ID {facts['id']}, is {text(effect.shown_id)}"
        if (facts.get("pid", ""), facts.get("iid", "")) != (
            escaped(effect.pid),
            escaped(effect.iid),
        ):
            yield f"{where}: pair {facts.get('pid')} {facts.get('iid')}, is {effect.pid!r}"
    if "other_key" in facts and not facts["command"].startswith("RENAME"):
        yield f"{where}: another key {facts['other_key']} without a RENAME"
    if facts["command"].startswith("RENAME") and isinstance(effect, (Add, fx.Delete)):
        if "other_key" not in facts:
            yield f"{where}: a RENAME without the other key"


def judge_entry(case: Case) -> Iterator[str]:
    """The facts about the entry ID."""
    entry = case.facts["entry"]
    if entry["id"] != shown(case.asked.wanted).decode():
        yield f"entry: ID {entry['id']}"
    expected = _known_adds(case)
    found = [dot_of(add["dot"]) for add in entry["adds"]]
    if found != sorted(expected):
        yield f"entry: the adds are {found}; the regions tell {sorted(expected)}"
        return
    if not expected:
        yield from _absence(case, entry["absence"])
    for add in entry["adds"]:
        yield from _add(case, add)


def _known_adds(case: Case) -> set[Dot]:
    """The adds of the ID that the states, the logs or the records of the regions tell."""
    found: set[Dot] = set()
    for view in case.views:
        for dot in view.adds():
            if dot in view.told or dot in view.state.adds:
                found.add(dot)
        found |= view.entry_dots_in_records()
    return found


def _absence(case: Case, facts: Facts) -> Iterator[str]:
    asked = case.asked
    if facts["is_proven"] and asked.adds():
        yield f"absence: proven, but {asked.adds()} was applied"
    if not facts["is_proven"] and tell_all(case.views, asked.vector):
        yield "absence: not proven, though the logs hold every effect"
    missing: dict[int, int] = {}
    for view in case.others:
        for one, counter in view.vector.items():
            if counter > max(asked.vector.get(one, 0), missing.get(one, 0)):
                missing[one] = counter
    if facts["not_arrived"] != missing:
        yield f"absence: not arrived {facts['not_arrived']}, is {missing}"
    if facts["silent"] != case.silent or facts["applied"] != asked.vector:
        yield "absence: silent regions or vector"
    if facts["left_out"] != asked.left_out or facts["log_floor"] != asked.floor:
        yield "absence: left out or floor"


def _add(case: Case, facts: Facts) -> Iterator[str]:
    dot, asked = dot_of(facts["dot"]), case.asked
    where = f"add {dot}"
    tellers = case.told(dot)
    added = facts["added"]
    if added is None:
        if tellers:
            yield f"{where}: added is not known, {[view.name for view in tellers]} tell"
    else:
        if added["effect"] != facts["dot"]:
            yield f"{where}: added is {added['effect']}"
        if dot[0] in (view.region for view in tellers) and added["told_by"] != dot[0]:
            yield f"{where}: told by {added['told_by']}, not by its own region"
        yield from judge_effect(case, added)
    yield from _applied(case, dot, facts["applied"])
    if facts["silent"] != case.silent:
        yield f"{where}: silent are {facts['silent']}"
    fate = facts["fate"]
    if not asked.has(dot):
        expected = "not-arrived"
    elif dot in asked.state.adds:
        expected = "hidden" if asked.is_hidden() else "present"
    else:
        expected = "removed"
    if not fate.startswith(expected):
        yield f"{where}: fate {fate}, is {expected}"
    elif expected == "not-arrived":
        if facts["applied_up_to"] != asked.vector.get(dot[0], 0):
            yield f"{where}: applied up to {facts['applied_up_to']}"
    elif expected == "removed":
        yield from _removed(case, dot, facts)
    else:
        yield from _survived(case, dot, facts["survived"])


def _applied(case: Case, dot: Dot, facts: list[Facts]) -> Iterator[str]:
    expected = [view.region for view in case.views if view.has(dot)]
    if [one["region"] for one in facts] != expected:
        yield f"add {dot}: applied in {facts}; it is in {expected}"
        return
    for one in facts:
        view = case.by_region[one["region"]]
        if one["at_ms"] is None:
            if dot in view.told:
                yield f"add {dot}: the time in {view.name} is not known, its log tells it"
        elif not is_time(view, dot, one["at_ms"]) or one["source"] != view.applied[dot].source:
            yield f"add {dot}: applied in {view.name} at {one}, is {view.applied[dot].clock_ms}"


# -- removed


def _removed(case: Case, dot: Dot, facts: Facts) -> Iterator[str]:
    asked, key = case.asked, case.asked.key
    where = f"removed {dot}"
    told = [one for one in case.told_effects() if takes(asked.effect(one), key, dot)]
    first = asked.first_removals(dot)
    if facts["fate"] == "removed":
        removed = facts["removed"]
        one = dot_of(removed["effect"])
        yield from judge_effect(case, removed)
        if not asked.has(one) or not takes(asked.effect(one), key, dot):
            yield f"{where}: {one} does not take it"
        elif removed.get("is_certain", True):
            if one not in first:
                yield f"{where}: by {one} for certain; first came {first}, which tells {told}"
        elif one not in first and first[0] in told and _is_first_known(case, dot, told):
            yield f"{where}: by {one} in doubt; the logs tell that {first} came first"
        elif _is_first_known(case, dot, told):
            yield f"{where}: by {one} in doubt, though the logs tell that it came first"
        return
    if told:
        yield f"{where}: {facts['fate']}, but the logs tell {told}"
    if facts["fate"] == "removed-before-snapshot":
        snapshot = facts["snapshot"]
        joins = [
            join
            for join in asked.life.joins
            if (join.source, join.clock_ms) == (snapshot["source"], snapshot["applied_ms"])
        ]
        if not joins:
            yield f"{where}: no snapshot {snapshot} was joined"
        elif not any(asked.applied[first[0]].step <= join.step for join in joins):
            yield f"{where}: before the snapshot {snapshot}; {first} came later"
    elif asked.left_out:
        if facts["fate"] != "removed-left-out":
            yield f"{where}: {facts['fate']}, though events are left out"
    else:
        begins_ms = asked.reply["log-ms"]
        if facts["log_begins_ms"] != begins_ms:
            yield f"{where}: the log begins at {facts['log_begins_ms']}, is {begins_ms}"
        if begins_ms and asked.applied[first[0]].clock_ms > begins_ms:
            yield f"{where}: before the log begins at {begins_ms}; {first} came later"


def _is_first_known(case: Case, dot: Dot, told: list[Dot]) -> bool:
    """Whether the logs tell which effect took an entry first.

    They do if this region's log has add and removal without a snapshot between them, and if the
    logs hold everything and tell one removal.
    """
    asked = case.asked
    here = [one for one in told if one in asked.told]
    if dot in asked.told and here and not asked.joined_after(dot, until=here[0]):
        return True
    return len(told) == 1 and tell_all(case.views, asked.vector)


# -- survived


def _survived(case: Case, dot: Dot, facts: list[Facts]) -> Iterator[str]:
    """Exactly the concurrent removals that did not take the entry, as far as the logs tell."""
    asked, truth = case.asked, case.asked.truth
    listed = {dot_of(one["effect"]): one for one in facts}
    if len(listed) != len(facts):
        yield f"survived {dot}: an effect is listed twice"
    concurrent = set(asked.survived(dot))
    for one in case.told_effects():
        effect = asked.effect(one)
        if not isinstance(effect, SWEEPING) or takes(effect, asked.key, dot):
            continue
        where = f"survived {dot}: {kind_of(effect)} {one}"
        fact = listed.pop(one, None)
        if fact is None:
            if one in concurrent:
                yield f"{where} is concurrent and not listed"
            continue
        yield from judge_effect(case, fact)
        if fact["is_certain"]:
            if one not in concurrent:
                reason = "had seen the add" if truth.has_seen(one, dot) else "the add had seen it"
                yield f"{where} is listed for certain; it is not concurrent: {reason}"
        elif _is_relation_known(case, one, dot):
            yield f"{where} is in doubt, though the logs tell (concurrent: {one in concurrent})"
    for one in listed:
        yield f"survived {dot}: {one} is no removal that this region has applied"


def _is_relation_known(case: Case, removal: Dot, add: Dot) -> bool:
    """Whether the logs tell if the two are concurrent: one had seen the other, or neither."""
    truth = case.asked.truth
    knows = [knows_seen(case, add, removal)]
    if isinstance(case.asked.effect(removal), fx.Trim):
        knows.append(knows_seen(case, removal, add))
        if any(
            known and truth.has_seen(*pair)
            for known, pair in zip(knows, [(add, removal), (removal, add)], strict=True)
        ):
            return True
    return all(knows)


def knows_seen(case: Case, later: Dot, earlier: Dot) -> bool:
    """Whether the logs tell if the region that issued `later` had applied `earlier` before.

    An effect comes after those that its region had seen, in every log. So a log with the reverse
    order, or without `earlier`, tells that it had not. The log of its own region tells either way,
    unless the effect came back from a peer after a restore.
    """
    if later[0] == earlier[0]:
        return True
    for view in case.views:
        if not view.has(later):
            continue
        if not view.has(earlier):
            return True
        is_own = view.region == later[0] and view.applied[later].source == 0
        if later in view.told and earlier in view.told:
            if is_own or view.places[later] < view.places[earlier]:
                return True
        elif is_own and later in view.told:
            # `earlier` is older than the log, unless it came with a snapshot.
            return not view.joined_after(later)
    return False
