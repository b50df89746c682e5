"""The bugs that are planted for chaos apply to the tree, and their headers are complete."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from anabranch.chaos.mutants.__main__ import bugs, violations_of
from anabranch.sim.mutants.planted import Planted, plant, pull_out
from anabranch.sim.mutants.tree import copy_tree, environment, python

BUGS = bugs()


def test_there_are_bugs_of_each_kind() -> None:
    assert len(BUGS) >= 4
    assert [bug.name for bug in bugs("ship")] == ["2-ship-before-commit"]


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_bug_applies_and_comes_off(bug: Planted, tmp_path: Path) -> None:
    tree = copy_tree(tmp_path / "tree")
    before = {name: (tree / name).read_text() for name in bug.files}
    plant(bug, tree)
    after = {name: (tree / name).read_text() for name in bug.files}
    assert all(before[name] != after[name] for name in bug.files) and bug.story
    pull_out(bug, tree)
    assert {name: (tree / name).read_text() for name in bug.files} == before


def test_a_copy_has_all_that_chaos_needs(tmp_path: Path) -> None:
    """The copies had no console, which the command line imports, and no run could begin."""
    tree = copy_tree(tmp_path / "tree")
    line = [python(), "-P", "-m", "anabranch.cli.main", "chaos", "--help"]
    shown = subprocess.run(line, cwd=tree, env=environment(tree), capture_output=True, check=False)
    assert shown.returncode == 0 and b"--no-tapes" in shown.stdout, shown.stderr


def test_only_violations_count_as_caught(tmp_path: Path) -> None:
    assert violations_of(tmp_path) == {}
    (tmp_path / "seed-1").mkdir()
    file = tmp_path / "seed-1" / "violations.json"
    file.write_text('{"lost": ["a"], "twice": []}')
    assert violations_of(tmp_path) == {"lost": ["a"]}
