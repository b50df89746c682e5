"""Invariant 11: after healing all regions converge in time, and a region that is awake answers.

A command may wait for its own time-out, for the end of the start (S13.6), and under `always` for
the disk (S13.2), but never for another region, even if links are cut. A paused process is not
awake: time counts only while the region is seen to work on other things. For a disk that fails or
is slow, the patience is longer than any simulated trouble.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Final, Optional

from anabranch.region.engine.replies import ErrorReply
from anabranch.sim.history import Began, Checker, Committed, End, Moved, Operation, Setup, Stopped

GAP_MS: Final = 60
"""Between two signs of life further apart than this, the region may have been paused."""
AWAKE_MS: Final = 400
"""How long a region may be awake with a reply due: it checks time-outs only at its ticks."""
DISK_MS: Final = 4000
"""How long a reply may wait for the disk: longer than a failing, full or slow disk lasts."""
END_MS: Final = 1000
"""Replies to commands of the last moments may still be on their way when the run ends."""

_BLOCKING: Final = (b"XREAD", b"XREADGROUP")
_DISK: Final = (b"CRDT.VECTOR", b"CRDT.DIGEST", b"CRDT.STABLE", b"CRDT.MEMBER")


class Liveness(Checker):
    """The judge."""

    name = "liveness"

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._now_ms = 0
        # region_id → (start, time in ms).
        self._starts: dict[int, tuple[int, int]] = {}
        # region_id → how long that start waits for the others at most.
        self._patience_ms: dict[int, int] = {}
        # region_id → the times at which its running process did something.
        self._signs: dict[int, list[int]] = {}
        # region_id → how many effects its last reported commit had on disk.
        self._sizes: dict[int, int] = {}
        self._restored: dict[int, bool] = {}
        # Whether a region whose clock is apart refuses writes (S10.2).
        self._are_clocks_compared = any(
            values["crdt-clock-offset-max-ms"] != "0" for values in setup.settings.values()
        )
        # Number → an operation with a reply that the client does not have yet.
        self._open: dict[int, Operation] = {}

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
            and not (self._are_clocks_compared and "its clock is" in reply.message)
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
        """The client gave up or lost its connection; judges whether a reply was overdue."""
        self._open.pop(operation.number, None)
        if not operation.has_reply:
            self._had_to_answer(operation, self._due_ms(operation))

    def _due_ms(self, operation: Operation) -> Optional[int]:
        """The time by which a command that waited must be answered; None without a limit."""
        words = operation.argv
        name = words[0].upper()
        timeout = 0
        if name in _BLOCKING:
            upper = [word.upper() for word in words]
            if b"BLOCK" in upper[: upper.index(b"STREAMS")]:
                timeout = int(words[upper.index(b"BLOCK") + 1])
        elif name in (b"WAIT", b"CRDT.WAIT", b"CRDT.SYNC"):
            timeout = int(words[2] if name == b"WAIT" else words[1])
        elif name in _DISK:
            return operation.at_ms + DISK_MS
        else:
            return max(
                operation.at_ms,
                self._starts[operation.region][1] + self._patience_ms[operation.region],
            )
        return operation.at_ms + timeout if timeout else None

    def _had_to_answer(self, operation: Operation, due_ms: Optional[int]) -> None:
        """Fails if the region was awake for AWAKE_MS after the reply was due."""
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
                f"was awake, but did not answer for {late_ms} ms after the reply was due "
                f"({_of(operation)})",
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
                    f"computed a reply and never sent it ({_of(operation)})",
                )


def _of(operation: Operation) -> str:
    words = b" ".join(operation.argv).decode("utf-8", "backslashreplace")
    return f"operation {operation.number} at {operation.at_ms} ms: {words}"
