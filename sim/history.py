"""What a run of the simulator leaves for the judges: what clients said and saw, what vectors showed, what went over the wire.

Nothing here is the engine's own: a judge sees commands and replies, version vectors (`CRDT.VECTOR`), digests (`CRDT.DIGEST`), and the
blocks that a region has put on its disk for its peers, which are the wire contract.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple, Optional

from mypy_extensions import mypyc_attr

from anabranch.crdt.block import Block
from anabranch.region.engine.replies import Reply

Vector = dict[int, int]
Words = tuple[bytes, ...]


class Operation:
    """One command of one client, from sending to its answer.

    `number` runs through the whole run, in the order in which the regions executed them. `start` says in which start of the region's
    process it ran. `at_ms` is true (virtual) time, `clock_ms` what the region's own clock read. `before` and `after` are the region's
    vector just before and after the step that executed it; `after` is None while the command waits (blocked, or the start is not over).
    A transaction is one operation: argv is EXEC alone, and `queued` holds its commands; `reply` then is EXEC's. `watched` are the numbers
    of the WATCHes under which it runs, in their order: those of its connection that nothing has ended.
    `reply` is what the region computed, None until then; `answered_ms` is when the client had it, None if it never did.
    """

    __slots__ = (
        "after",
        "always",
        "answered_ms",
        "argv",
        "at_ms",
        "before",
        "client",
        "clock_ms",
        "has_reply",
        "lost",
        "number",
        "queued",
        "region",
        "reply",
        "start",
        "waited",
        "watched",
    )

    def __init__(
        self,
        number: int,
        client: int,
        region: int,
        start: int,
        argv: Words,
        queued: tuple[Words, ...],
        at_ms: int,
        clock_ms: int,
        before: Vector,
        always: bool,
    ) -> None:
        self.number = number
        self.client = client
        self.region = region
        self.start = start
        self.argv = argv
        self.queued = queued
        self.watched: tuple[int, ...] = ()
        self.at_ms = at_ms
        self.clock_ms = clock_ms
        self.before = before
        self.after: Optional[Vector] = None
        self.always = always  # appendfsync always was in force: an answer says that it is on disk
        self.reply: Reply = None
        self.has_reply = False
        self.waited = False  # it ran in a later step than it came: `before` and `after` are then the vector after that step
        self.answered_ms: Optional[int] = None
        self.lost = False  # the client will never know: connection lost, process dead

    def commands(self) -> tuple[Words, ...]:
        """The command, or those of the transaction."""
        return self.queued or (self.argv,)

    def effects(self) -> tuple[int, int]:
        """(first, last) counter that this region issued in the step; first > last when none. Only once `after` is there."""
        assert self.after is not None
        return self.before.get(self.region, 0) + 1, self.after.get(self.region, 0)


class Began:
    """A region's process has started. `how`: first, clean, kill, power, backup. `vector` is what it found on its disk.

    `patience_ms`: how long this start waits for the others at most (S13.6).
    """

    __slots__ = ("at_ms", "how", "life", "patience_ms", "region", "start", "vector")

    def __init__(
        self,
        region: int,
        start: int,
        how: str,
        life: int,
        vector: Vector,
        at_ms: int,
        patience_ms: int = 0,
    ) -> None:
        self.region = region
        self.start = start
        self.how = how
        self.life = life
        self.vector = vector
        self.at_ms = at_ms
        self.patience_ms = patience_ms


class Stopped:
    """A region's process has ended. `on_disk` is the vector of its last commit that it knew to be on disk.

    `how`: clean, kill, power, backup, end (the run is over), or gone: for good, and what only it held is lost (S13.8).
    """

    __slots__ = ("at_ms", "how", "on_disk", "region", "start")

    def __init__(self, region: int, start: int, how: str, on_disk: Vector, at_ms: int) -> None:
        self.region = region
        self.start = start
        self.how = how
        self.on_disk = on_disk
        self.at_ms = at_ms


class Committed:
    """A commit is on the disk of a region. `blocks`: those that the region itself issued, in order."""

    __slots__ = ("at_ms", "blocks", "region", "start", "vector")

    def __init__(
        self, region: int, start: int, vector: Vector, blocks: list[Block], at_ms: int
    ) -> None:
        self.region = region
        self.start = start
        self.vector = vector
        self.blocks = blocks
        self.at_ms = at_ms


class Moved:
    """A step other than a command changed a region's vector. `clock_ms` is the region's clock then: the highest that it has read.

    `learned`: effects of its own came back to it from peers (S13.7); such a step issues none.

    `how`: "merge" (blocks of a peer, and what they made it issue, S9.2), "join" (a snapshot, likewise), "tick" (what it issued by itself),
    "waited" (commands ran that had waited for the end of the start: their operations follow, with `waited` set, and issued this).
    """

    __slots__ = ("after", "at_ms", "before", "clock_ms", "how", "learned", "region", "start")

    def __init__(
        self,
        region: int,
        start: int,
        how: str,
        before: Vector,
        after: Vector,
        at_ms: int,
        clock_ms: int,
        learned: bool,
    ) -> None:
        self.region = region
        self.start = start
        self.how = how
        self.before = before
        self.after = after
        self.at_ms = at_ms
        self.clock_ms = clock_ms
        self.learned = learned


class Shown:
    """What a region shows at one moment, through commands: its vector and digest."""

    __slots__ = ("at_ms", "digest", "region", "vector")

    def __init__(self, region: int, vector: Vector, digest: bytes, at_ms: int) -> None:
        self.region = region
        self.vector = vector
        self.digest = digest
        self.at_ms = at_ms


Ask = Callable[[int, Words], Reply]
"""(region_id, command) → its reply, without the command being part of the history. For reading commands only."""


@dataclass(frozen=True)
class Setup:
    """What a judge knows beforehand. `settings`: by region_id, every setting's value as text. `shared`: what judges of one run share."""

    seed: int
    regions: tuple[int, ...]
    settings: dict[int, dict[str, str]]
    keys: tuple[bytes, ...]
    ask: Ask
    shared: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class End:
    """After healing. `converged_ms`: how long convergence took, None if it did not come within `bound_ms`."""

    converged_ms: Optional[int]
    bound_ms: int
    at_ms: int
    shown: dict[int, Shown]
    why_not: str = ""


