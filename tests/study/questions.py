"""Questions to the regions of a simulated run: CRDT.EXPLAIN, sent as a client sends it.

The regions answer while load and faults go on, from the logs on their simulated disks. A region
that is down, cut off by a kill, or slow does not answer in time.
"""

from __future__ import annotations

from random import Random
from typing import Any, Final, Optional

from anabranch.crdt.effects import RemoveEntries
from anabranch.region.engine.replies import ErrorReply, MapReply
from anabranch.sim.arguments import shown
from anabranch.sim.history import Operation, Words
from anabranch.sim.load.client import Client
from anabranch.sim.logged import Add
from anabranch.sim.plan import ClientPlan
from anabranch.sim.world.world import World
from tests.study.truth import Truth
from tests.study.views import View
from tests.support.replies import plain

# Numbers of the clients that ask; the plan's clients have lower ones.
_FIRST_NUMBER: Final = 10_000


class Asker(Client):
    """Asks one region once; `reply` is its answer."""

    def __init__(self, number: int, region: int) -> None:
        super().__init__(ClientPlan(number, "asker", region, (), 0), (region,), lambda _: "strict")
        self.reply: Optional[MapReply] = None

    def answered(self, operation: Operation) -> None:
        assert not isinstance(operation.reply, ErrorReply) or operation.reply.message[:4] == "ERR "
        if isinstance(operation.reply, MapReply):
            self.reply = operation.reply


class Question:
    """One key, and an entry ID or -1; `views`: the answers by region, once they are collected."""

    def __init__(self, key: bytes, wanted: int) -> None:
        self.key: Final = key
        self.wanted: Final = wanted
        self.views: dict[int, View] = {}
        # Regions whose history is not known: their answers are not judged, nor used.
        self.unknown = 0

    def words(self) -> Words:
        words: Words = (b"CRDT.EXPLAIN", self.key)
        return words if self.wanted < 0 else (*words, shown(self.wanted))


class Interviewer:
    """Asks the regions of one world, as `draw` decides."""

    def __init__(self, world: World, truth: Truth, draw: Random) -> None:
        self.world: Final = world
        self.truth: Final = truth
        self.draw: Final = draw
        self._number = _FIRST_NUMBER

    def question(self) -> Question:
        """A key, mostly with the ID of an entry: one of any region, present, removed, or none."""
        draw = self.draw
        key = draw.choice([*self.world.keys, *self.world.keys, b"never used"])
        if draw.random() < 0.25:
            return Question(key, -1)
        adds = [one for one in self.truth.effects.values() if isinstance(one, Add)]
        of_key = [add for add in adds if add.key == key]
        chance = draw.random()
        if of_key and chance < 0.3:
            return Question(key, draw.choice(of_key[-8:]).entry_id)
        removed = self._removed(key)
        if removed and chance < 0.5:
            return Question(key, draw.choice(removed[-8:]))
        if of_key and chance < 0.85:
            return Question(key, draw.choice(of_key).entry_id)
        if adds and chance < 0.95:
            # Mostly the ID of an entry of another key, or of one that is not committed yet.
            return Question(key, draw.choice(adds).entry_id + draw.choice([0, 1000]))
        return Question(key, draw.randrange(1 << 64))

    def _removed(self, key: bytes) -> list[int]:
        """The IDs of the entries that XDEL and the like have removed, the newest removals last."""
        effects = self.truth.effects
        dots = [
            dot
            for one in effects.values()
            if isinstance(one, RemoveEntries) and one.key == key
            for dot in one.dots
        ]
        adds = [effects.get(dot) for dot in dots]
        return [add.entry_id for add in adds if isinstance(add, Add)]

    def ask(self, wait_ms: int) -> Optional[Question]:
        """Asks all regions and waits; None if a backup was put back meanwhile."""
        world, restores = self.world, self.truth.restores
        question = self.question()
        askers: list[Asker] = []
        for region in world.plan.regions:
            self._number += 1
            asker = Asker(self._number, region)
            askers.append(asker)
            world.clients[asker.number] = asker
            world.send(asker, [question.words()])
        world.scheduler.run_until(world.scheduler.now_ms + wait_ms)
        for asker in askers:
            world.break_line(asker.number)
            del world.clients[asker.number]
        if self.truth.restores != restores:
            return None
        for asker in askers:
            if asker.reply is None:
                continue
            # Each byte becomes one character: values are binary.
            reply = self._cut(plain(asker.reply, "latin-1"))
            view = View(self.truth, reply, question.key, question.wanted)
            if view.life.is_blind or not view.is_past_known():
                question.unknown += 1
            else:
                question.views[view.region] = view
        return question

    def _cut(self, reply: dict[str, Any]) -> dict[str, Any]:
        """The reply; at times as a region with more events would answer: the newest ones only."""
        events = reply["events"]
        if len(events) < 2 or self.draw.random() < 0.85:
            return reply
        kept = self.draw.randrange(1, len(events))
        return {**reply, "events": events[-kept:], "left-out": len(events) - kept}
