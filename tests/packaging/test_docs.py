"""The docs are current.

Generated pages match their tables. Linked files exist, and so do the `make` targets, commands,
flags and settings that the pages show.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from anabranch.region.config import IDENTITY
from anabranch.region.engine.settings import BY_NAME

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]
SCENARIOS = sorted((ROOT / "docs" / "scenarios").glob("*.md"))


def test_generated_pages_are_current() -> None:
    result = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "generate.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr


def test_scenario_pages_are_current() -> None:
    """Pages and drawings of docs/scenarios/: the same bytes as those generated now."""
    result = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "generate_scenarios.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr


def test_every_scenario_has_a_page_and_a_drawing() -> None:
    files = [*(ROOT / "sim" / "scenarios").glob("*.md"), *(ROOT / "sim" / "stories").glob("*.md")]
    index = (ROOT / "docs" / "scenarios" / "README.md").read_text()
    for path in files:
        assert f"({path.name})" in index
        assert (ROOT / "docs" / "scenarios" / f"{path.stem}.svg").exists()
    assert len(SCENARIOS) == len(files) + 1


@pytest.mark.parametrize("page", PAGES + SCENARIOS, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_anchors_are_headings(page: Path) -> None:
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)#([^)]+)\)", page.read_text()):
        text = (page.parent / target if target else page).read_text()
        headings = [line.lower() for line in re.findall(r"^#+ (.+)$", text, re.MULTILINE)]
        anchors = [re.sub(r"[^\w -]", "", heading).replace(" ", "-") for heading in headings]
        assert anchor in anchors, f"{page.name} links to {target}#{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_lines_have_at_most_100_columns(page: Path) -> None:
    """Rows of tables are excepted, because Markdown cannot break them."""
    lines = enumerate(page.read_text().splitlines(), 1)
    assert [number for number, line in lines if len(line) > 100 and line[:1] != "|"] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_targets_exist(page: Path) -> None:
    makefile = (ROOT / "Makefile").read_text()
    shown = set(re.findall(r"(?:`|^)make ([a-z-]+)", page.read_text(), re.MULTILINE))
    assert [target for target in shown if f"\n{target}:" not in makefile] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_and_flags_exist(page: Path) -> None:
    from typer.main import get_command

    from anabranch.cli.main import app

    root = get_command(app)
    text = page.read_text().replace("\\\n", " ")
    for words in re.findall(
        r"(?:`|^|\$ )anabranch ((?:[a-z]+(?:-[a-z]+)* ?)+)([^`\n]*)", text, re.MULTILINE
    ):
        command, names = root, words[0].split()
        while names and hasattr(command, "commands"):
            assert names[0] in command.commands, f"{page.name}: anabranch {words[0]}"
            command = command.commands[names.pop(0)]
        flags = {option for parameter in command.params for option in parameter.opts}
        assert set(re.findall(r"(?<!\S)--[a-z-]+", words[1])) <= flags, (
            f"{page.name}: anabranch {words[0]}{words[1]}"
        )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_settings_exist(page: Path) -> None:
    shown = set(re.findall(r"`(?:--)?((?:crdt|stream|client|proto)-[a-z-]+)`", page.read_text()))
    assert shown <= {*BY_NAME, *IDENTITY}
