"""Clients that wait for a write to arrive: WAIT, CRDT.SYNC, CRDT.WAIT after a fail-over (S2.4)."""

from __future__ import annotations

from random import Random

from anabranch.region.engine.replies import Reply
from anabranch.sim.history import Operation, Words
from anabranch.sim.load.base import Client, Modes, below, pick
from anabranch.sim.plan import ClientPlan


class SynchronousWriter(Client):
    """Adds and waits until other regions have the entry.

    Or adds, asks for the vector, and waits for that vector in another region, to read its own
    writes there.
    """

    def __init__(self, plan: ClientPlan, regions: tuple[int, ...], modes: Modes) -> None:
        super().__init__(plan, regions, modes)
        self.vector: tuple[bytes, ...] = ()
        self.wanders = pick(Random(plan.draw ^ 6), (0.2, 0.7, 1.0))

    def intend(self, draw: Random, now_ms: int) -> list[Words]:
        """If it holds a vector, waits for that vector, mostly in another region."""
        if self.vector:
            if draw.random() < self.wanders:
                self.move(draw)
            waiting: Words = (b"CRDT.WAIT", self.timeout(draw), *self.vector)
            self.vector = ()
            return [waiting, self.look(draw, self.key(draw))]
        return super().intend(draw, now_ms)

    def timeout(self, draw: Random) -> bytes:
        """A timeout in ms, mostly within the client's patience; rarely 0, which waits for ever."""
        chance = draw.random()
        return b"0" if chance < 0.03 else b"%d" % (1 + int(chance * chance * 300))

    def add(self, draw: Random) -> Words:
        """XADD."""
        return (b"XADD", self.key(draw), b"*", *self.fields(draw))

    def add_and_wait(self, draw: Random, now_ms: int) -> list[Words]:
        """XADD and WAIT; before a WAIT for some regions several XADDs, which make a run."""
        add = self.add(draw)
        waiting = self.wait(draw, now_ms)
        more = [(*add[:4], self.token(), *add[5:]) for _ in range(int(waiting[0][1]))]
        return [add, *more, *waiting]

    def wait(self, draw: Random, now_ms: int) -> list[Words]:
        """WAIT for any number of regions, from none up to more than there are others."""
        return [(b"WAIT", b"%d" % below(draw, len(self.regions) + 1), self.timeout(draw))]

    def add_and_sync(self, draw: Random, now_ms: int) -> list[Words]:
        """XADD and CRDT.SYNC."""
        return [self.add(draw), (b"CRDT.SYNC", self.timeout(draw))]

    def add_and_ask(self, draw: Random, now_ms: int) -> list[Words]:
        """XADD and CRDT.VECTOR."""
        return [self.add(draw), (b"CRDT.VECTOR",)]

    acts = ((3, add_and_wait), (1, wait), (2, add_and_sync), (4, add_and_ask))

    def succeeded(self, operation: Operation, reply: Reply) -> None:
        """Keeps the vector of a CRDT.VECTOR."""
        if operation.argv[0] == b"CRDT.VECTOR":
            if isinstance(reply, list):
                self.vector = tuple(b"%d" % number for number in reply if isinstance(number, int))
        else:
            self.learn(operation.argv, reply)

    def forget(self) -> None:
        """The client does not know what it wrote before the crash."""
        self.vector = ()
