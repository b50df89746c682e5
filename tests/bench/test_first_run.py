"""`anabranch bench first_run`: fresh copies, and the ends of the commands that it runs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from anabranch.bench.first_run import copy_checkout, main, run_s
from tests.support.processes import eventually

PATIENCE_S = 60.0


def test_a_copy_has_the_files_that_git_knows(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "folder").mkdir(parents=True)
    subprocess.run(["git", "init", "-q", source], check=True)
    (source / "folder" / "known").write_text("committed")
    (source / "link").symlink_to("folder")
    (source / "gone").write_text("")
    subprocess.run(["git", "add", "."], cwd=source, check=True)
    (source / "folder" / "known").write_text("changed since")
    (source / "gone").unlink()
    (source / "built").write_text("not known")
    target.mkdir()
    copy_checkout(source, target)
    assert sorted(path.name for path in target.iterdir()) == ["folder", "link"]
    assert (target / "folder" / "known").read_text() == "changed since"
    assert (target / "link").is_symlink()


def test_a_command_is_over_when_it_says_so_and_is_ended_then(tmp_path: Path) -> None:
    script = "sleep 300 & echo $! > child; echo regions are up; wait"
    # Where the tests run in the background, the shell ignores the first signal.
    assert run_s(["sh", "-c", script], tmp_path, "regions are up", PATIENCE_S, end_s=0.5) >= 0
    child = int((tmp_path / "child").read_text())

    def is_gone() -> bool:
        state = Path(f"/proc/{child}/stat")
        return not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z"

    eventually(is_gone, PATIENCE_S, "the end of what it has started")


def test_a_command_that_ends_otherwise_is_an_error(tmp_path: Path) -> None:
    assert run_s(["true"], tmp_path, "", PATIENCE_S) >= 0
    with pytest.raises(RuntimeError, match="no compiler"):
        run_s(["sh", "-c", "echo no compiler; exit 2"], tmp_path, "", PATIENCE_S)
    with pytest.raises(RuntimeError, match="did not end"):
        run_s(["true"], tmp_path, "regions are up", PATIENCE_S)
    assert os.listdir(tmp_path) == ["first_run.log"]


@pytest.mark.parametrize("arguments", [["--targets", "down"], ["--rounds", "0"]])
def test_mistakes(arguments: list[str]) -> None:
    with pytest.raises(SystemExit):
        main(arguments)
