"""How SIGINT, SIGTERM and SIGHUP end a command that has something to end first.

SIGTSTP (Ctrl-Z) suspends one that has changed the terminal.

SIGHUP comes when the terminal is closed or a connection to the machine ends. Under nohup it is
ignored, and stays so.
"""

from __future__ import annotations

import signal
import time
from types import FrameType, TracebackType
from typing import Any, Final, Self

# The longest time from a signal to the end of a sleep.
_STEP_S: Final = 0.1


def end_as_after_ctrl_c() -> None:
    """Makes SIGTERM and SIGHUP end this command as Ctrl-C does: it ends what it started first."""
    for number in (signal.SIGTERM, *_hangup()):
        signal.signal(number, _interrupt)


def _hangup() -> list[signal.Signals]:
    """SIGHUP, unless it is ignored."""
    return [] if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else [signal.SIGHUP]


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


class Interruption:
    """Notes the first SIGINT, SIGTERM or SIGHUP, so that a loop can end between two of its steps.

    KeyboardInterrupt can be raised anywhere: in a finalizer, where Python drops it, or inside a
    thread pool, which may then wait for ever. It is not raised at all where a shell script started
    the program in the background, because SIGINT is ignored there.

    A second signal acts as it did before.

    With `notes_suspension`, SIGTSTP (Ctrl-Z) is noted, too, so that the loop can put the terminal
    in order before it calls `suspend`.
    """

    def __init__(self, notes_suspension: bool = False) -> None:
        self.is_noted = False
        self.is_suspension_noted = False
        self._notes_suspension: Final = notes_suspension
        self._former: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM, *_hangup()):
            self._former[number] = signal.signal(number, self._note)
        # A shell without job control ignores it: then nothing would let the process go on.
        if self._notes_suspension and signal.getsignal(signal.SIGTSTP) is not signal.SIG_IGN:
            self._former[signal.SIGTSTP] = signal.signal(signal.SIGTSTP, self._note_suspension)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._restore()

    def sleep(self, duration_s: float) -> None:
        """Sleeps for so many seconds, or until a signal is noted."""
        end_s = time.monotonic() + duration_s
        while not self.has_signal and (left_s := end_s - time.monotonic()) > 0:
            time.sleep(min(left_s, _STEP_S))

    @property
    def has_signal(self) -> bool:
        """Whether a signal was noted, of those that end the command or that suspend it."""
        return self.is_noted or self.is_suspension_noted

    def suspend(self) -> None:
        """Does what the noted SIGTSTP would have done; returns when the process goes on."""
        self.is_suspension_noted = False
        noting = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        signal.raise_signal(signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, noting)

    def _note_suspension(self, number: int, frame: FrameType | None) -> None:
        self.is_suspension_noted = True

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.is_noted = True
        self._restore()

    def _restore(self) -> None:
        while self._former:
            signal.signal(*self._former.popitem())
