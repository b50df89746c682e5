"""Unit and property tests as a judge of mutants, in the `tests/` of a copy of the tree.

Only tests that run the mutated line can find the mutant. So only these run, the fastest first, for
60 s of CPU time at most. Which tests run a line is found once with `coverage` on the unchanged
tree, and kept in a file until sources or tests change.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from anabranch.sim.mutants.operators import Mutant
from anabranch.sim.mutants.tree import environment, python, write_source

# package → folders of its tests
TESTS_OF: Final = {
    "crdt": ("tests/crdt", "tests/review"),
    "region/engine": ("tests/engine", "tests/review", "tests/storage"),
    "region/storage": ("tests/storage", "tests/review"),
}
# Folders beside the packages that these tests and their fixtures need in a copy of the tree.
NEEDED: Final = ("tests", "docs", "chaos", "cli")
TOTAL_S: Final = 60.0
_NOT_HERE: Final = "not live and not oracle and not long"
_MARGIN_S: Final = 3.0
_SLOWER: Final = 8.0
# A test file that takes longer is not traced; the suite assumes that it runs every line.
_TRACED_S: Final = 15.0
_KILLED: Final = (1, 2)  # pytest's exit statuses: tests failed; a test file cannot be imported


@dataclass(frozen=True)
class Verdict:
    """The verdict on a mutant.

    `outcome`: killed, survived, or uncovered (no test of the package runs the line). `by`: the test
    that failed; `tests`: the number of tests chosen.
    """

    outcome: str
    by: str = ""
    error: str = ""
    tests: int = 0
    cpu_s: float = 0.0


def package_of(path: str) -> str:
    return next(package for package in TESTS_OF if path.startswith(package + "/"))


def _digest(paths: list[Path]) -> str:
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


class Suite:
    """The tests of one copy of the tree. `memory`: the file that keeps the lines each test runs."""

    def __init__(self, tree: Path, memory: Path) -> None:
        self.tree = tree
        self._memory = memory
        self._plan = tree / "mutants.plan"
        # test file → {"digest", "seconds": node id → s, "lines"}. lines: path → line → node ids
        # ("": at import); None: every line.
        self._files: dict[str, dict[str, Any]] = (
            json.loads(memory.read_text(encoding="utf-8")) if memory.exists() else {}
        )

    # -- which tests run which lines

    def learn(self) -> None:
        """Runs every test file under `coverage`, unless neither it nor the sources have changed.

        RuntimeError when a test fails.
        """
        sources = [
            path
            for package in ("crdt", "region", "sync")
            for path in (self.tree / package).rglob("*.py")
        ]
        helpers = [
            path
            for path in (self.tree / "tests").rglob("*.py")
            if not path.name.startswith("test_")
        ]
        helpers += list((self.tree / "tests").rglob("*.txt"))
        common = _digest(sources + helpers)
        folders = sorted({folder for folders in TESTS_OF.values() for folder in folders})
        names = [
            str(path.relative_to(self.tree))
            for folder in folders
            for path in sorted((self.tree / folder).glob("test_*.py"))
        ]
        for name in names:
            digest = common + _digest([self.tree / name])
            if self._files.get(name, {}).get("digest") != digest:
                self._files[name] = {"digest": digest, **self._trace(name)}
                self._memory.write_text(json.dumps(self._files), encoding="utf-8")
        self._files = {name: self._files[name] for name in names}

    def _trace(self, name: str) -> dict[str, Any]:
        traces = [str(self.tree / package / "*") for package in TESTS_OF]
        seconds = self._passes(name, [])["seconds"]
        if sum(seconds.values()) > _TRACED_S:
            return {"seconds": seconds, "lines": None}
        lines: dict[str, dict[str, list[str]]] = {}
        for path, contexts in self._passes(name, traces).get("lines", {}).items():
            lines[str(Path(path).relative_to(self.tree))] = contexts
        return {"seconds": seconds, "lines": lines}

    def _passes(self, name: str, traces: list[str]) -> dict[str, Any]:
        status, found, text = self._pytest([name], {"limits_s": {}, "total_s": 0, "traces": traces})
        if status not in (0, 5):
            raise RuntimeError(f"{name} fails without any mutant:\n{text[-3000:]}")
        return found

    def tests_for(self, mutant: Mutant) -> dict[str, float]:
        """node id → seconds without the mutant, for the tests that run its line, fastest first."""
        chosen: dict[str, float] = {}
        for name, known in self._files.items():
            if not name.startswith(
                tuple(folder + "/" for folder in TESTS_OF[package_of(mutant.path)])
            ):
                continue
            contexts = (
                [""]
                if known["lines"] is None
                else known["lines"].get(mutant.path, {}).get(str(mutant.line), [])
            )
            if "" in contexts:
                chosen.update(known["seconds"])
            else:
                chosen.update({node_id: known["seconds"][node_id] for node_id in contexts})
        return dict(sorted(chosen.items(), key=lambda one: (one[1], one[0])))

    # -- judging

    def judge(self, mutant: Mutant) -> Verdict:
        """Runs the tests on the mutant."""
        tests = self.tests_for(mutant)
        if not tests:
            return Verdict("uncovered")
        source = self.tree / mutant.path
        original = source.read_text(encoding="utf-8")
        write_source(source, mutant.apply(original))
        try:
            limits_s = {
                node_id: _MARGIN_S + _SLOWER * seconds for node_id, seconds in tests.items()
            }
            files = sorted({node_id.partition("::")[0] for node_id in tests})
            status, found, text = self._pytest(
                files, {"limits_s": limits_s, "total_s": TOTAL_S, "traces": []}
            )
        finally:
            write_source(source, original)
        cpu_s = round(sum(found["seconds"].values()), 2)
        if status == 0 or (status in (0, 2) and found["is_over"] and not found["failed"]):
            return Verdict(
                "survived",
                tests=len(tests),
                cpu_s=cpu_s,
                error="time is over" if found["is_over"] else "",
            )
        if status in _KILLED and found is not _NOTHING:
            return Verdict("killed", found["failed"], found["error"], len(tests), cpu_s)
        if status == 5 or status == 4:
            raise RuntimeError(f"pytest found no tests for {mutant.diff()}:\n{text[-2000:]}")
        # pytest-timeout ends the process without a report if a test waits for ever.
        return Verdict(
            "killed",
            "the process",
            f"pytest ended with {status}: {text.strip()[-200:]}",
            len(tests),
            cpu_s,
        )

    def _pytest(self, files: list[str], plan: dict[str, Any]) -> tuple[int, dict[str, Any], str]:
        """Runs pytest; returns (exit status, findings of the plugin, output of pytest)."""
        self._plan.write_text(json.dumps(plan), encoding="utf-8")
        findings = self._plan.with_suffix(".found")
        findings.unlink(missing_ok=True)
        command = [
            python(),
            "-m",
            "pytest",
            "-q",
            "-x",
            "-p",
            "anabranch.sim.mutants.pytest_plugin",
            "-p",
            "no:cacheprovider",
            "-m",
            _NOT_HERE,
        ]
        command += [
            "--timeout=1500",
            "--timeout-method=thread",
            "--durations=0",
            "--durations-min=1000",
            f"--basetemp={self.tree / 'pytest.tmp'}",
            *files,
        ]
        try:
            ended = subprocess.run(
                command,
                cwd=self.tree,
                env={**environment(self.tree), "ANABRANCH_MUTANTS": str(self._plan)},
                timeout=1800,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return -1, _NOTHING, "it hangs"
        found = json.loads(findings.read_text(encoding="utf-8")) if findings.exists() else _NOTHING
        return ended.returncode, found, ended.stdout.decode("utf-8", "replace")


_NOTHING: Final[dict[str, Any]] = {
    "failed": "",
    "error": "",
    "seconds": {},
    "is_over": False,
    "lines": {},
}
