"""The history of a run as the judges receive it: commands, replies, vectors and wire blocks.

Nothing here is a value of the engine: a judge sees commands and replies, version vectors
(`CRDT.VECTOR`), digests (`CRDT.DIGEST`), and the blocks that a region has put on its disk for its
peers. The blocks are the wire contract.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, Final, NamedTuple, Optional

from mypy_extensions import mypyc_attr

from anabranch.crdt.block import Block
from anabranch.crdt.vector import Vector
from anabranch.region.engine.replies import ErrorReply, Reply
from anabranch.sim.calls import Call
from anabranch.sim.rules import Counts

Words = tuple[bytes, ...]

# Commands that may wait for another reason than the start.
BLOCKING: Final = (
    b"XREAD",
    b"XREADGROUP",
    b"WAIT",
    b"CRDT.WAIT",
    b"CRDT.SYNC",
    b"CRDT.VECTOR",
    b"CRDT.DIGEST",
    b"CRDT.STABLE",
    b"CRDT.MEMBER",
    b"CRDT.EXPLAIN",
    b"CRDT.HISTORY",
    b"CRDT.EFFECTS",
)


# How the refusal of a write begins while commits fail.
_DISK_FAILS: Final = "MISCONF this region takes no writes: its last commit"


# First words of commands that show the region and no data. Their replies wait for no commit while
# commits fail.
_WITHOUT_DATA: Final = frozenset(
    b"PING ECHO TIME INFO CONFIG CLIENT COMMAND HELLO AUTH SELECT RESET QUIT DEBUG"
    b" CRDT.PEERS CRDT.LINK".split()
)


def is_disk_refusal(reply: Reply) -> bool:
    """Whether a write was refused because the disk fails.

    The refusal reflects nothing, so it leaves at once, before replies that wait for the disk
    (S13.4).
    """
    return isinstance(reply, ErrorReply) and reply.message.startswith(_DISK_FAILS)


class Operation:
    """One command of one client, from sending to its answer.

    - `number`: counts all operations of a run, in the order in which the regions executed them.
    - `start`: the number of the region's process start in which the command ran.
    - `argv`, `queued`: a transaction is one operation: argv is EXEC alone, `queued` holds the
      commands of the transaction, and `reply` is EXEC's.
    - `at_ms`: true (virtual) time. `clock_ms`: the time that the region's own clock read.
    - `floor_ms`: the lowest time of generated IDs that the region showed then (S7.7).
    - `before`, `after`: the region's vector just before and just after the step that executed the
      command. `after` is None while the command waits (blocked, or the start is not over).
    - `always`: appendfsync always was in force, so an answer means that the command is on disk,
      except where `waits_for_disk` says otherwise.
    - `commits_fail`: the region's last commit had failed when the command ran.
    - `reply`: the reply that the region computed, None until then.
    - `waited`: the command ran in a later step than the one in which it arrived; `before` and
      `after` are then both the vector after that later step.
    - `answered_ms`: the time at which the client had the reply, None if it never had.
    - `lost`: the client will never have the reply: its connection is lost, or the process is dead.
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
        "commits_fail",
        "floor_ms",
        "has_reply",
        "lost",
        "number",
        "queued",
        "region",
        "reply",
        "start",
        "waited",
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
        self.at_ms = at_ms
        self.clock_ms = clock_ms
        self.before = before
        self.after: Optional[Vector] = None
        self.always = always
        self.commits_fail = False
        self.floor_ms = 0
        self.reply: Reply = None
        self.has_reply = False
        self.waited = False
        self.answered_ms: Optional[int] = None
        self.lost = False

    def commands(self) -> tuple[Words, ...]:
        """The command alone, or the commands of the transaction."""
        return self.queued or (self.argv,)

    def waits_for_disk(self) -> bool:
        """Whether the answer means that everything it reflects is on disk (S13.2, S13.4)."""
        if not self.always or is_disk_refusal(self.reply):
            return False
        return not self.commits_fail or self.argv[0].upper() not in _WITHOUT_DATA

    def effects(self) -> tuple[int, int]:
        """(first, last) counter that the region issued in the step; first > last if it issued none.

        Call it only once `after` is set.
        """
        assert self.after is not None
        return self.before.get(self.region, 0) + 1, self.after.get(self.region, 0)


