"""Every scenario file passes in virtual time.

`tests/scenarios/test_live.py` runs the files against processes, with the same results.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from anabranch.cli.main import application
from anabranch.sim.scenario.judged import commands_refused
from anabranch.sim.scenario.outages import only_simulated
from anabranch.sim.scenario.parser import load, parse
from anabranch.sim.scenario.running import scenario_files
from anabranch.sim.scenario.virtual import run_virtually

ROOT = Path(__file__).resolve().parents[2]
FILES = scenario_files([ROOT / "anabranch" / "sim" / "scenarios"])
STORIES = scenario_files([ROOT / "anabranch" / "sim" / "stories"])
"""What only the simulator can do."""


@pytest.mark.parametrize("path", FILES + STORIES, ids=lambda path: path.stem)
def test_scenario(path: Path) -> None:
    mismatches, violations = run_virtually(load(path))
    assert not mismatches, "\n".join(map(str, mismatches))
    assert not violations


def test_the_command(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.md"
    wrong.write_text(
        "# Wrong\n\n| Time | us | eu |\n| --- | --- | --- |\n| t1 | `XLEN x` → 1 | |\n",
        encoding="utf-8",
    )
    unreadable = tmp_path / "unreadable.md"
    unreadable.write_text("no table\n", encoding="utf-8")
    good = CliRunner().invoke(application(), ["scenario", "run", str(FILES[0])])
    assert good.exit_code == 0 and re.search(
        r"^passed .*\n1 scenario, 0 failed, \d+\.\d s$", good.output, re.MULTILINE
    )
    bad = CliRunner().invoke(application(), ["scenario", "run", str(tmp_path)])
    assert (
        bad.exit_code == 1
        and "wrong.md:5: t1, us: XLEN x" in bad.output
        and "no scenario" in bad.output
    )
    assert "2 scenarios, 2 failed" in bad.output


def test_what_judges_cannot_follow_is_named(tmp_path: Path) -> None:
    """These commands were once reported as violations, and a password ended the run."""
    cells = ["`XADD s * a 1`", "`hello 3`", "`CONFIG SET timeout 1 requirepass x`", "`XLEN s`"]
    rows = "".join(f"| t{n} | {cell} | |\n" for n, cell in enumerate(cells))
    table = "| Time | us | eu |\n| --- | --- | --- |\n"
    (tmp_path / "judged.md").write_text(f"---\njudges: all\n---\n{table}{rows}", encoding="utf-8")
    found = CliRunner().invoke(application(), ["scenario", "run", str(tmp_path)])
    assert found.exit_code == 1
    assert re.findall(r"judged\.md:(\d+): .*\n", found.output) == ["7", "8"]
    assert "leave it out, or write judges: none" in found.output


def test_the_docs_name_what_judges_cannot_follow() -> None:
    page = (ROOT / "docs" / "scenarios.md").read_text(encoding="utf-8")
    (row,) = [line for line in page.splitlines() if line.startswith("| `judges` |")]
    assert set(re.findall(r"`([A-Z.]+)`", row)) == {one.decode() for one in commands_refused()}


def test_files_stand_where_they_can_be_run() -> None:
    assert not [path.stem for path in FILES if only_simulated(load(path))]
    assert not [path.stem for path in STORIES if not only_simulated(load(path))]


def test_a_wrong_table_fails() -> None:
    """Each expectation of a file, when made wrong, is a mismatch; so all of them are compared."""
    text = (FILES[0].parent / "seed-01-concurrent-adds.md").read_text(encoding="utf-8")
    scenario = parse(text.replace("→ [", "→ [77-1, "))
    wrong = [call for call in scenario.calls() if "77-1" in str(call.expected)]
    mismatches, _ = run_virtually(scenario)
    assert wrong and [mismatch.line for mismatch in mismatches] == [call.line for call in wrong]
