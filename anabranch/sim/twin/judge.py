"""The judge `twin`: each region does what its twin does (docs/testing.md).

After the first mismatch a region is judged no more, and so is every region that joins a snapshot of
it: their twins would only report what follows from the mismatch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import ClassVar, Final, Optional

from mypy_extensions import mypyc_attr

from anabranch.crdt.block import Block
from anabranch.region.engine.replies import ErrorReply, ReplyLater
from anabranch.sim import calls
from anabranch.sim.calls import Call
from anabranch.sim.history import Began, Checker, End, Operation, Setup, Shown, Stopped
from anabranch.sim.replies import figures_of
from anabranch.sim.twin.announce import announcements
from anabranch.sim.twin.conflicts import Conflicts
from anabranch.sim.twin.core import TwinCore
from anabranch.sim.twin.dispatch import run
from anabranch.sim.twin.effects import Plain
from anabranch.sim.twin.join import Frozen
from anabranch.sim.twin.looks import pending_questions, trim_questions
from anabranch.sim.twin.region import TwinRegion, decode
from anabranch.sim.twin.replies import Mismatch, in_words, shown

_BLOCKS_MAX: Final = 2000
# Regions are looked into at every eighth call of `shown`.
LOOKS_EVERY: Final = 8


@mypyc_attr(allow_interpreted_subclasses=True)
class Twin(Checker):
    """A naive twin beside every region."""

    name: ClassVar[str] = "twin"

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.regions: Final = {one: TwinRegion(one, run) for one in setup.regions}
        for twin in self.regions.values():
            twin.others = self._others_of(twin.region)
            twin.conflicts = Conflicts(twin.region, setup.counts)
        self._cuts: Final[dict[int, Frozen]] = {}
        # Decoded blocks by chain value.
        self._decoded: Final[dict[bytes, list[Plain]]] = {}
        self._order: Final[deque[bytes]] = deque()
        self._how = ""
        self._times = 0
        # The region and position of the last command, and number of an operation → the position at
        # which a start must find the log once the client has the answer (S13.2).
        self._executed = (0, 0)
        self._reflected: Final[dict[int, int]] = {}
        # (region_id, start) → the highest such position of an answer of that process, and the
        # position that the start after it has found.
        self._answered: Final[dict[tuple[int, int], int]] = {}
        self._found: Final[dict[tuple[int, int], int]] = {}
        self._gone: Final[set[int]] = set()

    def _others_of(self, region: int) -> Callable[[], list[TwinCore]]:
        """The other regions that are judged and are not gone for good, for one region's twin."""

        def others() -> list[TwinCore]:
            twins = self.regions.items()
            return [twin for one, twin in twins if one != region and one not in self._gone]

        return others

    def began(self, event: Began) -> None:
        self._how = event.how

    def stopped(self, event: Stopped) -> None:
        if event.how == "gone":
            self._gone.add(event.region)

    def called(self, call: Call) -> None:
        twin: Optional[TwinRegion] = self.regions.get(call.region)
        if twin is None:
            return
        if call.kind == calls.START:
            call.how = self._how
        if call.kind == calls.JOIN and call.is_taken and call.cut not in self._cuts:
            if any(row.kind == "snapshot" for row in call.rows):
                del self.regions[call.region]
                return
        try:
            if call.kind == calls.START and call.how != "backup" and call.position is not None:
                former = (call.region, call.start - 1)
                self._found[former] = call.position
                self._check_answers(former)
            twin.take(call, self._decode, self._cuts)
            self._executed = (call.region, twin.journal.next_position)
        except Mismatch as error:
            del self.regions[call.region]
            self.fail(call.at_ms, call.region, f"{title(call)}: {error}{_replied(call)}")

    def _check_answers(self, process: tuple[int, int]) -> None:
        """A start finds everything that an answer reflected, unless a backup was put back."""
        answered = self._answered.get(process, 0)
        found = self._found.get(process, answered)
        if found < answered:
            raise Mismatch(
                f"found position {found} on its disk; an answer told of position {answered} (S13.2)"
            )

    def executed(self, operation: Operation) -> None:
        region, position = self._executed
        if region == operation.region and not operation.waited and operation.waits_for_disk():
            self._reflected[operation.number] = position

    def answered(self, operation: Operation) -> None:
        position = self._reflected.pop(operation.number, 0)
        process = (operation.region, operation.start)
        if operation.region in self.regions and position > self._answered.get(process, 0):
            self._answered[process] = position
            try:
                # The process may have ended while the answer was on its way.
                self._check_answers(process)
            except Mismatch as error:
                self.fail(operation.at_ms, operation.region, str(error))

    def lost(self, operation: Operation) -> None:
        self._reflected.pop(operation.number, None)

    def shown(self, shown: dict[int, Shown]) -> None:
        """Looks at groups with gaps; every eighth time also at one key of one region, in turn."""
        for region in shown:
            twin = self.regions.get(region)
            if twin is not None and twin.state.with_gaps:
                names, twin.state.with_gaps = twin.state.with_gaps, []
                for name in names:
                    self.setup.ask(region, (b"XINFO", b"GROUPS", name))
        self._times += 1
        turn, rest = divmod(self._times, LOOKS_EVERY)
        if shown and self.setup.keys and rest == 0:
            regions = sorted(shown)
            keys = self.setup.keys
            self._look(regions[turn % len(regions)], keys[turn // len(regions) % len(keys)])

    def finish(self, end: End) -> None:
        """Looks at every key of every region, and for acknowledgements that none announced."""
        for region in end.shown:
            for key in self.setup.keys:
                self._look(region, key)
            twin = self.regions.get(region)
            if twin is None:
                continue
            for (name, group), due in announcements(twin.state).items():
                if due.required and self._has_receiver(region):
                    entries = f"{sorted(due.required)} of group {group!r} of {name!r}"
                    text = f"in no round announced the acknowledged entries {entries} (S8.1)"
                    self.fail(end.at_ms, region, text)

    def _has_receiver(self, region: int) -> bool:
        """Whether somebody receives from a region. Otherwise it need not announce (S8.1)."""
        figures = figures_of(self.setup.ask(region, (b"INFO", b"crdt")))
        return figures.get(b"crdt_receivers", b"0") != b"0"

    def _look(self, region: int, key: bytes) -> None:
        """Asks for the whole state of a key; the replies are judged like all others."""
        if region not in self.regions:
            return
        held = self.regions[region].state
        questions = [(b"CRDT.GROUPS", key), (b"XINFO", b"STREAM", key, b"FULL")]
        questions += trim_questions(held.visible(key))
        for argv in questions + pending_questions(held.visible(key), held.clock_ms):
            if region in self.regions:
                self.setup.ask(region, argv)

    def _decode(self, block: Block) -> list[Plain]:
        found = self._decoded.get(block.chain)
        if found is None:
            found = self._decoded[block.chain] = decode(block)
            self._order.append(block.chain)
            if len(self._order) > _BLOCKS_MAX:
                del self._decoded[self._order.popleft()]
        return found


def _replied(call: Call) -> str:
    """An error or a wait that the mismatch does not show."""
    reply = call.replies[-1] if call.replies else None
    if isinstance(reply, (ErrorReply, ReplyLater)):
        return f" (it replied {shown(reply)!r})"
    return ""


def title(call: Call) -> str:
    """A call as a violation names it."""
    if call.kind != calls.EXECUTE:
        return call.kind
    following = f" and {call.following.count} like it" if call.following is not None else ""
    return f"connection {call.session}: {in_words(call.argv)}{following}"
