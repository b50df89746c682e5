"""What follows each step of the engine.

A step is a batch of commands, a merge, a join or a tick. After it conflicts are settled (S9.2), and
readers wake whose keys have changed. A change of the lifecycle (S13.6, S13.7) has consequences of
its own.
"""

from __future__ import annotations

from typing import Final

from anabranch.region.engine import dispatch, idempotency
from anabranch.region.engine.batch import Batch
from anabranch.region.engine.replies import REPLY_LATER, ErrorReply, Reply, ReplyLater
from anabranch.region.engine.session import Session
from anabranch.region.engine.state import EngineState
from anabranch.region.engine.table import Command
from anabranch.region.engine.upkeep import Upkeep
from anabranch.region.engine.writer import NotYet


class Steps:
    """The execution of commands, and the end of each step, which all calls share."""

    def __init__(self, state: EngineState) -> None:
        self.state: Final = state
        self.upkeep: Final = Upkeep()
        self._was_serving = False
        # Life and recovery as last given to the next commit.
        self._life_noted = (0, 0)
        for stream in state.keyspace.keys.values():
            self.upkeep.note(state, stream)
            for name in stream.group_names():
                state.keyspace.acknowledgeable[(stream.key, name)] = None
        state.lifecycle.tick(state.members.others(), state.disk.vector, state.disk.has_salvage)
        self.note_lifecycle()

    def dispatch(self, session: Session, batch: Batch) -> tuple[list[Reply], int]:
        """Runs the commands of a batch as units (S1.2); see `ClientCalls.execute_batch`.

        A command to which `dispatch.admit` already returned the reply is not run.
        """
        state = self.state
        admitted = dispatch.admit(state, session, batch.first)
        if not isinstance(admitted, Command):
            return [admitted], 1
        issued = state.journal.effects_issued
        try:
            replies, taken = dispatch.run_batch(state, admitted, session, batch)
        except NotYet:
            session.waiting = True
            state.waiting.for_start.append((session, batch.first))
            return [REPLY_LATER], 1
        if state.journal.effects_issued != issued:
            session.write_counter = state.keyspace.vector.get(state.members.region_id, 0)
            state.journal.end_unit()
        self.settle()
        return replies, taken

    # -- after every step

    def settle(self) -> None:
        """Handles the changes of a step: conflicts (S9.2), the lists of upkeep, blocked readers."""
        state = self.state
        changes = state.keyspace.changes
        if changes.pairs:
            idempotency.remove_losers(state)
        if changes.changed_keys:
            for key in changes.changed_keys:
                stream = state.keyspace.keys.get(key)
                if stream is not None:
                    self.upkeep.note(state, stream)
                else:
                    state.contents.deadlines.forget(key)
            changes.changed_keys.clear()
        if state.waiting.reads.by_key:
            gone = [key for key, _ in changes.dropped_groups]
            self.wake([*changes.added_keys, *gone, *changes.deadlines])
        changes.added_keys.clear()
        changes.dropped_groups.clear()
        changes.deadlines.clear()

    def after_merge(self) -> None:
        """A merge or a join has ended, perhaps with an error of the peer."""
        self.note_lifecycle()
        self.state.stability.count(self.state.keyspace.vector)
        self.settle()
        self.state.journal.end_unit()

    def wake(self, keys: list[bytes]) -> None:
        """Runs the reads that wait for these keys again, in the order in which they blocked."""
        state = self.state
        reads = state.waiting.reads
        for blocked in reads.waiting_for(keys):
            session = blocked.session
            command = dispatch.find_command(state, blocked.argv)
            if command is None or session.session_id not in reads.by_session:
                continue
            reply = dispatch.run(state, command, session, blocked.argv)
            if isinstance(reply, ReplyLater):
                continue
            reads.remove(session.session_id)
            if isinstance(reply, ErrorReply):
                state.statistics.count_error(reply)
            state.outbox.answer(session, reply)

    def note_lifecycle(self) -> None:
        """Handles what was heard of lives, and a change of the lifecycle (S9.2, S13.7).

        When the region begins to serve, it first issues the removals that it owes, then runs the
        commands that waited.
        """
        state = self.state
        lifecycle = state.lifecycle
        # After a member has come back from a backup, less may be known to be stable.
        state.keyspace.pair_limits.stable = {}
        if self._life_noted != (lifecycle.life, lifecycle.recovery):
            # A recovery is stored whatever state preceded it: it may also begin during the start
            # (S13.6, S13.7).
            self._life_noted = (lifecycle.life, lifecycle.recovery)
            state.note_life()
        serving = lifecycle.serves
        if serving == self._was_serving:
            return
        self._was_serving = serving
        if not serving:
            return
        state.end_rebuild()
        if lifecycle.note_served():
            state.store_meta("never_served", b"0")
        if lifecycle.ended_by_patience(state.members.others()):
            state.note_ended_by_patience()
        idempotency.remove_all_losers(state)
        state.keyspace.changes.pairs = []
        state.journal.end_unit()
        self.run_waiting()

    def run_waiting(self) -> None:
        """Runs the commands that waited for the start: they may issue effects, or are refused."""
        for session, argv in self.state.waiting.take_for_start():
            session.waiting = False
            reply = self.dispatch(session, Batch(argv))[0][0]
            if isinstance(reply, ErrorReply):
                self.state.statistics.count_error(reply)
            if not isinstance(reply, ReplyLater):
                self.state.outbox.answer(session, reply)
