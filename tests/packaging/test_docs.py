"""The docs are current.

Generated pages match their tables. Linked files exist, and so do the `make` targets, commands,
flags and settings that the pages show.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from anabranch.region.config import IDENTITY
from anabranch.region.engine.settings import BY_NAME
from anabranch.sim.rules import NOT_SIMULATED, RULES
from tests.support.generated import check_current

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "RELEASING.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "learn").glob("*.md")),
]
LEARN = ROOT / "docs" / "learn"
SEMANTICS = ROOT / "docs" / "semantics.md"
SCENARIOS = sorted((ROOT / "docs" / "scenarios").glob("*.md"))


def test_generated_pages_are_current() -> None:
    check_current("generate.py")


def test_scenario_pages_are_current() -> None:
    """Pages and drawings of docs/scenarios/: the same bytes as those generated now."""
    check_current("generate_scenarios.py")


@pytest.mark.live
def test_the_picture_of_a_partition_is_current() -> None:
    """Three regions do again what docs/images/partition.svg shows: the same bytes."""
    check_current("generate_animation.py")


def test_every_scenario_has_a_page_and_a_drawing() -> None:
    files = [
        *(ROOT / "anabranch" / "sim" / "scenarios").glob("*.md"),
        *(ROOT / "anabranch" / "sim" / "stories").glob("*.md"),
    ]
    index = (ROOT / "docs" / "scenarios" / "README.md").read_text()
    for path in files:
        assert f"({path.name})" in index
        assert (ROOT / "docs" / "scenarios" / f"{path.stem}.svg").exists()
    assert len(SCENARIOS) == len(files) + 1


def test_the_book_is_current() -> None:
    """Tables, drawings, wrong replies of simpler rules, and the index of rules in docs/learn/."""
    check_current("generate_learn.py")


def test_the_book_shows_each_drawing_and_each_simpler_rule() -> None:
    text = "".join(path.read_text() for path in sorted(LEARN.glob("*.md")))
    drawings = sorted(path.name for path in LEARN.glob("*.svg"))
    assert drawings == sorted(set(re.findall(r"\]\(([\w.-]+\.svg)\)", text)))
    for patch in (LEARN / "simpler").iterdir():
        assert f"<!-- simpler docs/learn/simpler/{patch.name}" in text


CHAPTERS = sorted(path for path in LEARN.glob("*.md") if path.name != "README.md")


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda path: path.stem)
def test_a_chapter_has_all_parts(chapter: Path) -> None:
    text = chapter.read_text()
    title = re.match(r"# (\d+)\. (.+)\n\n\*\*Question:\*\* ", text)
    assert title is not None and chapter.name.startswith(f"{int(title[1]):02}-")
    for heading in ("The rule", "Why not simpler", "Rules and scenarios", "Questions"):
        assert f"\n## {heading}\n" in text
    assert "```console\n$ " in text and ".svg)" in text
    assert 2 <= text.count("<details>") == text.count("</details>") <= 3
    assert f"({chapter.name})" in (LEARN / "README.md").read_text()


def test_each_word_of_the_glossary_is_in_its_chapter() -> None:
    rows = re.findall(
        r"^\| ([\w -]+) \| .+ \| \[\d+\]\(([\w.-]+)\) \|$",
        (LEARN / "README.md").read_text(),
        re.MULTILINE,
    )
    assert len(rows) > 30
    for word, chapter in rows:
        text = " ".join((LEARN / chapter).read_text().lower().split())
        assert word.lower() in text, f"{chapter} does not say '{word}'"


def rules_of_semantics() -> dict[str, str]:
    """The rules that docs/semantics.md states, S1.1 and so on, with the text of each entry."""
    entries = SEMANTICS.read_text().partition("## Rules counted in a simulated run")[0]
    parts = re.split(r'<a id="(s\d+-\d+)"></a>', entries)
    found = {
        anchor.upper().replace("-", "."): text
        for anchor, text in zip(parts[1::2], parts[2::2], strict=True)
    }
    assert len(found) == (len(parts) - 1) / 2, "an anchor stands twice"
    return found


def test_every_rule_has_an_entry_with_an_anchor_and_a_row_of_modules() -> None:
    rules = rules_of_semantics()
    numbered = {rule for rule in [*RULES, *NOT_SIMULATED] if "." in rule}
    assert numbered <= set(rules)
    rows = re.findall(
        r"^\| (S\d+\.\d+) \| .*`",
        SEMANTICS.read_text().partition("## Where each rule stands")[2],
        re.MULTILINE,
    )
    assert sorted(rows) == sorted(numbered)


def test_entries_of_rules_name_no_files() -> None:
    """The table at the end of the page does; the entries are for people who do not read code."""
    for rule, text in rules_of_semantics().items():
        assert re.findall(r"`[\w/.]+(?:\.py|/)`", text) == [], rule


def test_every_rule_has_a_chapter() -> None:
    table = (LEARN / "README.md").read_text().partition("<!-- rules: begin -->")[2]
    rows = dict(re.findall(r"^\| \[(S[\d.]+)\]\([^)]+\) \| (.*) \|$", table, re.MULTILINE))
    rules = rules_of_semantics()
    assert set(rows) == set(rules) and len(rules) > 60
    assert [rule for rule, chapters in rows.items() if "](" not in chapters] == []


@pytest.mark.parametrize("page", PAGES + SCENARIOS, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_anchors_exist(page: Path) -> None:
    """An anchor is a heading, or is set with `<a id>`."""
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)#([^)]+)\)", page.read_text()):
        text = (page.parent / target if target else page).read_text()
        headings = [line.lower() for line in re.findall(r"^#+ (.+)$", text, re.MULTILINE)]
        anchors = [re.sub(r"[^\w -]", "", heading).replace(" ", "-") for heading in headings]
        anchors += re.findall(r'<a id="([^"]+)"></a>', text)
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

    from anabranch.cli.main import application

    root = get_command(application())
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
