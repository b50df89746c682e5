"""Judges a mutant by the unit and property tests that run its function.

pytest-testmon keeps the functions that each test runs, and the time it takes. On a mutated tree it
chooses the tests that run a changed function, fast files and fast tests first.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from anabranch.sim.mutants.operators import Mutant
from anabranch.sim.mutants.tree import environment, mutated, python

# package → folders of its tests
TESTS_OF: Final = {
    "crdt": ("tests/crdt", "tests/review"),
    "region/engine": ("tests/engine", "tests/review", "tests/storage"),
    "region/storage": ("tests/storage", "tests/review"),
}
# Folders beside the packages that these tests and their fixtures need in a copy of the tree.
NEEDED: Final = ("tests", "docs", "chaos", "cli")
# CPU time, so that other work on the machine changes no verdict.
CPU_MAX_S: Final = 60
MEMORY_MAX_KIB: Final = 4 << 20
_WALL_MAX_S: Final = 1800
# The arguments are the CPU time in seconds, the memory in KiB, and the command.
_LIMITED: Final = 'ulimit -S -t "$0"; ulimit -v "$1"; shift; exec "$@"'
_CPU_IS_OVER: Final = -24  # SIGXCPU
_FAILED: Final = re.compile(r"^(?:FAILED|ERROR) (\S+)(?: - (.*))?$", re.MULTILINE)


@dataclass(frozen=True)
class Verdict:
    """The verdict on a mutant.

    `outcome`: killed, survived, or uncovered (no test of the package runs the line). `by`: the test
    that failed. `error`: its error; or the reason why a mutant survived with tests left.
    """

    outcome: str
    by: str = ""
    error: str = ""


def package_of(path: str) -> str:
    return next(package for package in TESTS_OF if path.startswith(package + "/"))


class Suite:
    """The tests of one copy of the tree.

    `memory`: the file in which testmon keeps the functions that each test runs. It may be used by
    several suites once they have learnt.
    """

    def __init__(self, tree: Path, memory: Path) -> None:
        self.tree = tree
        self._memory = memory.resolve()

    def learn(self) -> None:
        """Runs the tests that testmon does not know, or whose functions have changed since.

        RuntimeError when a test fails.
        """
        status, text = self._pytest(self._folders(*TESTS_OF), ["--testmon"])
        if status not in (0, 5):
            raise RuntimeError(f"tests fail without any mutant:\n{text[-3000:]}")

    def judge(self, mutant: Mutant) -> Verdict:
        """Runs the tests on the mutant."""
        folders = self._folders(package_of(mutant.path))
        with mutated(self.tree / mutant.path, mutant.apply):
            status, text = self._pytest(
                folders,
                ["--testmon-nocollect", "--testmon-forceselect", "--testmon", "-x"],
                CPU_MAX_S,
            )
        if status == 0:
            return Verdict("survived" if " passed" in text else "uncovered")
        if status == _CPU_IS_OVER:
            return Verdict("survived", error=f"{CPU_MAX_S} s of CPU time are over")
        failed = _FAILED.search(text)
        if status in (1, 2) and failed is not None:
            return Verdict("killed", failed[1], (failed[2] or "")[:300])
        if status in (4, 5):
            raise RuntimeError(f"pytest cannot run tests for {mutant.diff()}:\n{text[-2000:]}")
        # pytest-timeout ends the process without a report if a test waits for ever.
        return Verdict("killed", "the process", f"ended with {status}: {text.strip()[-200:]}")

    def _folders(self, *packages: str) -> list[str]:
        folders = {folder for package in packages for folder in TESTS_OF[package]}
        return sorted(folder for folder in folders if (self.tree / folder).is_dir())

    def _pytest(
        self, folders: list[str], options: list[str], cpu_max_s: int = 0
    ) -> tuple[int, str]:
        """Runs pytest; returns its exit status and its output."""
        command = [
            *(python(), "-m", "pytest", "-q", "--tb=no", "-p", "no:cacheprovider"),
            *("-m", "not live and not oracle and not long", "--durations=0"),
            *("--timeout=600", "--timeout-method=thread"),
            *(f"--basetemp={self.tree / 'pytest.tmp'}", *options, *folders),
        ]
        if cpu_max_s:
            command = ["sh", "-c", _LIMITED, str(cpu_max_s), str(MEMORY_MAX_KIB), *command]
        try:
            ended = subprocess.run(
                command,
                cwd=self.tree,
                env={
                    **environment(self.tree),
                    "TESTMON_DATAFILE": str(self._memory),
                    "COLUMNS": "400",
                },
                timeout=_WALL_MAX_S if cpu_max_s else None,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return -1, "it hangs"
        return ended.returncode, ended.stdout.decode("utf-8", "replace")
