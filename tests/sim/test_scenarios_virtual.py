"""Every scenario file in virtual time: the same tables as `tests/scenarios/test_live.py` runs against processes, and the same result."""

from __future__ import annotations

from pathlib import Path

import pytest

from sim.scenario.parser import load, parse
from sim.scenario.running import scenario_files
from sim.scenario.virtual import run_virtually

FILES = scenario_files([Path(__file__).resolve().parents[2] / "sim" / "scenarios"])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_scenario(path: Path) -> None:
    mismatches, violations = run_virtually(load(path))
    assert not mismatches, "\n".join(map(str, mismatches))
    assert not violations


def test_a_wrong_table_fails() -> None:
    """Every expectation of a file, made wrong, is a difference: what passes is compared."""
    text = (FILES[0].parent / "seed-01-concurrent-adds.md").read_text(encoding="utf-8")
    scenario = parse(text.replace("→ [", "→ [77-1, "))
    wrong = [call for call in scenario.calls() if "77-1" in str(call.expected)]
    mismatches, _ = run_virtually(scenario)
    assert wrong and [mismatch.line for mismatch in mismatches] == [call.line for call in wrong]
