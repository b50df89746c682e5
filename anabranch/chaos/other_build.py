"""The build that regions change to and fro at their restarts: another Python, or another kind.

An upgrade restarts one region after the other with another build on the same files, while the
others run the former one.
"""

from __future__ import annotations

import os
import subprocess
from typing import Final

from anabranch import build

# In place of a path: the Python that runs, with the interpreted modules.
INTERPRETED: Final = "interpreted"
PATIENCE_S: Final = 60.0


class NoSuchBuild(Exception):
    """The other build cannot be run; the text says why."""


class OtherBuild:
    """Another build. `shown`: what its ``--version`` prints.

    `python` is a Python that has anabranch installed, or `INTERPRETED`. Raises NoSuchBuild.
    """

    def __init__(self, python: str) -> None:
        self.command: Final = list(build.command())
        if python == INTERPRETED:
            environment = dict(build.environment(), ANABRANCH_PURE="1")
        else:
            self.command[0] = os.path.abspath(python)
            # The package of that Python counts, and no source tree.
            environment = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
        self.environment: Final = environment
        self.shown: Final = self._version()

    def _version(self) -> str:
        line = [*self.command, "--version"]
        try:
            done = subprocess.run(
                line,
                env=self.environment,
                capture_output=True,
                text=True,
                check=False,
                timeout=PATIENCE_S,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NoSuchBuild(f"{self.command[0]} cannot be run: {error}") from None
        if done.returncode != 0:
            said = (done.stderr.strip().splitlines() or ["it prints nothing"])[-1]
            raise NoSuchBuild(f"{self.command[0]} has no anabranch that runs: {said}")
        return done.stdout.strip()
