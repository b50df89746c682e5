"""The part of a region's twin that commands and rules use: the state, and issuing effects.

`issue` compares each effect with the one that the region issued under the same counter, so effects
are judged in the order in which they arise. Where the specification leaves a choice to the region
(`~`, the moment of a round, the moment of a removal), a rule looks at the next effect that the
region issued, checks that it is allowed, and follows it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Optional

from anabranch.region.engine.replies import ErrorReply, Reply
from anabranch.region.engine.setting import Value
from anabranch.sim import calls
from anabranch.sim.calls import Call, EngineFacts
from anabranch.sim.twin.apply import apply
from anabranch.sim.twin.conflicts import Conflicts
from anabranch.sim.twin.effects import Plain, content
from anabranch.sim.twin.journal import Journal
from anabranch.sim.twin.records import Record, apply_record
from anabranch.sim.twin.replies import Mismatch, error_with
from anabranch.sim.twin.session import Blocked, Session, StartNotOver
from anabranch.sim.twin.state import State
from anabranch.sim.twin.vectors import Dot, Vector


class TwinCore:
    """State, log and the present call of one region's twin."""

    def __init__(self, region: int) -> None:
        self.region: Final = region
        self.state = State(region)
        self.journal = Journal()
        self.blocked: list[Blocked] = []
        # All that this region ever held, and the highest clock that it ever read: others may have
        # heard of it before a crash. `others` are the regions that count as members.
        self.had: Vector = {}
        self.clock_max_ms = 0
        self.others: Callable[[], list[TwinCore]] = list
        # No region is followed: what the twin issues stands (tests/crdt/model.py).
        self.is_alone = False
        # A read that waits runs again.
        self.is_reading = False
        # Keys, and groups by key and name, whose statistics are free: a client set them by hand,
        # which a crash may lose, or a snapshot was joined (S3.4).
        self.hand_set: set[object] = set()
        # The settings that the twin expects to be in force.
        self.settings: dict[str, Value] = {}
        # For counts (`sim.rules`): None where nobody counts. The ID modes that adds have met since
        # the start, and the own counter of the last commit.
        self.conflicts: Optional[Conflicts] = None
        self.modes: set[object] = set()
        self.counter_committed = 0
        self.call: Call
        self.facts: EngineFacts
        # The region's reply to the command that runs now, for the choices that the region has.
        self.reply: Optional[Reply] = None
        # The later commands of the transaction that runs now, with the region's replies.
        self.later: list[tuple[tuple[bytes, ...], Reply]] = []
        # Likewise the commands that waited for the end of the start, and run after this one.
        self.waited: list[tuple[tuple[bytes, ...], Reply]] = []
        # The effects that the region issued in this call, by counter.
        self.to_follow: dict[int, Plain] = {}

    def may_issue(self) -> bool:
        """Whether the region may issue effects by itself now."""
        return self.facts.state == "serving"

    def require_issue(self) -> None:
        """Ends a command that would issue an effect while the region may not."""
        if self.facts.state == "starting" and not self.is_refused_for_disk():
            raise StartNotOver
        self.require_disk()
        if self.facts.state != "serving":
            self.state.count("S13.8")
            raise error_with("READONLY")

    def require_disk(self) -> None:
        """Ends a command that changes anything while commits fail (S13.4)."""
        if self.facts.error:
            raise error_with("MISCONF")

    def is_refused_for_disk(self) -> bool:
        """Whether the region refuses the command because commits fail (S13.4)."""
        reply = self.reply
        is_refusal = isinstance(reply, ErrorReply) and reply.message.startswith("MISCONF")
        return is_refusal and self.facts.error != ""

    def is_refused_by_bytes(self) -> bool:
        """Whether the region refuses the command because too much waits for the disk (S14)."""
        limit = self.call.settings["crdt-uncommitted-max-bytes"]
        assert isinstance(limit, int)
        is_refused = (
            isinstance(self.reply, ErrorReply)
            and "crdt-uncommitted-max-bytes" in self.reply.message
            and self.facts.pending_bytes > limit
        )
        if is_refused:
            self.state.count("S14")
        return is_refused

    def counter(self) -> int:
        """The counter of the newest own effect."""
        return self.state.vector.get(self.region, 0)

    def next_issued(self) -> Optional[Plain]:
        """The effect that the region issued next, for the choices that it has."""
        return self.to_follow.get(self.counter() + 1)

    def issue(self, effect: Plain) -> None:
        """Issues an effect; `Mismatch` if the region issued another one or none."""
        if self.call.kind != calls.TICK:
            self.require_issue()
        counter = self.counter() + 1
        if self.is_alone:
            self.to_follow[counter] = effect
        actual = self.to_follow.get(counter)
        if actual is None:
            raise Mismatch(f"did not issue {named(counter, effect)}")
        if content(actual) != content(effect):
            raise Mismatch(f"issued {named(counter, actual)}; expected {content(effect)!r}")
        self.follow(actual)

    def follow(self, effect: Plain) -> None:
        """Applies the next effect that the region issued."""
        dot: Dot = (self.region, self.counter() + 1)
        if self.conflicts is not None:
            self.conflicts.issue(self.state, effect, dot)
        apply(self.state, effect, dot, is_issued=True)
        self.journal.issued(dot, effect)

    def vector(self) -> dict[int, int]:
        """A copy of the vector, for effects that carry it."""
        return dict(self.state.vector)

    def record(self, record: Record) -> None:
        """Makes a local record and applies it."""
        self.require_disk()
        apply_record(self.state, record)
        self.journal.recorded(record)


Run = Callable[[TwinCore, Session, tuple[bytes, ...]], object]
"""Runs a command and returns the expected reply."""


def named(counter: int, effect: Plain) -> str:
    return f"effect {counter} {content(effect)!r}"
