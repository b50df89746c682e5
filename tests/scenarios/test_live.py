"""Every scenario file, run against three region processes.

All files share one run; each file is a test of its own.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.sim.scenario.running import Outcome, run, scenario_files

FILES = scenario_files([Path(__file__).resolve().parents[2] / "anabranch" / "sim" / "scenarios"])

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Outcome]:
    """The outcome of each file, by its path."""
    found: list[Outcome] = []
    run(FILES, None, found.append)
    return {outcome.path: outcome for outcome in found}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_scenario(path: Path, outcomes: dict[str, Outcome]) -> None:
    outcome = outcomes[str(path)]
    assert outcome.passed, str(outcome)


def test_the_first_nine_scenarios_are_there() -> None:
    """They are the tables of commands that the project began with."""
    assert sum(path.stem.startswith("seed-") for path in FILES) == 9
