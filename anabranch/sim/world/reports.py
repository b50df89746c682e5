"""What the calls of one process tell: operations of clients, movements of the vector, late replies.

The tap tells of calls alone. Everything that judges see beside them derives from the calls here.
"""

from __future__ import annotations

from typing import Final

from anabranch.crdt.vector import Vector
from anabranch.region.driver.clock import Clock
from anabranch.region.engine.engine import Engine
from anabranch.region.engine.lifecycle import RECOVERY
from anabranch.region.engine.replies import ErrorReply
from anabranch.sim import calls
from anabranch.sim.calls import Call
from anabranch.sim.history import Moved
from anabranch.sim.unrolled import commands_of, issues_each, replies_of
from anabranch.sim.world import inside
from anabranch.sim.world.environment import Environment
from anabranch.sim.world.lines import Lines

# Movements of the vector by the kind of their call; all others are of the kind "tick".
_MOVES: Final = {calls.MERGE: "merge", calls.HEAR: "merge", calls.JOIN: "join"}


class Reports:
    """The watcher of the engine of one process (`EngineWatcher`), whose number is `start`."""

    def __init__(
        self, environment: Environment, region_id: int, start: int, lines: Lines, clock: Clock
    ) -> None:
        self._environment: Final = environment
        self._region_id: Final = region_id
        self._start: Final = start
        self._lines: Final = lines
        self._clock: Final = clock
        self._engine: Engine
        # The vector after the last call.
        self._vector: Vector = {}

    def begin(self, engine: Engine) -> None:
        """The process begins to run with what is on its disk."""
        self._engine = engine
        self._vector = dict(engine.disk_vector)

    def called(self, call: Call) -> None:
        environment = self._environment
        call.start = self._start
        call.at_ms = environment.scheduler.now_ms
        inside.called(environment.counts, self._engine, call)
        environment.events.called(call)
        before, self._vector = self._vector, call.facts.vector
        if call.kind == calls.EXECUTE and call.session in self._lines.by_session:
            self._executed(call, before)
        elif call.facts.vector != before:
            self._moved(call, before)
        for session, reply in call.late:
            self._lines.answered(session, reply, call.facts)

    def _executed(self, call: Call, before: Vector) -> None:
        """Tells of each command of a batch as if it had been executed alone."""
        after = call.facts.vector
        commands, own = commands_of(call), self._region_id
        self._count(call, len(commands))
        # Commands after the first one move the own counter only.
        counter = after.get(own, 0) - issues_each(call) * (len(commands) - 1)
        for argv, reply in zip(commands, replies_of(call), strict=False):
            at = after if counter == after.get(own, 0) else {**after, own: counter}
            self._lines.executed(
                call.session, argv, reply, before, at, self._clock.now_ms(), call.facts
            )
            before = at
            counter += issues_each(call)

    def _count(self, call: Call, size: int) -> None:
        """Counts a batch by its shape, and by its size in powers of two."""
        if call.following is not None:
            counters = self._environment.counters
            counters[f"batch:{call.following.shape}"] += 1
            counters[f"batch:of {1 << (size.bit_length() - 1)} commands or more"] += 1
            if any(isinstance(reply, ErrorReply) for reply in call.replies):
                counters["batch:with an error"] += 1

    def _moved(self, call: Call, before: Vector) -> None:
        """Tells of a movement of the vector that no command of a client is the cause of.

        The operator is no client: if a member is said lost, losers of conflicts go (S9.2).
        """
        after, own = call.facts.vector, self._region_id
        how = _MOVES.get(call.kind, "tick")
        if call.late and self._lines.have_waited(call.late):
            how = "waited"
        # A region that receives effects of its own is in recovery from then on, and issues none.
        learned = after.get(own, 0) > before.get(own, 0) and call.facts.state == RECOVERY
        self._environment.note(own, how, before, after)
        self._lines.count_within(how)
        blocks = tuple([(block.origin, block.first, block.last) for block in call.blocks])
        event = Moved(
            own,
            self._start,
            how,
            before,
            after,
            call.at_ms,
            call.facts.clock_ms,
            learned,
            call.source,
            blocks,
        )
        self._environment.events.moved(event)

    def new_cut(self) -> int:
        return self._environment.new_cut()

    def cut_sent(self, digest: bytes, cut: int) -> None:
        self._environment.cuts[digest] = cut

    def cut_of(self, digest: bytes) -> int:
        return self._environment.cuts.get(digest, 0)

    def failed(self, error: Exception) -> None:
        self._environment.fault_found(f"{type(error).__name__}: {error}")
