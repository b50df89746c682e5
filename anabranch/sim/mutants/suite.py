"""Judges a changed tree by the unit and property tests that run what changed.

pytest-testmon keeps the functions that each test runs, and the time it takes. On a mutated tree it
chooses the tests that run a changed function, fast files and fast tests first.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from anabranch.sim.mutants.tree import environment, python

# Their tests run the packages in which mutants and planted bugs are.
TESTS: Final = (
    *("tests/crdt", "tests/engine", "tests/driver", "tests/server", "tests/storage"),
    "tests/sync",
)
# Folders beside the package that these tests and their fixtures need in a copy of the tree.
NEEDED: Final = ("tests", "docs")
# CPU time, so that other work on the machine changes no verdict.
CPU_MAX_S: Final = 120
# A test that waits uses no CPU time. pytest-timeout then ends the process without a report.
WALL_MAX_S: Final = 600
MEMORY_MAX_KIB: Final = 4 << 20
# The arguments are the CPU time in seconds, the memory in KiB, and the command.
_LIMITED: Final = 'ulimit -S -t "$0"; ulimit -v "$1"; shift; exec "$@"'
_CPU_IS_OVER: Final = -24  # SIGXCPU
_FAILED: Final = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - (.*))?$", re.MULTILINE)


@dataclass(frozen=True)
class Verdict:
    """The verdict on a change.

    `outcome`: killed, survived, or uncovered (no test runs the function). `by`: the test
    that failed. `error`: its error; or the reason why a change survived with tests left.
    """

    outcome: str
    by: str = ""
    error: str = ""


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
        status, text = self._pytest(["--timeout=0"])
        if status not in (0, 5):
            raise RuntimeError(f"tests fail without any mutant:\n{text[-3000:]}")

    def check(self) -> None:
        """Runs all tests on the tree as it is now, such as one that was just compiled.

        RuntimeError when a test fails.
        """
        status, text = self._pytest(["--timeout=0"], selects=False)
        if status:
            raise RuntimeError(f"tests fail without any mutant:\n{text[-3000:]}")

    def verdict(self, file: str = "") -> Verdict:
        """Runs the tests that testmon chooses, or those of one file, on the tree as it is now.

        RuntimeError when pytest cannot run them.
        """
        limits = ["sh", "-c", _LIMITED, str(CPU_MAX_S), str(MEMORY_MAX_KIB)]
        options = ["-x", f"--timeout={WALL_MAX_S}"]
        if file:
            status, text = self._pytest(options, limits, False, [file])
        else:
            status, text = self._pytest([*options, "--testmon-nocollect"], limits)
        if status == 0:
            return Verdict("survived" if " passed" in text else "uncovered")
        if status == _CPU_IS_OVER:
            return Verdict("survived", error=f"{CPU_MAX_S} s of CPU time are over")
        failed = _FAILED.search(text)
        if status in (1, 2) and failed is not None:
            return Verdict("killed", failed[1], (failed[2] or "")[:300])
        if status in (4, 5):
            raise RuntimeError(f"pytest cannot run tests:\n{text[-2000:]}")
        return Verdict("killed", "the process", f"ended with {status}: {text.strip()[-200:]}")

    def _pytest(
        self,
        options: list[str],
        limits: Iterable[str] = (),
        selects: bool = True,
        places: Iterable[str] = TESTS,
    ) -> tuple[int, str]:
        """Runs pytest; returns its exit status and its output.

        `selects`: testmon chooses the tests that run changed functions, otherwise all tests run.
        `places`: folders or files; those that the tree lacks are left out.
        """
        places = [place for place in places if (self.tree / place).exists()]
        command = [
            *(python(), "-m", "pytest", "-q", "--tb=no", "-p", "no:cacheprovider"),
            *("-m", "not live and not oracle and not long", "--timeout-method=thread"),
            # Without "forceselect" it would not select beside -m.
            *(("--testmon", "--testmon-forceselect") if selects else ("-p", "no:testmon")),
            *(f"--basetemp={self.tree / 'pytest.tmp'}", *options, *places),
        ]
        ended = subprocess.run(
            [*limits, *command],
            cwd=self.tree,
            env={
                **environment(self.tree),
                "TESTMON_DATAFILE": str(self._memory),
                "COLUMNS": "400",  # of the line that names the failed test and its error
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        return ended.returncode, ended.stdout.decode("utf-8", "replace")
