"""The toxiproxy server as a process: `toxiproxy-server`, which ``make toxiproxy`` builds."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from anabranch.cluster.ports import HOST
from anabranch.cluster.processes import end, spawn
from anabranch.cluster.signals import signals_wait
from anabranch.cluster.toxiproxy import Toxiproxy, ToxiproxyError

PROGRAM: Final = "toxiproxy-server"
START_PATIENCE_S: Final = 30.0
STOP_PATIENCE_S: Final = 10.0


class ToxiproxyMissing(Exception):
    """There is no `toxiproxy-server`; the text says how to get it."""


def program() -> str:
    """The path of `toxiproxy-server`: beside this Python, or on PATH. ToxiproxyMissing without."""
    beside = Path(sys.executable).with_name(PROGRAM)
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which(PROGRAM)
    if found is None:
        raise ToxiproxyMissing(
            f"there is no {PROGRAM} beside {sys.executable} or on PATH:"
            " `make toxiproxy` builds it (that needs Go), or install version 2.12"
        )
    return found


class ToxiproxyServer:
    """One server process. `seed` decides about the jitter of toxics. Its output goes to `log`."""

    def __init__(self, port: int, log: Path, seed: int = 0) -> None:
        self.api: Final = Toxiproxy(HOST, port)
        self.log: Final = log
        self._seed: Final = seed
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def is_running(self) -> bool:
        """Whether the process lives."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Starts the server, and returns once it answers.

        ToxiproxyMissing without the program; ToxiproxyError, with the end of its output, if it ends
        or does not answer.
        """
        line = [program(), "-host", HOST, "-port", str(self.api.port), "-seed", str(self._seed)]
        with signals_wait():
            self._process = spawn(line, self.log, start_new_session=True)
        deadline = time.monotonic() + START_PATIENCE_S
        while True:
            try:
                self.api.version()
                return
            except ToxiproxyError as error:
                if not self.is_running or time.monotonic() > deadline:
                    text = self.log.read_text(errors="replace")[-2000:]
                    self.stop()
                    raise ToxiproxyError(f"{PROGRAM} did not start: {error}\n{text}") from None
            time.sleep(0.02)

    def stop(self) -> None:
        """Ends the process."""
        process, self._process = self._process, None
        if process is not None:
            end(process, STOP_PATIENCE_S)

    def __enter__(self) -> ToxiproxyServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
