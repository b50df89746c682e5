"""One region, step by step: its commands and moves in their order, each judged against the naive state once its effects are known.

What a region issues is known when it commits. Until then its steps wait in a queue; what a crash takes before that is forgotten.
Foreign effects are always known: peers only get what is committed (S13.3).
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
# what, whether own effects came back, the other regions' vectors
Step = tuple[Union[Operation, Moved], bool, dict[int, Vector]]


class Judgement(Protocol):
    """What decides about a step (`oracle.Oracle`)."""

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
        self.clock_ms = 0  # the region's clock at the step under judgement
        self.latest_ms = 0  # the latest that it must have read by then
        self.defaults: dict[str, str] = {}  # settings in force
        # since when the region has held the pair of an idempotent add (S9.1)
        self.held: dict[Dot, int] = {}
        # idempotent adds that came by a snapshot, which need not bring the pair (S11.3)
        self.joined: set[Dot] = set()
        # (counter, clock) of what it issued: no start finds an earlier clock beside it
        self.issued_ms: list[tuple[int, int]] = []
        self.pending = Pending()
        self.watches = Watches()
        self.joins = 0  # snapshots joined
        self.blind = (
            False  # effects that nobody saw committed: nothing can be said until the next start
        )
        self.trusted = 0  # up to this counter the region's own effects are known
        self.op: Optional[Operation] = None  # under judgement
        self.before: Vector = {}  # the vector before the step under judgement
        self._queue: deque[Step] = deque()
        self._limit = 0  # the last own effect of the step under judgement
        self.reset_settings()

    # -- events

    def reset_settings(self) -> None:
        """What CONFIG SET changed lasts until the process ends."""
        self.defaults = dict(self.record.setup.settings[self.region])

    def take(
        self, event: Union[Operation, Moved], relearned: bool, others: dict[int, Vector]
    ) -> None:
        """A step. `relearned`: its own effects come back from peers; `others`: the other regions' vectors now."""
        if not self.blind:
            self._queue.append((event, relearned, others))
            self.drain()

    def drain(self) -> None:
        """Judges what can be judged by now."""
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
        """Whether everything that the region did is judged."""
        return not self.blind and not self._queue

    def begin(self, event: Began) -> None:
        """A process found this on its disk: the state is built anew."""
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

    def go_blind(self, why: str) -> None:
        self.blind = True
        self.record.counts[why] += 1
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
        """Judges a command; False when its effects are taken as they are, for good or ill."""
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
        """Commands ran that had waited for the end of the start; they were told of after this, among what the same clients said next."""
        ran: list[Operation] = []
        rest: list[Step] = []
        while self._queue and isinstance(self._queue[0][0], Operation):
            step = self._queue.popleft()
            # A read that blocked has waited, too, and may be told of by now: its clock is a later one.
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
                break  # which effects are the next one's cannot be told
        if self._behind():
            self._own_effects(event.at_ms, others)

    def _give_up(self, trouble: Union[Wrong, Unsure], op: Operation) -> None:
        """The rest of the step's effects are taken as they are."""
        if isinstance(trouble, Wrong):
            words = b"; ".join(b" ".join(one) for one in op.commands())
            self.record.find(
                trouble.checker,
                op.at_ms,
                self.region,
                f"{trouble.text} (operation {op.number}: {readable(words)})",
            )
        else:
            self.record.counts[str(trouble)] += 1
        while self._behind():
            self._blindly()

    def _behind(self) -> bool:
        """Whether the step under judgement issued more."""
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
        """Brings the state to a vector; `own`: with what the region issued by itself on the way."""
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
        """The clock never runs back, restarts included as far as it is on the disk (S10.2)."""
        self.clock_ms = event.clock_ms
        if event.clock_ms < self.latest_ms:
            self.record.find(
                "removals",
                event.at_ms,
                self.region,
                f"its clock reads {event.clock_ms}, after {self.latest_ms}",
            )
        self.latest_ms = event.clock_ms

    def _apply_foreign(
        self, region: int, counter: int, held_ms: Optional[int], joined: bool = False
    ) -> None:
        state = self.state
        if counter > self.log.last(region):
            self.go_blind("effects that nobody saw committed")
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
        """What the region issued by itself, up to the step's last effect."""
        while self._behind():
            try:
                self._judgement.judge_own(self, others)
            except Wrong as wrong:
                self.record.find(wrong.checker, at_ms, self.region, wrong.text)
            except Unsure as unsure:
                self.record.counts[str(unsure)] += 1
            self._blindly()

    def _blindly(self) -> None:
        counter = self.state.vector.get(self.region, 0) + 1
        effect = self.log.at(self.region, counter)
        if type(effect) is Add and effect.pid:
            self.held[(self.region, counter)] = effect.recorded_ms
        self.state.apply(self.region, counter, effect)
        self.issued_ms.append((counter, self.clock_ms))

    def _no_twins(self, at_ms: int) -> None:
        """Of two entries present at once under one key and one ID one must be a client's or a RENAME's making (S4.1, S10.1)."""
        twins = self.state.twins
        if not twins:
            return
        self.state.twins = []
        for one, other in twins:
            # of what came in one step, a removal may have come after both
            present = self.state.keys[one.key].adds
            if (one.region, one.counter) not in present or (
                other.region,
                other.counter,
            ) not in present:
                continue
            if one.kind == other.kind == "generated":
                text = f"{readable(one.key)} holds {readable(one.shown_id)} twice: of region {one.region} and of region {other.region}"
                self.record.find("unique_ids", at_ms, self.region, text)
            else:
                self.record.counts["IDs shared by rule"] += 1

    # -- for the judges of steps

    def next(self) -> Optional[Logged]:
        """The next effect that the step under judgement issued; None when there is none."""
        counter = self.state.vector.get(self.region, 0) + 1
        return self.log.at(self.region, counter) if counter <= self._limit else None

    def issued(self, kind: type[T], key: bytes, why: str) -> T:
        """The next effect, which must be of that kind and on that key; it is not applied yet."""
        effect = self.next()
        if not isinstance(effect, kind) or getattr(effect, "key", key) != key:
            raise Wrong(
                f"{why}: expected {kind.__name__} on {readable(key)}, found {described(effect)}"
            )
        return effect

    def apply(self) -> None:
        """Takes the next effect into the state."""
        self._blindly()

    def existing(self, key: bytes) -> Optional[KeyState]:
        """The key as clients must see it: None when it does not exist, or a deadline hides it (S3.1)."""
        found = self.state.keys.get(key)
        if (
            found is None
            or not (found.groups or found.has_header())
            or (found.deadlines and found.is_hidden(self.clock_ms))
        ):
            return None
        return found

    def integer(self, setting: str) -> int:
        """A setting's value, as clients know it."""
        return int(self.defaults[setting])


def described(effect: Optional[Logged]) -> str:
    """An effect, for people."""
    if effect is None:
        return "nothing"
    if isinstance(effect, Add):
        return f"Add of {readable(effect.shown_id)} to {readable(effect.key)}"
    # Compiled classes have no __dict__.
    values = [(name, getattr(effect, name)) for name in dir(effect) if not name.startswith("_")]
    parts = [f"{name}={value!r}" for name, value in values if not callable(value)]
    return f"{type(effect).__name__}({', '.join(parts)})"
