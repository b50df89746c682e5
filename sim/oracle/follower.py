"""One region step by step: each command and move is judged against the naive state.

The effects that a region issues are known from its commits. Until the commit its steps wait in a
queue; a crash discards the queued steps that are not on disk. Foreign effects are known at once:
peers get only committed effects (S13.3).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Optional, Protocol, TypeVar, Union

from anabranch.region.engine.replies import Reply
from anabranch.sim.history import Began, Moved, Operation
from anabranch.sim.oracle.arguments import Words
from anabranch.sim.oracle.log import Add, Dot, Logged, Vector
from anabranch.sim.oracle.pending import Pending
from anabranch.sim.oracle.record import Record
from anabranch.sim.oracle.state import KeyState, State
from anabranch.sim.oracle.verdicts import Unsure, Wrong, readable
from anabranch.sim.oracle.watches import Watches

T = TypeVar("T")
Judge = Callable[["Follower", Words, Reply], None]
# The step, whether it brought back effects of the region itself, the other regions' vectors.
Step = tuple[Union[Operation, Moved], bool, dict[int, Vector]]


class Judgement(Protocol):
    """The rules by which a step is judged (`oracle.Oracle`)."""

    def judge_operation(self, follower: Follower, op: Operation) -> None: ...
    def judge_own(self, follower: Follower, others: dict[int, Vector]) -> None: ...


class Follower:
    """One region as the oracle sees it. `state` is the naive state at `state.vector`."""

    def __init__(self, record: Record, judgement: Judgement, region: int) -> None:
        self.record = record
        self.log = record.log
        self._judgement = judgement
        self.region = region
        self.state = State()
        # The region's clock in ms at the step under judgement.
        self.clock_ms = 0
        # The highest clock reading so far; a lower one is a fault.
        self.latest_ms = 0
        # The settings in force.
        self.defaults: dict[str, str] = {}
        # Dot of an idempotent add → the clock in ms since when the region holds its pair (S9.1).
        self.held: dict[Dot, int] = {}
        # Idempotent adds that came by a snapshot, which need not contain their pairs (S11.3).
        self.joined: set[Dot] = set()
        # (counter, clock in ms) of each own effect. A start that finds the counter on its disk
        # finds no clock before this one.
        self.issued_ms: list[tuple[int, int]] = []
        self.pending = Pending()
        self.watches = Watches()
        # How many snapshots were joined.
        self.joins = 0
        # Effects are missing from the reported commits: no step is judged until the next start.
        self.blind = False
        # The region's own effects are known up to this counter.
        self.trusted = 0
        # The operation under judgement.
        self.op: Optional[Operation] = None
        # The vector before the step under judgement.
        self.before: Vector = {}
        self._queue: deque[Step] = deque()
        # The counter of the last own effect of the step under judgement.
        self._limit = 0
        self.reset_settings()

    # -- events

    def reset_settings(self) -> None:
        """Drops the changes of CONFIG SET, which last until the process ends."""
        self.defaults = dict(self.record.setup.settings[self.region])

    def take(
        self, event: Union[Operation, Moved], relearned: bool, others: dict[int, Vector]
    ) -> None:
        """Takes a step and judges it once its effects are known.

        `relearned`: the region's own effects came back from peers. `others`: the other regions'
        vectors at that moment.
        """
        if not self.blind:
            self._queue.append((event, relearned, others))
            self.drain()

    def drain(self) -> None:
        """Judges the queued steps whose effects are known."""
        queue = self._queue
        while queue and not self.blind:
            event, relearned, others = queue[0]
            assert event.after is not None
            own = event.after.get(self.region, 0)
            if own > self.trusted:
                if not relearned:
                    return
                self.trusted = own
            queue.popleft()
            if isinstance(event, Operation):
                self._operation(event)
            elif event.how == "waited":
                self._waited(event, others)
            else:
                self._moved(event, relearned, others)

    def is_level(self) -> bool:
        """Whether all steps of the region are judged."""
        return not self.blind and not self._queue

    def begin(self, event: Began) -> None:
        """A process has started: the state is built anew from the vector found on disk."""
        self.trusted = min(event.vector.get(self.region, 0), self.log.last(self.region))
        self.drain()
        self._queue.clear()
        self.blind = False
        self.state = State()
        own = event.vector.get(self.region, 0)
        self.issued_ms = [issued for issued in self.issued_ms if issued[0] <= own]
        self.latest_ms = self.issued_ms[-1][1] if self.issued_ms else 0
        self.pending.forget()
        self.watches = Watches()
        self.reset_settings()
        for region in sorted(event.vector):
            self._apply_foreign(region, event.vector[region], None)
        self._no_twins(event.at_ms)

    def go_blind(self) -> None:
        """Stops judging: the region holds effects whose commit no judge has seen."""
        self.blind = True
        self._queue.clear()

    # -- steps

    def _operation(self, op: Operation) -> None:
        assert op.after is not None
        if op.before != self.state.vector:
            self._advance(op.before, op, own=True)
        if not self.blind:
            self._limit = op.after.get(self.region, 0)
            self._judge(op)
            if self._behind():
                self._own_effects(op.at_ms, {})

    def _judge(self, op: Operation) -> bool:
        """Judges a command; False if its effects were applied unjudged after a fault or doubt."""
        self.op = op
        self.before = op.before
        self._reads_clock(op)
        try:
            self._judgement.judge_operation(self, op)
        except (Wrong, Unsure) as trouble:
            self._give_up(trouble, op)
            return False
        finally:
            self._no_twins(op.at_ms)
        return True

    def _waited(self, event: Moved, others: dict[int, Vector]) -> None:
        """Judges commands that had waited for the end of the start.

        The history reports them after this move, mixed with later commands of the same clients.
        """
        ran: list[Operation] = []
        rest: list[Step] = []
        while self._queue and isinstance(self._queue[0][0], Operation):
            step = self._queue.popleft()
            # A blocked read has waited, too, and may be reported already; it has a later clock.
            if (
                isinstance(step[0], Operation)
                and step[0].waited
                and step[0].clock_ms == event.clock_ms
            ):
                ran.append(step[0])
            else:
                rest.append(step)
        self._queue.extendleft(reversed(rest))
        self._advance(event.before, event, own=True)
        self.before = event.before
        self._advance(event.after, event, own=False)
        if self.blind:
            return
        self._limit = event.after.get(self.region, 0)
        for op in ran:
            if not self._judge(op):
                break  # it is unknown which of the effects belong to the next command
        if self._behind():
            self._own_effects(event.at_ms, others)

    def _give_up(self, trouble: Union[Wrong, Unsure], op: Operation) -> None:
        """Reports the trouble and applies the rest of the step's effects without judging them."""
        if isinstance(trouble, Wrong):
            words = b"; ".join(b" ".join(one) for one in op.commands())
            self.record.find(
                trouble.checker,
                op.at_ms,
                self.region,
                f"{trouble.text} (operation {op.number}: {readable(words)})",
            )
        while self._behind():
            self._blindly()

    def _behind(self) -> bool:
        """Whether the step under judgement issued further effects."""
        return self.state.vector.get(self.region, 0) < self._limit

    def _moved(self, event: Moved, relearned: bool, others: dict[int, Vector]) -> None:
        if event.before != self.state.vector:
            self._advance(event.before, event, own=True)
        self.before = event.before
        self.joins += event.how == "join"
        self._advance(event.after, event, own=False)
        if relearned:
            self._apply_foreign(
                self.region, event.after[self.region], event.clock_ms, event.how == "join"
            )
        if not self.blind:
            self._limit = event.after.get(self.region, 0)
            if self._behind():
                self._own_effects(event.at_ms, others)
            self._no_twins(event.at_ms)

    def _advance(self, vector: Vector, event: Union[Operation, Moved], own: bool) -> None:
        """Brings the state to a vector; `own`: including effects that the region issued itself."""
        self.op = None
        self._reads_clock(event)
        state = self.state
        for region, counter in vector.items():
            if counter <= state.vector.get(region, 0):
                continue
            if region != self.region:
                self._apply_foreign(
                    region,
                    counter,
                    event.clock_ms,
                    isinstance(event, Moved) and event.how == "join",
                )
            elif own:
                self._limit = counter
                self._own_effects(event.at_ms, {})

    def _reads_clock(self, event: Union[Operation, Moved]) -> None:
        """Checks that the clock never runs back, even by a restart, if it is on disk (S10.2)."""
        self.clock_ms = event.clock_ms
        if event.clock_ms < self.latest_ms:
            self.record.find(
                "removals",
                event.at_ms,
                self.region,
                f"its clock reads {event.clock_ms}, after it read {self.latest_ms}",
            )
        self.latest_ms = event.clock_ms

    def _apply_foreign(
        self, region: int, counter: int, held_ms: Optional[int], joined: bool = False
    ) -> None:
        state = self.state
        if counter > self.log.last(region):
            self.go_blind()
            return
        known = self.log.effects[region]
        for number in range(state.vector.get(region, 0) + 1, counter + 1):
            effect = known[number - 1]
            if held_ms is not None and type(effect) is Add and effect.pid:
                self.held[(region, number)] = held_ms
                if joined:
                    self.joined.add((region, number))
            state.apply(region, number, effect)

    def _own_effects(self, at_ms: int, others: dict[int, Vector]) -> None:
        """Judges the effects without a command, up to the last effect of the step."""
        while self._behind():
            try:
                self._judgement.judge_own(self, others)
            except Wrong as wrong:
                self.record.find(wrong.checker, at_ms, self.region, wrong.text)
            except Unsure:
                pass
            self._blindly()

    def _blindly(self) -> None:
        counter = self.state.vector.get(self.region, 0) + 1
        effect = self.log.at(self.region, counter)
        if type(effect) is Add and effect.pid:
            self.held[(self.region, counter)] = effect.recorded_ms
        self.state.apply(self.region, counter, effect)
        self.issued_ms.append((counter, self.clock_ms))

    def _no_twins(self, at_ms: int) -> None:
        """Two present entries of one key never share an ID that both regions generated (S4.1).

        IDs given by a client or copied by RENAME (S10.1) may coincide.
        """
        twins = self.state.twins
        if not twins:
            return
        self.state.twins = []
        for one, other in twins:
            # A later effect of this step may have removed either of them.
            present = self.state.keys[one.key].adds
            if (one.region, one.counter) not in present or (
                other.region,
                other.counter,
            ) not in present:
                continue
            if one.kind == other.kind == "generated":
                text = (
                    f"{readable(one.key)} holds {readable(one.shown_id)} twice: "
                    f"of region {one.region} and of region {other.region}"
                )
                self.record.find("unique_ids", at_ms, self.region, text)

    # -- for the judges of steps

    def next(self) -> Optional[Logged]:
        """The next effect that the step under judgement issued; None after the last."""
        counter = self.state.vector.get(self.region, 0) + 1
        return self.log.at(self.region, counter) if counter <= self._limit else None

    def issued(self, kind: type[T], key: bytes, why: str) -> T:
        """The next effect, which must be of that kind and on that key; it is not applied yet.

        Raises Wrong, with `why` as the first words, if it is another effect or there is none.
        """
        effect = self.next()
        if not isinstance(effect, kind) or getattr(effect, "key", key) != key:
            raise Wrong(
                f"{why}: expected {kind.__name__} on {readable(key)}, found {described(effect)}"
            )
        return effect

    def apply(self) -> None:
        """Applies the next effect to the state."""
        self._blindly()

    def existing(self, key: bytes) -> Optional[KeyState]:
        """The key as clients see it: None if it does not exist or a deadline hides it (S3.1)."""
        found = self.state.keys.get(key)
        if (
            found is None
            or not (found.groups or found.has_header())
            or (found.deadlines and found.is_hidden(self.clock_ms))
        ):
            return None
        return found

    def integer(self, setting: str) -> int:
        """The value of an integer setting, CONFIG SET included."""
        return int(self.defaults[setting])


def described(effect: Optional[Logged]) -> str:
    """An effect as text for messages."""
    if effect is None:
        return "nothing"
    if isinstance(effect, Add):
        return f"Add of {readable(effect.shown_id)} to {readable(effect.key)}"
    # Compiled classes have no __dict__.
    values = [(name, getattr(effect, name)) for name in dir(effect) if not name.startswith("_")]
    parts = [f"{name}={value!r}" for name, value in values if not callable(value)]
    return f"{type(effect).__name__}({', '.join(parts)})"
