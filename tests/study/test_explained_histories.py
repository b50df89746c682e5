"""Explanations of simulated histories against the truth.

In each run, clients ask all regions for keys and entry IDs, while load and faults go on, and again
at the end. Each region's reply, and each fact of the explanation that the replies give (all of
them, or some regions silent), is compared with the true history (`truth`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from anabranch.sim.draw import draw_plan
from anabranch.sim.plan import REGION_NAMES, Plan
from anabranch.sim.run import conclude
from anabranch.sim.twin.judge import Twin
from anabranch.sim.world.environment import EPOCH_MS
from anabranch.sim.world.faults import new_world
from anabranch.sim.world.world import World
from anabranch.study.history.explanation import explain
from anabranch.study.replies.histories import ExplainedHistory
from tests.study.delivery_judge import judge_deliveries
from tests.study.events_judge import judge_reply
from tests.study.facts_judge import Case, judge_entry
from tests.study.groups_judge import judge_key
from tests.study.questions import Interviewer, Question
from tests.study.truth import Truth
from tests.study.views import View
from tests.support.facts import facts_of

# Words of somebody who guesses. What is not known is named instead, with the reason.
GUESS = re.compile(r"\b(may have|might|perhaps|maybe|probably|possibly|presumably|seems?)\b")
# Questions of one run while the load goes on, and after the regions have converged.
_DURING = 3
_AFTER = 3
# How long a region may take to answer. Some answers come too late.
_WAITS_MS = (20, 80, 250)


class Explained:
    """One run and its explanations. `found`: what is wrong; `counts`: what was judged."""

    def __init__(self, seed: int, regions: int, ops: int) -> None:
        self.found: list[str] = []
        self.counts: Counter[str] = Counter()
        self._draw = Random(seed ^ 0x7E11)
        self._plan = _plan(seed, regions, ops)
        self._world = new_world(self._plan, [Truth, Twin])
        truth, self._twin = self._world.judges
        assert isinstance(truth, Truth)
        self._truth = truth
        self._interviewer = Interviewer(self._world, truth, self._draw)
        try:
            self._run(self._world)
        finally:
            self._world.close()

    def _run(self, world: World) -> None:
        world.begin()
        load_ms = self._plan.load_ms
        for at_ms in sorted(self._draw.randrange(load_ms) for _ in range(_DURING)):
            _until(world, EPOCH_MS + at_ms)
            self._question(self._draw.choice(_WAITS_MS), is_over=False)
        _until(world, EPOCH_MS + load_ms)
        conclude(world)
        for _ in range(_AFTER):
            self._question(max(_WAITS_MS), is_over=True)
        self.found += [f"simulator: {one}" for one in world.found]
        self.counts["restarts"] = sum(life.starts - 1 for life in self._truth.lives.values())

    def _question(self, wait_ms: int, is_over: bool) -> None:
        question = self._interviewer.ask(wait_ms)
        if question is None:
            self.counts["backup put back"] += 1
            return
        self.counts["questions"] += 1
        self.counts["unknown histories"] += question.unknown
        wrong = [
            f"reply of {view.name}: {text}"
            for view in question.views.values()
            for text in judge_reply(view)
        ]
        self.found += wrong
        if wrong:
            return  # No explanation of a wrong reply is right.
        for region in question.views:
            others = [one for one in question.views if one != region]
            self._explain(question, region, others, is_over)
            some = [one for one in others if self._draw.random() < 0.5]
            if some != others:
                self._explain(question, region, some, is_over)

    def _explain(self, question: Question, region: int, others: list[int], is_over: bool) -> None:
        names = {one: REGION_NAMES[one - 1] for one in self._plan.regions}
        silent = [names[one] for one in names if one != region and one not in others]
        told = {one: _history(question.views[one]) for one in (region, *others)}
        facts = facts_of(explain(told[region], [told[one] for one in others], silent, names))
        lines = facts.lines
        assert lines
        self.found += [f"a guess: {line}" for line in lines if GUESS.search(line)]
        self.counts["sentences"] += len(lines)
        self.counts["facts"] += leaves(facts)
        views = question.views
        case = Case(views[region], [views[one] for one in others], silent, facts)
        where = f"{names[region]} {question.words()} without {silent}: "
        self.found += [where + text for text in self._judge(case, is_over)]
        self._count(case)

    def _judge(self, case: Case, is_over: bool) -> Iterator[str]:
        yield from judge_key(case)
        if "entry" in case.facts:
            yield from judge_entry(case)
            assert isinstance(self._twin, Twin)
            twin = self._twin.regions.get(case.asked.region) if is_over else None
            yield from judge_deliveries(case, twin)

    def _count(self, case: Case) -> None:
        counts, facts = self.counts, case.facts
        counts["explanations"] += 1
        for group in facts["groups"]:
            counts["live groups" if group["is_live"] else "ended groups"] += 1
        counts["deadlines"] += len(facts["deadlines"])
        counts["removals"] += len(facts["removals"])
        if "entry" not in facts:
            return
        if "absence" in facts["entry"]:
            counts["never added" if facts["entry"]["absence"]["is_proven"] else "no add known"] += 1
        for add in facts["entry"]["adds"]:
            counts[add["fate"]] += 1
            for one in add.get("survived", ()):
                counts["survived" if one["is_certain"] else "survived in doubt"] += 1
            if not add.get("removed", {}).get("is_certain", True):
                counts["removed in doubt"] += 1
            for delivery in add["deliveries"]:
                counts[delivery["status"]] += 1


def _history(view: View) -> ExplainedHistory:
    """A view's reply as a history, with names as bytes."""
    return ExplainedHistory(_with_bytes(view.reply))


