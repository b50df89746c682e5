"""The build to which regions change at their restarts, and the errors that say what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.chaos.other_build import INTERPRETED, NoSuchBuild, OtherBuild
from anabranch.chaos.plan import draw
from anabranch.chaos.regions import ChaosRegions
from anabranch.cli import chaos as command
from anabranch.cli.errors import CliError
from anabranch.cluster.regions import ProcessCluster


def test_the_interpreted_modules_of_this_python() -> None:
    other = OtherBuild(INTERPRETED)
    assert "interpreted" in other.shown and other.environment["ANABRANCH_PURE"] == "1"


def test_a_python_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(NoSuchBuild, match="nowhere cannot be run: .*No such file"):
        OtherBuild(str(tmp_path / "nowhere"))


def test_a_python_without_anabranch(tmp_path: Path) -> None:
    other = tmp_path / "python"
    other.write_text("#!/bin/sh\necho 'No module named anabranch' >&2\nexit 1\n")
    other.chmod(0o755)
    with pytest.raises(NoSuchBuild, match="has no anabranch that runs: No module named anabranch"):
        OtherBuild(str(other))


def test_a_mistake_in_the_option_makes_no_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "program", lambda: "toxiproxy-server")
    with pytest.raises(CliError, match="nowhere cannot be run"):
        command.chaos(out=tmp_path / "out", restart_with=str(tmp_path / "nowhere"))
    assert not (tmp_path / "out").exists()


def test_every_second_start_runs_the_other_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = ChaosRegions(draw(1, 20, 2), tmp_path, OtherBuild(INTERPRETED))
    ran: list[tuple[str, bool]] = []

    def start(self: ChaosRegions, name: str, *extra: str, wait: bool) -> None:
        ran.append((name, self.program(name)[1].get("ANABRANCH_PURE") == "1"))

    monkeypatch.setattr(ProcessCluster, "start", start)
    monkeypatch.delenv("ANABRANCH_PURE", raising=False)
    for name in ("us", "us", "eu", "us", "us"):
        made.begin(name)
    assert ran == [("us", False), ("us", True), ("eu", False), ("us", False), ("us", True)]
