"""The twin of one region: the doors of the engine, with naive data behind them.

Each call of the engine is taken here with the same inputs, in the order in which the engine works:
a tick first ends reads whose time is over, then notes a change of the lifecycle, then removes keys.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, Optional

from anabranch.crdt.block import Block, read_effects
from anabranch.region.engine.replies import (
    NULL_ARRAY,
    REPLY_LATER,
    CommandError,
    ErrorReply,
    ReplyLater,
)
from anabranch.sim import calls
from anabranch.sim.calls import Call
from anabranch.sim.twin import losers, rounds, upkeep
from anabranch.sim.twin.apply import apply
from anabranch.sim.twin.core import Run, TwinCore, named
from anabranch.sim.twin.effects import Plain, plain
from anabranch.sim.twin.history import check_history
from anabranch.sim.twin.join import Frozen, join
from anabranch.sim.twin.late_replies import LateReplies
from anabranch.sim.twin.replies import Expected, Mismatch, check, in_words
from anabranch.sim.twin.session import Session, StartNotOver, may_issue
from anabranch.sim.twin.state import State
from anabranch.sim.twin.vectors import has_more, raise_to
from anabranch.sim.unrolled import commands_of, replies_of


class TwinRegion(TwinCore):
    """The twin of one region. `run` executes commands (`sim.twin.dispatch`)."""

    def __init__(self, region: int, run: Run) -> None:
        super().__init__(region)
        self.sessions: Final[dict[int, Session]] = {}
        self.for_start: list[tuple[Session, tuple[bytes, ...]]] = []
        self.was_serving = False
        # Makes the state before the first row of the log; None if it is unknown.
        self.first_state: Optional[Callable[[], State]] = partial(State, region)
        # Every `stream-idmp-maxsize` that was ever in force here.
        self._maxsizes: set[int] = set()
        # The files of this region were once put back to an older state.
        self.is_restored = False
        self.was_in_recovery = False
        self._run: Final = run
        self._late: Final = LateReplies(self.sessions)
        self._hidden: set[bytes] = set()

    # -- calls

    def take(
        self, call: Call, decoded: Callable[[Block], list[Plain]], cuts: dict[int, Frozen]
    ) -> None:
        """Takes a call. Raises `Mismatch` if the region did something else than it must."""
        self.call, self.facts = call, call.facts
        self.to_follow = {}
        for first, effect in call.issued:
            self.to_follow.update(plain(first, [effect]))
        self._late.begin_call(call)
        self.journal.begin_call(call)
        state = self.state
        if call.kind != calls.START:
            # Where clocks are compared, a reading may count for nothing: see `checkers.clocks`.
            is_compared = call.settings.get("crdt-clock-offset-max-ms", 500) != 0
            if call.facts.clock_ms < max(state.clock_ms, 0 if is_compared else call.now_ms):
                raise Mismatch(f"its clock ran back to {call.facts.clock_ms} ms (S10.2)")
            state.clock_ms = call.facts.clock_ms
            self._take_settings(call)
        if call.kind == calls.EXECUTE:
            self._execute(call)
        elif call.kind == calls.MERGE:
            self._merge(call, decoded)
        elif call.kind == calls.JOIN:
            self._join(call, cuts)
        elif call.kind == calls.TICK:
            self._tick()
        elif call.kind == calls.COMMIT:
            rounds.announce(self)
        elif call.kind == calls.START:
            self._start(call)
        elif call.kind == calls.DISCONNECT:
            self._disconnect(call.session)
        else:
            self.note_lifecycle()
        self._end(call)
        if call.kind == calls.CUT:
            if call.facts.is_open:
                raise Mismatch("cut a snapshot with effects or local records of no row (S11.2)")
            cuts[call.cut] = Frozen(state, losers.may_forget(self))

    def _end(self, call: Call) -> None:
        """Compares what is left: effects, rows, late replies, the vector."""
        state = self.state
        last = state.vector.get(self.region, 0)
        for counter in sorted(self.to_follow):
            if counter > last:
                raise Mismatch(
                    f"issued {named(counter, self.to_follow[counter])}; expected nothing"
                )
        if state.vector != call.facts.vector:
            if state.vector != {one: up for one, up in call.facts.vector.items() if up}:
                raise Mismatch(f"its vector is {call.facts.vector}; expected {state.vector}")
        self.journal.end_call(call)
        if call.kind in (calls.START, calls.COMMIT) and call.position is not None:
            self.counter_committed = self.counter()
        if call.facts.state == "recovery":
            self.was_in_recovery = True
        elif call.facts.state == "serving" and self.was_in_recovery:
            self.was_in_recovery = False
            state.count("S13.7")
        if call.issued or call.rows:
            raise_to(self.had, state.vector)
        self.clock_max_ms = max(self.clock_max_ms, state.clock_ms)
        for key, seen_to, reply in self._late.compare():
            check_history(self, key, seen_to, reply)

    # -- the start

    def _start(self, call: Call) -> None:
        assert call.position is not None
        if call.position < self.journal.committed:
            self.is_restored = self.is_restored or call.how == "backup"
        self.journal.cut_back(call.position)
        self.sessions.clear()
        self.blocked, self.for_start = [], []
        self.was_serving = False
        issued = self.counter()
        assert self.first_state is not None
        state = self.state = self.first_state()
        self._take_settings(call)
        self.settings = dict(call.settings)
        state.past_maxsizes = min(self._maxsizes), max(self._maxsizes)
        self.journal.replay(state)
        state.past_maxsizes = None
        if self.conflicts is not None:
            self.conflicts.begin(state)
            state.counts = self.conflicts.counts
        self.modes = {call.settings["crdt-xadd-id-uniqueness-mode"]}
        if call.how != "backup" and self.counter() < issued:
            state.count("S13.3")
        if call.facts.clock_ms < state.clock_ms:
            raise Mismatch(f"its clock ran back to {call.facts.clock_ms} ms in a start (S10.2)")
        state.clock_ms = call.facts.clock_ms
        self._forget_changes()
        self.note_hidden()
        for key in state.keys.values():
            for group in key.groups.values():
                for consumer in group.local.consumers.values():
                    consumer.is_known = False
        self.note_lifecycle()

    def note_hidden(self) -> None:
        """Notes which keys a deadline hides now."""
        self._hidden = {name for name in self.state.keys if self._is_hidden(name)}

    def _is_hidden(self, name: bytes) -> bool:
        key = self.state.keys.get(name)
        return key is not None and key.is_hidden(self.state.clock_ms)

    def _take_settings(self, call: Call) -> None:
        duration, maxsize = (
            call.settings["stream-idmp-duration"],
            call.settings["stream-idmp-maxsize"],
        )
        assert isinstance(duration, int) and isinstance(maxsize, int)
        self.state.duration_s, self.state.maxsize = duration, maxsize
        self._maxsizes.add(maxsize)

    def _forget_changes(self) -> None:
        state = self.state
        state.added, state.ended, state.timed, state.paired = [], [], [], []

    def note_lifecycle(self) -> None:
        """A region that begins to serve issues what it owes, then runs what waited (S13.6)."""
        serving = self.facts.state == "serving"
        if serving == self.was_serving:
            return
        self.was_serving = serving
        if serving:
            losers.remove_all(self)
            self.state.paired = []
            self.journal.end_unit()
            self._run_waiting()

    def _run_waiting(self) -> None:
        waiting, self.for_start = self.for_start, []
        for place, (session, argv) in enumerate(waiting):
            self.reply = self._late.next_of(session)
            self.waited = self._late.of_waiting(waiting[place + 1 :])
            self.state.count("S13.6")
            reply = self._dispatch(session, argv)
            self.reply = None
            if not isinstance(reply, ReplyLater):
                self._late.expect(session, reply)

    # -- commands

    def session(self, number: int) -> Session:
        """The session with that number, made if need be."""
        if number not in self.sessions:
            self.sessions[number] = Session(number)
        return self.sessions[number]

    def _execute(self, call: Call) -> None:
        """Runs the commands of a batch one after the other."""
        session, replies = self.session(call.session), replies_of(call)
        commands = commands_of(call)
        if len(replies) != len(commands):
            raise Mismatch(f"answers {len(commands)} commands with {len(replies)} replies")
        for place, argv in enumerate(commands):
            self.reply = replies[place]
            expected = self._dispatch(session, argv)
            self.reply = None
            try:
                check(expected, replies[place])
            except Mismatch as error:
                if not place:
                    raise
                text = f"command {place + 1} of the batch, {in_words(argv)}: {error}"
                raise Mismatch(text) from error

    def _dispatch(self, session: Session, argv: tuple[bytes, ...]) -> object:
        """Runs a command as a unit.

        Free: whether a command that could issue an effect waits for the start, and is refused in
        recovery or while commits fail, also where it would change nothing or fail (S13.4, S13.6,
        S13.8).
        """
        if self.facts.state == "starting" and isinstance(self.reply, ReplyLater):
            if session.queued is None and may_issue(argv):
                self.for_start.append((session, argv))
                return REPLY_LATER
        if self._is_refused(argv) or self.is_refused_by_bytes():
            if session.queued is not None:
                session.end()
            return self.reply
        issued = self.counter()
        try:
            expected = self._run(self, session, argv)
        except CommandError as error:
            expected = ErrorReply(error.message)
        except Expected as one:
            expected = one
        except StartNotOver:
            self.for_start.append((session, argv))
            return REPLY_LATER
        if self.counter() > issued:
            self.journal.end_unit()
        self.settle()
        return expected

    def _is_refused(self, argv: tuple[bytes, ...]) -> bool:
        """Whether the region refuses a command that could issue an effect, and may do so."""
        if not isinstance(self.reply, ErrorReply) or not may_issue(argv):
            return False
        if self.reply.message.startswith("READONLY"):
            self.state.count("S13.8")
            return self.facts.state in ("recovery", "lost", "apart")
        return self.is_refused_for_disk()

    def _disconnect(self, number: int) -> None:
        session = self.sessions.pop(number, None)
        self.blocked = [one for one in self.blocked if one.session is not session]
        self.for_start = [one for one in self.for_start if one[0] is not session]

    # -- peers

    def _merge(self, call: Call, decoded: Callable[[Block], list[Plain]]) -> None:
        if not call.is_taken:
            return
        state = self.state
        for block in call.blocks:
            if block.last <= state.vector.get(block.origin, 0):
                continue
            if block.first != state.vector.get(block.origin, 0) + 1:
                break  # a gap closes the link (S2.2)
            if call.facts.vector.get(block.origin, 0) < block.last:
                break  # a fork, or a region that is no member; others judge this
            self.journal.cut()
            if call.source not in (self.region, block.origin):
                state.count("S2.1")
            effects = decoded(block)
            for counter, effect in enumerate(effects, block.first):
                dot = (block.origin, counter)
                if self.conflicts is not None:
                    self.conflicts.meet(state, effect, dot)
                apply(state, effect, dot, is_issued=False)
            self.journal.merged(block.origin, block.first, effects, state.clock_ms)
        self._after_merge()

    def _join(self, call: Call, cuts: dict[int, Frozen]) -> None:
        if not call.is_taken or not any(row.kind == "snapshot" for row in call.rows):
            return
        self.journal.cut()
        cut = cuts[call.cut]
        self.state.count("S11.2")
        if has_more(cut.vector, self.state.vector) and has_more(self.state.vector, cut.vector):
            self.state.count("S11.3")
        join(self.state, cut, self.is_restored)
        self.journal.joined(cut, self.state.clock_ms)
        self.hand_set.update(self.state.keys)  # local statistics do not travel (S3.4)
        self._after_merge()

    def _after_merge(self) -> None:
        if self.conflicts is not None:
            self.conflicts.learn(self.state)
        self.note_lifecycle()
        self.settle()
        self.journal.end_unit()

    # -- time

    def _tick(self) -> None:
        late = [number for number, _ in self.call.late]
        over = [one for one in self.blocked if 0 < one.until_ms <= self.facts.steady_ms]
        over.sort(
            key=lambda one: late.index(one.session.number) if one.session.number in late else 0
        )
        for one in over:
            self.blocked.remove(one)
            self._late.expect(one.session, NULL_ARRAY)
        self.note_lifecycle()
        if self.facts.state in ("recovery", "lost", "apart"):
            self._run_waiting()
        hidden = [
            name for name in self.state.keys if name not in self._hidden and self._is_hidden(name)
        ]
        upkeep.work(self)
        self.journal.end_unit()
        self.note_hidden()
        self.settle()
        self._wake(hidden)

    # -- changes

    def settle(self) -> None:
        """After each step: losers of conflicts go (S9.2), readers that wait are answered."""
        state = self.state
        if state.paired:
            losers.remove(self)
        keys = [*state.added, *state.ended, *state.timed]
        self._forget_changes()
        if self._hidden:
            # A key that is made anew can be hidden again before the next tick looks.
            self._hidden = {name for name in self._hidden if self._is_hidden(name)}
        if self.blocked:
            self._wake(keys)

    def _wake(self, keys: list[bytes]) -> None:
        """Runs the reads that wait for these keys again, in the order in which they blocked."""
        for one in [blocked for blocked in self.blocked if not set(keys).isdisjoint(blocked.keys)]:
            if one not in self.blocked:
                continue
            self.reply = self._late.next_of(one.session)
            self.is_reading = True
            try:
                reply = (
                    self.reply
                    if self.is_refused_by_bytes() and self._late.is_next(one.session)
                    else self._run(self, one.session, one.argv)
                )
            except CommandError as error:
                reply = ErrorReply(error.message)
            except Expected as expected:
                reply = expected
            finally:
                self.is_reading = False
                self.reply = None
            if not isinstance(reply, ReplyLater):
                self.blocked.remove(one)
                self._late.expect(one.session, reply)


def decode(block: Block) -> list[Plain]:
    """The effects of a block, one for each counter."""
    return [effect for _, effect in plain(block.first, read_effects(block))]
