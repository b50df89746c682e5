"""Calls at an engine's door, as plain values in their true order.

The tap (`sim.world.tap`) makes a `Call` of each call that changes a region or that its replies
depend on. The inputs come from the inside: a judge that follows them computes what the region must
do from what it was given, and need not guess the order of events.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Optional, Union

from anabranch.crdt.block import Block
from anabranch.crdt.effects import Effect
from anabranch.crdt.gossip import Gossip, StartAnswer
from anabranch.crdt.vector import Vector
from anabranch.region.engine.replies import Reply
from anabranch.region.engine.setting import Value

# The kinds of calls.
START: Final = "start"
EXECUTE: Final = "execute"
MERGE: Final = "merge"
JOIN: Final = "join"
TICK: Final = "tick"
COMMIT: Final = "commit"
COMMITTED: Final = "committed"
CUT: Final = "cut"
HEAR: Final = "hear"
DISCONNECT: Final = "disconnect"
REFUSED: Final = "refused"
OTHER: Final = "other"

Issued = tuple[int, Effect]
"""(counter of the first dot, effect)"""


class RowFacts(NamedTuple):
    """A row that a call added to the region's log. `kind`: block, records, snapshot or clock.

    `origin`, `first` and `last` are those of a block.
    """

    position: int
    kind: str
    origin: int = 0
    first: int = 0
    last: int = 0


class EngineFacts(NamedTuple):
    """The region just after a call, as far as rules depend on it.

    - `vector`: all effects applied, committed or not.
    - `position`: the last row made. `is_open`: effects or local records follow it that are in no
      row yet.
    - `clock_ms`: the clock that never runs back (S10.2). `steady_ms`: the time of time-outs.
    - `floor_ms`: the lowest time of generated IDs (S7.7).
    - `state`: starting, serving, recovery or lost. `error`: why the last commit failed, or empty.
    - `pending_bytes`: bytes that wait for the disk. `members`: the ids of the members that are not
      said lost, the region's own included.
    """

    vector: Vector
    position: int
    is_open: bool
    clock_ms: int
    steady_ms: int
    floor_ms: int
    state: str
    error: str
    pending_bytes: int
    members: tuple[int, ...]


class Following:
    """The commands of a batch after the first one, `count` of them, as the parser packed them.

    `shape` names how they may differ (`region.engine.batch.Shape`).

    They differ from the first one in the word at the index `word`, which `words` has for each, and
    in each second word from `first_value` on (0: in none). `data` has these values: as entries of a
    run (`as_entries`, see `crdt/adds.py`), or as `encode_values` has them, with the place where
    those of each command end in `ends`. There may be more in `words`, `data` and `ends`.
    """

    def __init__(
        self,
        shape: str,
        count: int,
        word: int,
        first_value: int,
        as_entries: bool,
        words: list[bytes],
        data: bytes,
        ends: list[int],
    ) -> None:
        self.shape: Final = shape
        self.count: Final = count
        self.word: Final = word
        self.first_value: Final = first_value
        self.as_entries: Final = as_entries
        self.words: Final = words
        self.data: Final = data
        self.ends: Final = ends


class Call:
    """One call. Which fields have a value depends on `kind`.

    Calls of the kinds commit, committed, hear and other are left out if nothing happened in them.

    - all: `region`; `start`, the number of the region's process; `at_ms`, the true time; `now_ms`,
      the reading given (0 without one); `issued`, the effects that the region issued in the call;
      `rows`, the rows that the call made; `late`, (session, reply) of each command that had waited;
      `facts`, after the call; `settings`, the values in force.
    - start: `how` as in `Began`; `facts.position` is what was found on the disk, `issued` is what
      the start issued.
    - execute: `session`; `argv`, the first command of a batch; `following`, those after it that the
      region has taken (None without any); `replies`. `sim.unrolled` has each command and its reply.
    - disconnect: `session`.
    - merge: `source`, `blocks`, `is_taken` (the link is not down and the peer not lost).
    - join: `source`, `is_taken`, `cut`, the number of the cut that is joined (0: unknown).
    - cut: `cut`, the number of the cut that was made.
    - hear: `source`, `heard`.
    - refused: `how`, the reason for which a link was closed, by this region or by the peer.
    - commit: `position`, at which the commit ends (None without a commit).
    """

    __slots__ = (
        "argv",
        "at_ms",
        "blocks",
        "cut",
        "facts",
        "following",
        "heard",
        "how",
        "is_taken",
        "issued",
        "kind",
        "late",
        "now_ms",
        "position",
        "region",
        "replies",
        "rows",
        "session",
        "settings",
        "source",
        "start",
    )

    def __init__(
        self,
        region: int,
        kind: str,
        now_ms: int,
        facts: EngineFacts,
        issued: list[Issued],
        rows: list[RowFacts],
        late: list[tuple[int, Reply]],
        settings: dict[str, Value],
    ) -> None:
        self.region: Final = region
        self.kind: Final = kind
        self.now_ms: Final = now_ms
        self.facts: Final = facts
        self.issued: Final = issued
        self.rows: Final = rows
        self.late: Final = late
        self.settings: Final = settings
        self.start = 0
        self.at_ms = 0
        self.how = ""
        self.session = 0
        self.argv: tuple[bytes, ...] = ()
        self.following: Optional[Following] = None
        self.replies: list[Reply] = []
        self.source = 0
        self.blocks: list[Block] = []
        self.is_taken = True
        self.cut = 0
        self.heard: Union[Gossip, StartAnswer, None] = None
        self.position: Optional[int] = None