def _with_bytes(reply: Any) -> Any:
    if isinstance(reply, dict):
        return {name: _with_bytes(value) for name, value in reply.items()}
    if isinstance(reply, list):
        return [_with_bytes(value) for value in reply]
    return reply.encode("latin-1") if isinstance(reply, str) else reply


def leaves(facts: Any) -> int:
    """The single values in facts: each is compared with the true history."""
    if isinstance(facts, dict):
        return sum(leaves(one) for one in facts.values())
    if isinstance(facts, (list, tuple)):
        return sum(leaves(one) for one in facts)
    return 1


def _plan(seed: int, regions: int, ops: int) -> Plan:
    """The seed's plan. Every second one has short logs in all regions, so that logs lack much."""
    plan = draw_plan(seed, regions, ops)
    if seed % 2 == 0:
        return plan
    short = {"crdt-log-max-effects": "10", "crdt-checkpoint-interval-ms": "100"}
    return replace(plan, settings={one: {**plan.settings[one], **short} for one in plan.regions})


def _until(world: World, at_ms: int) -> None:
    if world.scheduler.now_ms < at_ms:
        world.scheduler.run_until(at_ms)


def explained(seeds: range, ops: int) -> Counter[str]:
    """Judges the runs of these seeds; fails with the first faults of each kind."""
    counts: Counter[str] = Counter()
    found: list[str] = []
    for seed in seeds:
        run = Explained(seed, 2 + seed % 3, ops)
        counts += run.counts
        found += [f"seed {seed}: {text}" for text in run.found]
    assert not found, "\n".join([f"{len(found)} faults", *found[:20]])
    return counts


def test_explanations_are_true() -> None:
    counts = explained(range(24), ops=200)
    assert counts["present"] and counts["removed"] and counts["not-arrived"]
    assert counts["live groups"] and counts["ended groups"] and counts["never added"]


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_explanations_of_200_histories_are_true() -> None:
    counts = explained(range(1000, 1200), ops=300)
    print(dict(counts))
    assert counts["questions"] > 1000 and not counts["unknown histories"]
    assert counts["restarts"] > 200
    for name in ("present", "hidden", "removed", "not-arrived", "survived"):
        assert counts[name], f"no entry was {name}"
    assert sum(counts[f"removed-{one}"] for one in ("before-snapshot", "before-log", "left-out"))
    for name in ("survived in doubt", "removed in doubt", "never added", "no add known"):
        assert counts[name], f"nothing was {name}"
    for name in ("pending", "acknowledged", "given", "below-floor"):
        assert counts[name], f"no delivery was {name}"
