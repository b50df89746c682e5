"""Invariant 11: after healing all regions converge within a bound; and whatever the links do, a region that is awake answers.

What a command may wait for: its own time-out, the end of the start (S13.6), and under `always` the disk (S13.2); never another region.
A paused process is not awake: time counts only while the region is seen to work on other things. A disk that fails or is slow for a while
is allowed for by a patience longer than any of the simulated ones.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from typing import Final, Optional

from anabranch.region.engine.replies import ErrorReply
from anabranch.sim.checkers.delivery_arguments import readable
from anabranch.sim.history import Began, Checker, Committed, End, Moved, Operation, Setup, Stopped
from anabranch.sim.oracle.arguments import number

GAP_MS: Final = 60
"""Between two signs of life further apart than this the region may have been paused."""
AWAKE_MS: Final = 400
"""So long a region may be awake after it had to answer: it looks at time-outs every tick only."""
DISK_MS: Final = 4000
"""So long an answer may wait for the disk: longer than a failing, full or slow one lasts."""
END_MS: Final = 1000
"""Answers to commands of the last moments may be on their way when the run ends."""

_BLOCKING: Final = (b"XREAD", b"XREADGROUP")
_DISK: Final = (b"CRDT.VECTOR", b"CRDT.DIGEST", b"CRDT.MEMBER")


class Liveness(Checker):
    """The judge. `counts`: how many commands had to wait, and for what."""

    name = "liveness"

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.counts: Counter[str] = Counter()
        self._now_ms = 0
        self._starts: dict[int, tuple[int, int]] = {}  # region → (start, at_ms)
        self._patience_ms: dict[int, int] = {}  # of that start
        # region → times at which its running process did something
        self._signs: dict[int, list[int]] = {}
        self._sizes: dict[int, int] = {}  # region → effects on its disk, as far as told
        self._restored: dict[int, bool] = {}
        self._open: dict[int, Operation] = {}  # computed and not answered yet, by number

    # -- signs of life

    def _sign(self, region: int, at_ms: int) -> None:
        self._now_ms = max(self._now_ms, at_ms)
        signs = self._signs.setdefault(region, [])
        if not signs or at_ms > signs[-1]:
            signs.append(at_ms)

    def began(self, event: Began) -> None:
        size = sum(event.vector.values())
        if event.how == "backup" or size < self._sizes.get(event.region, 0):
            self._restored[event.region] = True
        self._sizes[event.region] = size
        self._starts[event.region] = (event.start, event.at_ms)
        self._patience_ms[event.region] = max(
            event.patience_ms, int(self.setup.settings[event.region]["crdt-start-patience-ms"])
        )
        self._signs[event.region] = [event.at_ms]
        self._now_ms = max(self._now_ms, event.at_ms)

    def stopped(self, event: Stopped) -> None:
        self._now_ms = max(self._now_ms, event.at_ms)

    def moved(self, event: Moved) -> None:
        self._sign(event.region, event.at_ms)

    def committed(self, event: Committed) -> None:
        self._sizes[event.region] = sum(event.vector.values())
        self._sign(event.region, event.at_ms)

    # -- commands

    def executed(self, operation: Operation) -> None:
        self._open[operation.number] = operation
        if operation.waited:
            self._had_to_answer(operation, self._due_ms(operation))
        else:
            self._sign(operation.region, operation.at_ms)
        reply = operation.reply
        if (
            isinstance(reply, ErrorReply)
            and reply.message.startswith("READONLY")
            and not self._restored.get(operation.region)
        ):
            self.fail(
                operation.at_ms,
                operation.region,
                f"refused a write though it was never restored: {reply.message} ({_of(operation)})",
            )

    def answered(self, operation: Operation) -> None:
        del self._open[operation.number]
        if operation.answered_ms is not None and operation.answered_ms > self._now_ms:
            self._now_ms = operation.answered_ms
        if not operation.waited:
            self._had_to_answer(operation, operation.at_ms + DISK_MS)

    def lost(self, operation: Operation) -> None:
        """The client gave up, or its connection went: had it been kept waiting?"""
        self._open.pop(operation.number, None)
        if not operation.has_reply:
            self._had_to_answer(operation, self._due_ms(operation))

    def _due_ms(self, operation: Operation) -> Optional[int]:
        """When a command that waited had to be answered; None: never."""
        words = operation.argv
        name = words[0].upper()
        timeout = 0
        if name in _BLOCKING:
            upper = [word.upper() for word in words]
            self.counts["waited for entries"] += 1
            if b"BLOCK" in upper[: upper.index(b"STREAMS")]:
                timeout = number(words[upper.index(b"BLOCK") + 1])
        elif name in (b"WAIT", b"CRDT.WAIT", b"CRDT.SYNC"):
            self.counts["waited for regions"] += 1
            timeout = number(words[2] if name == b"WAIT" else words[1])
        elif name in _DISK:
            self.counts["waited for the disk"] += 1
            return operation.at_ms + DISK_MS
        else:
            self.counts["waited for the start"] += 1
            return max(
                operation.at_ms,
                self._starts[operation.region][1] + self._patience_ms[operation.region],
            )
        return operation.at_ms + timeout if timeout else None

    def _had_to_answer(self, operation: Operation, due_ms: Optional[int]) -> None:
        """Fails if the region was awake for long after an answer was due, and gave none till now."""
        start = self._starts[operation.region]
        if due_ms is None or self._now_ms <= due_ms + AWAKE_MS or operation.start != start[0]:
            return
        signs = self._signs[operation.region]
        awake_ms = 0
        for index in range(bisect_left(signs, due_ms) + 1, len(signs)):
            gap_ms = signs[index] - signs[index - 1]
            awake_ms += gap_ms if gap_ms <= GAP_MS else 0
        if awake_ms > AWAKE_MS:
            late_ms = self._now_ms - due_ms
            self.fail(
                self._now_ms,
                operation.region,
                f"awake, and gave no answer for {late_ms} ms after it had to ({_of(operation)})",
            )

    # -- the end

    def finish(self, end: End) -> None:
        if end.converged_ms is None:
            self.fail(
                end.at_ms,
                0,
                f"no convergence within {end.bound_ms} ms after healing: {end.why_not}",
            )
        elif end.converged_ms > end.bound_ms:
            self.fail(
                end.at_ms, 0, f"convergence took {end.converged_ms} ms, more than {end.bound_ms}"
            )
        for operation in self._open.values():
            if (
                operation.at_ms < end.at_ms - END_MS
                and operation.start == self._starts[operation.region][0]
            ):
                self.fail(
                    end.at_ms,
                    operation.region,
                    f"computed a reply and never gave it ({_of(operation)})",
                )


def _of(operation: Operation) -> str:
    return f"operation {operation.number} at {operation.at_ms} ms: {readable(operation.argv)}"
