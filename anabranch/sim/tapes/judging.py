"""The tapes of several regions, replayed through the twin.

The regions are replayed side by side, because a region that joins a snapshot needs the state of the
region that cut it: its tape waits until the other one has come to that cut.

Clients of live regions send more than the simulator's clients do. A command that the twin does not
know, or cannot read, is judged only by what it leaves: if it issues effects or makes local records,
the twin cannot follow the region any more, and goes on at the next state in the tape. So it does
where a tape has a gap, and where no tape has the snapshot that was joined. After a crash the twin
replays the rows that the start found, as the region did.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Optional

from anabranch.region.engine.replies import ErrorReply
from anabranch.sim import calls
from anabranch.sim.calls import Call
from anabranch.sim.tapes.base import begin
from anabranch.sim.tapes.reading import Beginning, CutSent, Frame, Joined, frames, number_of, owner
from anabranch.sim.twin.core import TwinCore
from anabranch.sim.twin.dispatch import KNOWN, run
from anabranch.sim.twin.join import Frozen
from anabranch.sim.twin.judge import title
from anabranch.sim.twin.region import TwinRegion, decode
from anabranch.sim.twin.replies import Expected, Mismatch, in_words, shown
from anabranch.sim.twin.session import Session
from anabranch.sim.unrolled import commands_of, replies_of

_ANYTHING: Final = Expected("anything", lambda _: True)
# Errors that tell of words that do not parse, of commands that a region does not serve, and of
# passwords. The twin parses only right words.
_MALFORMED: Final = (
    "wrong number of arguments",
    "syntax error",
    "unknown command",
    "not served",
    "cluster support disabled",
    "nknown subcommand",
    "not an integer",
    "Invalid",
    "must be",
    "NOAUTH",
    "can't be",
    "is not allowed",
)
_STORY_LINES: Final = 12
_REMEMBERED: Final = 400


class Wrong:
    """A wrong reply or effect: when, where, what, and the calls before it on the same key."""

    def __init__(self, at_ms: int, region: str, text: str, story: list[str]) -> None:
        self.at_ms: Final = at_ms
        self.region: Final = region
        self.text: Final = text
        self.story: Final = story


class Replay:
    """The tapes of one region on their way through its twin."""

    def __init__(self, region: int, name: str, files: list[Path]) -> None:
        self.region: Final = region
        self.name: Final = name
        self.frames: Final = self._all_frames(files)
        self.twin: Optional[TwinRegion] = None
        self.calls = 0
        # How often the twin took over a state of the tape: once, unless there are gaps.
        self.parts = 0
        self.notes: list[str] = []
        # Number of a cut → its key for the judge. Each process numbers its cuts from 1 on, and the
        # tapes of later ones may be read before another region joins an earlier one's cut.
        self.cut_keys: Final[dict[int, int]] = {}
        # A JOIN that waits for the cut with the digest that follows it.
        self.joining: Optional[Call] = None
        self.digest = b""
        self.is_over = False
        self.recent: deque[tuple[int, tuple[bytes, ...], str]] = deque(maxlen=_REMEMBERED)
        # The present call ran a command that the twin does not know, or cannot read.
        self.is_unclear = False

    def _all_frames(self, files: list[Path]) -> Iterator[Frame]:
        last = 0
        for file in files:
            number = number_of(file)
            if number != last + 1:
                self.twin = None
            last = number
            yield from frames(file)

    def run(self, twin: TwinCore, session: Session, argv: tuple[bytes, ...]) -> object:
        """Runs a command of a live client as the region ran it; returns the expected reply."""
        name = argv[0].upper()
        if isinstance(twin.reply, ErrorReply) and _is_malformed(twin.reply.message):
            session.has_failed = session.queued is not None
            return _ANYTHING
        if name not in KNOWN:
            if name == b"RESET":
                session.end()
            elif session.queued is not None and not isinstance(twin.reply, ErrorReply):
                session.queued.append(argv)
            elif session.queued is not None:
                session.has_failed = True
            self.is_unclear = True
            return _ANYTHING
        if name == b"EXEC" and session.queued is not None:
            self.is_unclear = any(one[0].upper() not in KNOWN for one in session.queued)
        try:
            return run(twin, session, argv)
        except (AssertionError, IndexError, KeyError, ValueError):
            self.is_unclear = True
            return _ANYTHING

    def knows_rows(self, position: int | None) -> bool:
        """Whether the twin has all rows up to this position, which a start found on its disk."""
        twin = self.twin
        if twin is None or twin.first_state is None or position is None:
            return False
        return twin.journal.first <= position <= twin.journal.position

    def note(self, text: str) -> None:
        """Tells why the twin does not follow the region any more."""
        self.notes.append(text)
        self.twin = None


class Judge:
    """`files`: tapes of any regions, in any order."""

    def __init__(self, files: list[Path]) -> None:
        by_region: dict[int, tuple[str, list[Path]]] = {}
        for file in sorted(files, key=number_of):
            region, name = owner(file)
            by_region.setdefault(region, (name, []))[1].append(file)
        self.replays: Final = [
            Replay(region, name, by_region[region][1])
            for region, (name, _) in sorted(by_region.items())
        ]
        self.wrong: Optional[Wrong] = None
        self._cuts: Final[dict[int, Frozen]] = {}
        # Digest of the chunks of a cut → its key in `_cuts`.
        self._by_digest: Final[dict[bytes, int]] = {}
        # How many cuts the tapes have had so far: the key of the newest.
        self._cuts_made = 0

    def run(self) -> None:
        """Replays all tapes, up to the first mismatch."""
        while self.wrong is None:
            moved = [self._advance(one) for one in self.replays if not one.is_over]
            if not moved:
                return
            if not any(moved):
                for one in self.replays:
                    if one.joining is not None:
                        one.joining = None
                        one.note("no tape has the snapshot that it joined")

    def _advance(self, one: Replay) -> bool:
        """Replays until the tape ends or waits; whether anything was replayed."""
        moved = False
        while self.wrong is None:
            if one.joining is not None:
                if one.digest not in self._by_digest:
                    return moved
                call, one.joining = one.joining, None
                call.cut = self._by_digest[one.digest]
                self._take(one, call)
            frame = next(one.frames, None)
            if frame is None:
                one.is_over = True
                return True
            moved = True
            self._frame(one, frame)
        return moved

    def _frame(self, one: Replay, frame: Frame) -> None:
        if isinstance(frame, Beginning):
            if not frame.follows or one.twin is None:
                one.parts += 1
                one.twin = TwinRegion(one.region, one.run)
                begin(one.twin, frame.base)
        elif isinstance(frame, CutSent):
            if frame.cut in one.cut_keys:
                self._by_digest[frame.digest] = one.cut_keys[frame.cut]
        elif isinstance(frame, Call):
            if frame.kind == calls.START and not one.knows_rows(frame.position):
                one.twin = None
            if one.twin is None:
                return
            if frame.kind == calls.JOIN and any(row.kind == "snapshot" for row in frame.rows):
                one.joining = frame
                joined = next(one.frames, None)
                one.digest = joined.digest if isinstance(joined, Joined) else b""
            else:
                self._take(one, frame)

    def _take(self, one: Replay, call: Call) -> None:
        twin = one.twin
        if twin is None:
            return
        one.calls += 1
        if call.kind == calls.CUT:
            self._cuts_made += 1
            one.cut_keys[call.cut] = self._cuts_made
            call.cut = self._cuts_made
        one.is_unclear = False
        try:
            twin.take(call, decode, self._cuts)
        except Mismatch as error:
            if one.is_unclear:
                one.note(f"{title(call)}: the twin does not know what this command changes")
            else:
                text = f"{title(call)}: {error}"
                self.wrong = Wrong(call.at_ms, one.name, text, _story(one, call))
        _remember(one, call)


def _is_malformed(message: str) -> bool:
    return any(words in message for words in _MALFORMED)


def _remember(one: Replay, call: Call) -> None:
    if call.kind == calls.EXECUTE:
        for argv, reply in zip(commands_of(call), replies_of(call), strict=False):
            text = f"{call.at_ms} ms: connection {call.session}: {in_words(argv)}"
            one.recent.append((call.at_ms, argv, f"{text} → {shown(reply)!r}"[:300]))
    elif call.kind in (calls.MERGE, calls.JOIN, calls.START):
        blocks = ", ".join(f"{block.first}–{block.last} of {block.origin}" for block in call.blocks)
        one.recent.append((call.at_ms, (), f"{call.at_ms} ms: {call.kind} {blocks}"))


def _story(one: Replay, call: Call) -> list[str]:
    """The last calls of the region that concern a key of the wrong call, and merges."""
    keys: set[bytes] = set()
    if call.kind == calls.EXECUTE:
        keys = {word for argv in commands_of(call) for word in argv[1:]}
    found = [text for _, argv, text in one.recent if not argv or not keys or keys & set(argv[1:])]
    return found[-_STORY_LINES:]
