"""Simulated runs in which a region is killed for good, and the prediction made just before.

A run draws clients and faults of the network as `anabranch simulate` does. At a drawn moment the
clients stop, the regions that run are asked what would happen without one of them (through client
connections, in virtual time), and that region is killed. The others exchange what they have, and
every group is read to its end in one of them.

The truth comes from elsewhere than the prediction: from the entries in the regions before and
after, and from the replies of XREADGROUP that clients saw.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Final, NamedTuple, Optional

from anabranch.crdt.cursor import LogCursor
from anabranch.crdt.vector import Dot, Vector, covers, raise_to
from anabranch.region.engine.replies import ErrorReply, Reply
from anabranch.sim.draw import draw_plan
from anabranch.sim.history import Checker, Operation, Setup
from anabranch.sim.load.client import Client
from anabranch.sim.plan import ClientPlan, Fault, Intent, Plan, Step, shape_of
from anabranch.sim.replies import entries_by_key, entry_ids
from anabranch.sim.run import _converge
from anabranch.sim.world import faults
from anabranch.sim.world.draining import Drainer, _read_all, groups
from anabranch.sim.world.environment import EPOCH_MS
from anabranch.sim.world.region import SimulatedRegion
from anabranch.sim.world.world import World
from anabranch.study.replies.parts import id_of
from anabranch.study.whatif.asking import Bounds, Words, survey
from anabranch.study.whatif.deliveries import deliveries_of
from anabranch.study.whatif.losses import losses_of
from tests.support.replies import plain

# Faults after which a region still knows all that it has told its clients.
FAULTS: Final = (
    *("cut", "one-way cut", "isolation", "full partition", "ring", "flapping", "slow link"),
    *("reset", "half-open", "link down", "clock back", "clock forward", "client crash"),
)
_FOREVER_MS: Final = 10_000_000
_ASKER: Final = 950
_DRAINER: Final = 900
_CONSUMER: Final = 800

Entry = tuple[bytes, Dot]
"""(key, dot)"""


class Delivery(NamedTuple):
    """An entry that a group delivers."""

    key: bytes
    group: bytes
    entry_id: int


@dataclass
class Outcome:
    """Prediction and truth of one kill. `is_whole`: every lost effect was read."""

    predicted_lost: set[Entry] = field(default_factory=set)
    lost: set[Entry] = field(default_factory=set)
    predicted_back: set[Entry] = field(default_factory=set)
    back: set[Entry] = field(default_factory=set)
    predicted_again: set[Delivery] = field(default_factory=set)
    again: set[Delivery] = field(default_factory=set)
    lost_ids: set[tuple[bytes, int]] = field(default_factory=set)
    # Entries that arrived after the question, which no region but the victim held then.
    arrived_ids: set[tuple[bytes, int]] = field(default_factory=set)
    # Entries that are told to come back.
    back_ids: set[tuple[bytes, int]] = field(default_factory=set)
    is_whole: bool = True

    def missed(self) -> list[object]:
        """What happened and was not predicted.

        An entry on its way counts as lost. If it arrives after all, it may be delivered again. It
        may also come back, if a trim that removed it in the victim does not arrive. Without the
        whole log nobody knows what a group had delivered before it was destroyed, so an entry that
        is told to come back may be delivered again.
        """
        unforeseen = self.lost_ids | self.arrived_ids
        if not self.is_whole:
            unforeseen |= self.back_ids
        missed: list[object] = [*(self.lost - self.predicted_lost)]
        missed += [
            one
            for one in self.again - self.predicted_again
            if (one.key, one.entry_id) not in unforeseen
        ]
        if self.is_whole:
            missed += self.back - self.predicted_back
        return missed


class Deliveries(Checker):
    """Records which entries each region handed out with ``>``, and under which creates."""

    name = "deliveries"

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.world: Optional[World] = None
        # Region → (delivery, dots of the group's creates then).
        self.seen: dict[int, list[tuple[Delivery, frozenset[Dot]]]] = {}

    def executed(self, operation: Operation) -> None:
        """Takes the replies of XREADGROUP, and forgets what an XGROUP SETID rewinds."""
        replies: Sequence[Reply] = [operation.reply]
        if operation.queued and isinstance(operation.reply, list):
            replies = operation.reply
        for words, reply in zip(operation.commands(), replies, strict=False):
            if isinstance(reply, ErrorReply):
                continue
            if words[0].upper() == b"XREADGROUP":
                self._take(operation.region, words, reply)
            elif words[0].upper() == b"XGROUP" and words[1].upper() == b"SETID":
                self._rewind(operation.region, words[2], words[3], words[4])

    def _take(self, region: int, words: Sequence[bytes], reply: Reply) -> None:
        upper = [word.upper() for word in words]
        first = upper.index(b"STREAMS") + 1
        count = (len(words) - first) // 2
        above = dict(zip(words[first : first + count], words[first + count :], strict=True))
        group = words[upper.index(b"GROUP") + 1]
        for key, entries in entries_by_key(reply):
            if above[key] == b">":
                for entry_id in entry_ids(entries, len(entries)):
                    delivery = Delivery(key, group, id_of(entry_id))
                    its = frozenset(creates(self.region(region), key, group))
                    self.seen.setdefault(region, []).append((delivery, its))

    def _rewind(self, region: int, key: bytes, group: bytes, above: bytes) -> None:
        if above == b"$":
            return
        self.seen[region] = [
            (one, its)
            for one, its in self.seen.get(region, [])
            if (one.key, one.group) != (key, group) or one.entry_id <= id_of(above)
        ]

    def region(self, region_id: int) -> SimulatedRegion:
        assert self.world is not None
        return self.world.regions[region_id]


def creates(region: SimulatedRegion, key: bytes, group: bytes) -> list[Dot]:
    """The dots of the live creates of a group."""
    stream = region.engine.keyspace.get(key)
    if stream is None or group not in stream.groups:
        return []
    return list(stream.groups[group].creates)


def entries_in(region: SimulatedRegion) -> dict[Entry, int]:
    """The entries that clients of a region can see, with their IDs."""
    found: dict[Entry, int] = {}
    state = region.engine.state
    for key in sorted(state.keyspace.keys):
        stream = state.existing(key)
        for origin, log in sorted({} if stream is None else stream.logs.items()):
            cursor = LogCursor(log)
            cursor.seek_counter(0)
            while cursor.valid:
                found[key, (origin, cursor.counter)] = cursor.id()
                cursor.step()
    return found


class Asker(Client):
    """Sends the questions to one region, and keeps the replies."""

    def __init__(self, number: int, region: int) -> None:
        super().__init__(ClientPlan(number, "asker", region, (), 0), (region,), lambda _: "strict")
        self.replies: list[Reply] = []

    def answered(self, operation: Operation) -> None:
        self.replies.append(operation.reply)

    def lost(self, operation: Operation) -> None:
        raise AssertionError(f"the answer to {operation.argv!r} was lost")


class Run:
    """One run."""

    def __init__(self, seed: int) -> None:
        draw = Random(seed * 7919 + 3)
        plan = draw_plan(seed, draw.choice([3, 3, 4]), draw.choice([150, 400]), FAULTS)
        self.victim = draw.choice(plan.regions)
        self.target = draw.choice([one for one in plan.regions if one != self.victim])
        self.kill_ms = int(plan.load_ms * draw.uniform(0.4, 1.0))
        self.is_isolated = draw.random() < 0.8
        self.world = faults.new_world(self._planned(plan, draw), [Deliveries])
        (deliveries,) = self.world.judges
        assert isinstance(deliveries, Deliveries)
        deliveries.world = self.world
        self.deliveries = deliveries
        # What the other regions held together when they were asked.
        self.asked: Vector = {}
        self.outcome = Outcome()

    def _planned(self, plan: Plan, draw: Random) -> Plan:
        """The plan up to the kill; mostly the region is cut off some time before."""
        steps: list[Step] = [step for step in plan.steps if step.at_ms < self.kill_ms]
        if self.is_isolated:
            at_ms = max(1, self.kill_ms - draw.randint(20, 1500))
            other = self.target
            cut = Fault(at_ms, "isolation", (self.victim, other), _FOREVER_MS, draw.getrandbits(32))
            steps.append(cut)
        keys = plan.clients[0].keys
        consumers: list[ClientPlan] = []
        for number in range(_CONSUMER, _CONSUMER + draw.choice([1, 3, 5])):
            home = draw.choice([self.victim, self.victim, self.target])
            consumers.append(ClientPlan(number, "consumer", home, keys, draw.getrandbits(32)))
            steps += [
                Intent(draw.randrange(self.kill_ms), number, draw.getrandbits(48))
                for _ in range(80)
            ]
        links = plan.links
        if not self._is_connected(plan, links):
            links = shape_of("mesh", plan.regions)
        settings = {
            one: {**values, "crdt-start-patience-ms": "0"} for one, values in plan.settings.items()
        }
        return replace(
            plan,
            clients=(*plan.clients, *consumers),
            steps=tuple(sorted(steps, key=lambda step: step.at_ms)),
            links=links,
            settings=settings,
            loss=0.0,
        )

    def _is_connected(self, plan: Plan, links: Sequence[tuple[int, int]]) -> bool:
        rest = [one for one in plan.regions if one != self.victim]
        for start in rest:
            reached = [start]
            for one in reached:
                reached += [b for a, b in links if a == one and b in rest and b not in reached]
            if len(reached) < len(rest):
                return False
        return True

    def run(self) -> Outcome:
        """Runs to the end; the world is closed."""
        world = self.world
        world.begin()
        world.scheduler.run_until(EPOCH_MS + self.kill_ms)
        for number in list(world.lines):
            world.break_line(number)
        self._predict()
        before = entries_in(world.regions[self.victim])
        vector = dict(world.regions[self.victim].engine.vector)
        hidden = self._hidden_keys()
        self._kill()
        faults.heal(world)
        world.say_lost()
        assert _converge(world) is not None, world.why_not_level()
        self._judge_entries(before, vector, hidden)
        self._judge_deliveries()
        assert not world.found, world.found
        world.close()
        return self.outcome

    # -- the question

    def _ask(self, region: int, commands: Sequence[Words]) -> list[Any]:
        world = self.world
        asker = Asker(_ASKER + region, region)
        world.clients[asker.number] = asker
        world.send(
            asker,
            [
                tuple(word if isinstance(word, bytes) else str(word).encode() for word in words)
                for words in commands
            ],
        )
        for _ in range(2000):
            if len(asker.replies) == len(commands):
                break
            world.scheduler.run_until(world.scheduler.now_ms + 1)
        world.break_line(asker.number)
        assert len(asker.replies) == len(commands), commands
        return [plain(reply) for reply in asker.replies]

    def _predict(self) -> None:
        others = [one for one in self.world.plan.regions if one != self.victim]
        for other in others:
            raise_to(self.asked, self.world.regions[other].engine.vector)
        found = survey(self._ask, self.victim, True, others, Bounds())
        outcome = self.outcome
        outcome.is_whole = not found.unread
        for key in found.keys:
            losses = losses_of(found, key)
            outcome.predicted_lost |= {(key.key, dot) for dot in losses.entries}
            outcome.lost_ids |= {(key.key, entry_id) for entry_id in losses.entries.values()}
            outcome.predicted_back |= {(key.key, dot) for dot in losses.returning}
            outcome.back_ids |= {(key.key, entry_id) for entry_id in losses.returning.values()}
            for one in deliveries_of(key, [self.target]):
                outcome.predicted_again |= {
                    Delivery(key.key, one.group, entry_id)
                    for entry_id in one.repeated[0].entries.values()
                }

    # -- the kill and its consequences

    def _kill(self) -> None:
        """The region is gone. What is on its way still arrives, unless the region is cut off."""
        world = self.world
        region = world.regions[self.victim]
        region.is_gone = True
        region.stop("gone")
        if not self.is_isolated:
            world.scheduler.run_until(world.scheduler.now_ms + 500)
        for other in world.remaining():
            faults.processes.give_up(world, region, other)

    def _hidden_keys(self) -> set[bytes]:
        """Keys that a deadline hides in a region, so that nobody sees what they hold there."""
        found: set[bytes] = set()
        for region in self.world.remaining():
            state = region.engine.state
            for key, stream in state.keyspace.keys.items():
                if stream.is_hidden(state.clock.now_ms):
                    found.add(key)
        return found

    def _judge_entries(
        self, before: dict[Entry, int], vector: dict[int, int], hidden: set[bytes]
    ) -> None:
        target = self.world.regions[self.target]
        after = entries_in(target)
        holds = target.engine.vector
        self.outcome.lost = {(key, dot) for key, dot in before if dot[1] > holds.get(dot[0], 0)}
        assert not self.outcome.lost & after.keys()
        arrived = {one for one in after if not covers(self.asked, *one[1])}
        self.outcome.arrived_ids = {(one[0], after[one]) for one in arrived}
        self.outcome.back = {
            (key, dot)
            for key, dot in after.keys() - arrived
            if (key, dot) not in before and covers(vector, *dot) and key not in hidden
        }

    def _judge_deliveries(self) -> None:
        """Reads all groups in the target to their ends, as clients that fail over would."""
        world = self.world
        target = world.regions[self.target]
        recorded = self.deliveries.seen
        handed_out = recorded.get(self.victim, [])
        recorded[self.target] = []
        drainer = Drainer(_DRAINER + self.target, self.target)
        world.clients[drainer.number] = drainer
        for key in world.keys:
            for group in groups(world.ask(self.target, (b"XINFO", b"GROUPS", key))):
                words = (b"XREADGROUP", b"GROUP", group, b"drainer", b"COUNT", b"20")
                _read_all(world, drainer, (*words, b"STREAMS", key, b">"))
        read = {one for one, _ in recorded[self.target]}
        self.outcome.again = {
            one
            for one, its in handed_out
            if one in read and its & set(creates(target, one.key, one.group))
        }