class Violation(NamedTuple):
    """An invariant does not hold. `checker` is its file's name."""

    checker: str
    at_ms: int
    region: int
    text: str

    def __str__(self) -> str:
        where = f" in region {self.region}" if self.region else ""
        return f"{self.checker} at {self.at_ms} ms{where}: {self.text}"


@mypyc_attr(allow_interpreted_subclasses=True)
class Checker:
    """Base of the judges: each overrides the events that it looks at, and calls `fail`."""

    name: ClassVar[str] = ""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.violations: list[Violation] = []
        # called at the first violation; the shrinker ends the run so
        self.on_first: Optional[Callable[[], None]] = None

    def fail(self, at_ms: int, region: int, text: str) -> None:
        self.violations.append(Violation(self.name, at_ms, region, text))
        if self.on_first is not None and len(self.violations) == 1:
            self.on_first()

    def began(self, event: Began) -> None:
        """A process has started."""

    def stopped(self, event: Stopped) -> None:
        """A process has ended: what it had not on disk is gone."""

    def executed(self, operation: Operation) -> None:
        """A region has computed a reply (its client may not have it yet, or ever)."""

    def answered(self, operation: Operation) -> None:
        """The client has the reply."""

    def lost(self, operation: Operation) -> None:
        """The client will never have the reply; whether the command was executed it cannot know."""

    def moved(self, event: Moved) -> None:
        """A region's vector moved without a command."""

    def committed(self, event: Committed) -> None:
        """A commit is on disk."""

    def shown(self, shown: dict[int, Shown]) -> None:
        """Every running region's vector and digest at one moment; called now and then, faults or not."""

    def healed(self, at_ms: int) -> None:
        """Faults and load are over; convergence must come."""

    def finish(self, end: End) -> None:
        """The run is over."""
