"""The processes of a run: starts them, starts crashed ones again, and ends all of them.

A process that ends with the exit code `CRASHED` crashed because `Mishaps` said so. It is started
again at once, with a higher number of its life. Any other end is a failure of the run.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Optional

from examples.rocket_rides.mishaps import CRASHED

START_PATIENCE_S = 30.0
STOP_PATIENCE_S = 30.0
POLL_S = 0.02
LOG_TAIL_LINES = 20
PACKAGE = "examples.rocket_rides"
ROOT = Path(__file__).resolve().parents[2]
_PR_SET_PDEATHSIG = 1


class ProcessFailed(Exception):
    """A process of the run ended by itself. The text has the end of its output."""


class Interrupted(Exception):
    """The run was told to end."""


class Member:
    """One process: how to start it, and how often it was started."""

    def __init__(self, name: str, command: Sequence[str], log: Path, has_lives: bool) -> None:
        self.name = name
        self.log = log
        self.lives = 0
        self._command = list(command)
        self._has_lives = has_lives
        self.process: Optional[subprocess.Popen[bytes]] = None

    def start(self) -> None:
        """Starts the process in a session of its own, so that Ctrl-C reaches only the parent.

        If the parent is killed, the kernel ends the process.
        """
        self.end_leftovers()
        self.lives += 1
        extra = ["--life", str(self.lives)] if self._has_lives else []
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*self._command, *extra],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=ROOT,
                start_new_session=True,
                preexec_fn=_end_with_parent,
            )

    def end_leftovers(self) -> None:
        """Kills the process, and those that it has started in its session.

        Spark's Java process needs a moment to notice that its Python process is gone.
        """
        if self.process is not None:
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # there are none

    def ended(self) -> Optional[int]:
        """The exit code; None while the process runs."""
        return None if self.process is None else self.process.poll()

    def log_tail(self) -> str:
        """The last lines of its output."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(f"  {self.name} | {line}" for line in lines[-LOG_TAIL_LINES:])


# Found before any fork: between fork and exec a library must not be loaded while threads run.
_prctl = ctypes.CDLL(None).prctl


def _end_with_parent() -> None:
    _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _is_listened_on(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Fleet:
    """All processes of a run. `logs` is the directory of their output.

    Only the thread that calls `check` may start processes: the kernel counts the thread that
    started a process as its parent.
    """

    def __init__(self, logs: Path) -> None:
        logs.mkdir(parents=True, exist_ok=True)
        self._logs = logs
        self._is_interrupted = False
        self.members: dict[str, Member] = {}

    def start(self, name: str, command: Sequence[str], has_lives: bool = False) -> Member:
        """Starts a process. With `has_lives` it is told the number of its life."""
        member = Member(name, command, self._logs / f"{name}.log", has_lives)
        self.members[name] = member
        member.start()
        return member

    def start_part(self, name: str, *arguments: str, has_lives: bool = False) -> Member:
        """Starts a part of this example: `arguments` are those of the package's command line."""
        command = [sys.executable, "-m", PACKAGE, *arguments]
        return self.start(name, command, has_lives)

    def interrupt(self, number: int, frame: object) -> None:
        """Notes a signal; the next `check` raises `Interrupted`. A handler of `signal.signal`.

        A handler that raises can be called anywhere, also in a callback that drops exceptions.
        """
        self._is_interrupted = True

    def check(self) -> None:
        """Starts crashed processes again.

        Raises:
            Interrupted: A signal has come.
            ProcessFailed: A process ended, and not by a crash of `Mishaps`.
        """
        if self._is_interrupted:
            raise Interrupted
        for member in self.members.values():
            code = member.ended()
            if code == CRASHED:
                member.start()
            elif code is not None:
                raise ProcessFailed(f"{member.name} ended with code {code}:\n{member.log_tail()}")

    def kill(self, name: str) -> None:
        """Kills one process with all that it has started, and starts it again."""
        member = self.members[name]
        member.end_leftovers()
        if member.process is not None:
            member.process.wait()
        member.start()

    def crashes(self, name: str) -> int:
        """How often a process has crashed."""
        return self.members[name].lives - 1

    def await_ports(self, ports: Sequence[int]) -> None:
        """Waits until something listens on each of these local ports.

        Raises:
            ProcessFailed: Nothing does within `START_PATIENCE_S`, or a process ended.
        """
        deadline = time.monotonic() + START_PATIENCE_S
        for port in ports:
            while not _is_listened_on(port):
                self.check()
                if time.monotonic() > deadline:
                    raise ProcessFailed(f"nothing listens on port {port}")
                time.sleep(POLL_S)

    def end(self, name: str) -> None:
        """Ends one process with SIGTERM, and waits for its end."""
        member = self.members.pop(name)
        if member.ended() is None and member.process is not None:
            member.process.terminate()
            member.process.wait(STOP_PATIENCE_S)
        member.end_leftovers()

    def stop(self) -> None:
        """Ends all processes: SIGTERM, and SIGKILL after `STOP_PATIENCE_S`.

        Processes that were started last end first, so the regions end last.
        """
        for member in reversed(self.members.values()):
            if member.ended() is None and member.process is not None:
                member.process.terminate()
        deadline = time.monotonic() + STOP_PATIENCE_S
        for member in self.members.values():
            while member.ended() is None and member.process and time.monotonic() < deadline:
                time.sleep(POLL_S)
            if member.ended() is None and member.process is not None:
                os.killpg(member.process.pid, signal.SIGKILL)
                member.process.wait()
            member.end_leftovers()