class Began:
    """A region's process has started.

    `how`: first, clean, kill, power or backup. `vector`: the vector that the process found on its
    disk. `patience_ms`: how long this start waits for the other members at most (S13.6).
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
    """A region's process has ended.

    `on_disk`: the vector of the last commit that the process knew to be on disk. `how`: clean,
    kill, power, backup, end (the run is over), or gone: the region is gone for good, and effects
    that only it held are lost (S13.8).
    """

    __slots__ = ("at_ms", "how", "on_disk", "region", "start")

    def __init__(self, region: int, start: int, how: str, on_disk: Vector, at_ms: int) -> None:
        self.region = region
        self.start = start
        self.how = how
        self.on_disk = on_disk
        self.at_ms = at_ms


class Committed:
    """A commit is on the disk of a region. `blocks`: those that the region issued, in order."""

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
    """A step other than a command changed a region's vector.

    `clock_ms`: the region's clock then, the highest time that the region has read. `learned`:
    effects of the region came back to it from peers (S13.7); such a step issues none. `source`: the
    peer that sent the blocks or the snapshot, 0 if none did. `blocks`: (origin, first, last) of the
    blocks in the order in which they were sent; the region ignores those that it holds.

    `how`:
    - "merge": blocks of a peer, and the effects that the region issued because of them (S9.2).
    - "join": a snapshot, likewise.
    - "tick": effects that the region issued without a command.
    - "waited": commands that had waited for the end of the start ran and issued these effects;
      their operations follow, with `waited` set.
    """

    __slots__ = (
        "after",
        "at_ms",
        "before",
        "blocks",
        "clock_ms",
        "how",
        "learned",
        "region",
        "source",
        "start",
    )

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
        source: int = 0,
        blocks: tuple[tuple[int, int, int], ...] = (),
    ) -> None:
        self.region = region
        self.start = start
        self.how = how
        self.source = source
        self.before = before
        self.after = after
        self.at_ms = at_ms
        self.clock_ms = clock_ms
        self.learned = learned
        self.source = source
        self.blocks = blocks


class Shown:
    """The vector and the digest that a region shows through commands at one moment."""

    __slots__ = ("at_ms", "digest", "region", "vector")

    def __init__(self, region: int, vector: Vector, digest: bytes, at_ms: int) -> None:
        self.region = region
        self.vector = vector
        self.digest = digest
        self.at_ms = at_ms


Ask = Callable[[int, Words], Reply]
"""(region_id, reading command) → reply. The command is not part of the history."""


@dataclass(frozen=True)
class Setup:
    """The facts that a judge knows beforehand.

    `settings`: region_id → every setting's value as text. `shared`: values that the judges of one
    run share. `counts`: the rules that the run exercises.
    """

    seed: int
    regions: tuple[int, ...]
    settings: dict[int, dict[str, str]]
    keys: tuple[bytes, ...]
    ask: Ask
    shared: dict[str, object] = field(default_factory=dict)
    counts: Counts = field(default_factory=Counts)


@dataclass(frozen=True)
class End:
    """The end of a run, after healing.

    `converged_ms`: how long convergence took, None if it did not come within `bound_ms`. `why_not`:
    the reason in that case.
    """

    converged_ms: Optional[int]
    bound_ms: int
    at_ms: int
    shown: dict[int, Shown]
    why_not: str = ""


class Violation(NamedTuple):
    """An invariant does not hold. `checker` is the name of the judge's file."""

    checker: str
    at_ms: int
    region: int
    text: str

    def __str__(self) -> str:
        where = f" in region {self.region}" if self.region else ""
        return f"{self.checker} at {self.at_ms} ms{where}: {self.text}"


@mypyc_attr(allow_interpreted_subclasses=True)
class Checker:
    """Base class of the judges: a judge overrides the events that it looks at, and calls `fail`.

    A judge that is compiled defines `__init__`. If it inherited this one, mypyc would run it twice
    for each judge and never release the first `setup`, which holds the whole world.
    """

    name: ClassVar[str] = ""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.violations: list[Violation] = []
        # Called at the first violation; the shrinker ends the run with it.
        self.on_first: Optional[Callable[[], None]] = None

    def fail(self, at_ms: int, region: int, text: str) -> None:
        """Records a violation."""
        self.violations.append(Violation(self.name, at_ms, region, text))
        if self.on_first is not None and len(self.violations) == 1:
            self.on_first()

    def began(self, event: Began) -> None:
        """A process has started."""

    def stopped(self, event: Stopped) -> None:
        """A process has ended: everything that it had not on disk is gone."""

    def executed(self, operation: Operation) -> None:
        """A region has computed a reply. The client may receive it later, or never."""

    def answered(self, operation: Operation) -> None:
        """The client has the reply."""

    def lost(self, operation: Operation) -> None:
        """The client will never have the reply; it cannot know whether the command was executed."""

    def moved(self, event: Moved) -> None:
        """A region's vector moved without a command."""

    def committed(self, event: Committed) -> None:
        """A commit is on disk."""

    def called(self, call: Call) -> None:
        """A call at an engine's door has returned."""

    def shown(self, shown: dict[int, Shown]) -> None:
        """Vector and digest of every running region at one moment; called during faults, too."""

    def healed(self, at_ms: int) -> None:
        """Faults and load are over; the regions must converge now."""

    def finish(self, end: End) -> None:
        """The run is over."""
