"""Each planted bug applies to the present tree, changes a few lines, compiles, and has a header."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from anabranch.sim.mutants import planted, run
from anabranch.sim.mutants.planted import LINES_MAX, Planted, everything, plant, pull_out, read
from anabranch.sim.mutants.run import Runner, caught_by_story, one_line, table
from anabranch.sim.mutants.seeds import PLAIN, RESTORES
from anabranch.sim.mutants.tree import ROOT, copy_tree
from anabranch.sim.mutants.trial import differences
from anabranch.sim.scenario.parser import load
from anabranch.sim.scenario.virtual import run_virtually

BUGS = everything()
# What the simulator runs as a region does.
PLACES = tuple(
    f"anabranch/{place}"
    for place in (
        "crdt/",
        "region/driver/",
        "region/engine/",
        "region/live/database.py",
        "region/live/starting.py",
        "region/resp/",
        "region/storage/",
        "sync/session/",
    )
)
# Shrunk runs in which judges caught a planted bug; each file has the name of its bug.
STORIES = sorted((ROOT / "anabranch" / "sim" / "mutants" / "stories").glob("*.md"))


def test_there_are_many_over_all_sections() -> None:
    assert len(BUGS) >= 36
    sections = {int(re.match(r"S(\d+)", bug.rule)[1]) for bug in BUGS}  # type: ignore[index]
    assert sections >= set(range(1, 14))
    numbers = [int(bug.number) for bug in BUGS]
    assert numbers == sorted(set(numbers)) and numbers[0] == 1
    assert len({bug.name.partition("-")[2] for bug in BUGS}) == len(BUGS)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_it_applies_and_compiles(bug: Planted, tmp_path: Path) -> None:
    assert 1 <= bug.lines <= LINES_MAX
    assert bug.files and all(name.startswith(PLACES) for name in bug.files)
    assert bug.story.endswith(".") and len(bug.story) > 20
    before: dict[str, str] = {}
    for name in bug.files:
        before[name] = (ROOT / name).read_text(encoding="utf-8")
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(before[name], encoding="utf-8")
    plant(bug, tmp_path)
    for name in bug.files:
        after = (tmp_path / name).read_text(encoding="utf-8")
        assert after != before[name]
        compile(after, name, "exec")
    pull_out(bug, tmp_path)
    assert {name: (tmp_path / name).read_text(encoding="utf-8") for name in bug.files} == before


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_a_shrunk_story_fails_with_its_bug_and_passes_without(path: Path, tmp_path: Path) -> None:
    scenario = load(path)
    assert len(list(scenario.calls())) <= 12
    assert run_virtually(scenario) == ([], [])
    tree = copy_tree(tmp_path)
    bug = next(bug for bug in BUGS if bug.name == path.stem)
    assert caught_by_story(bug, tree) is None
    plant(bug, tree)
    caught = caught_by_story(bug, tree)
    assert caught is not None and caught.text


def test_a_bug_that_no_seed_catches_is_given_to_the_tests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two bugs, one fails the only test file of the tree."""
    test = "tests/crdt/test_pair_run.py"

    def copy_with_one_test(target: Path, extra: tuple[str, ...] = ()) -> Path:
        tree = copy_tree(target)
        if extra:
            (tree / test).parent.mkdir(parents=True)
            shutil.copy2(ROOT / test, tree / test)
        return tree

    monkeypatch.setattr(run, "copy_tree", copy_with_one_test)
    runner = Runner(tmp_path, 1, tmp_path / "memory")
    outcomes = [runner.run(bug, range(0)) for bug in BUGS if bug.number in ("69", "196")]
    _, missed = table(outcomes, 0)
    assert missed == 1
    assert [outcome.caught is None for outcome in outcomes] == [True, False]


def test_a_story_that_cannot_be_run_is_an_error(tmp_path: Path) -> None:
    """Once copies of the tree lacked a package, no story could be run, and none reported it."""
    bug = next(bug for bug in BUGS if bug.reduced.exists())
    tree = copy_tree(tmp_path)
    shutil.rmtree(tree / "anabranch" / "study")
    with pytest.raises(RuntimeError, match="No module named 'anabranch.study'"):
        caught_by_story(bug, tree)
    with pytest.raises(RuntimeError, match="No module named 'anabranch.study'"):
        differences(bug.path, bug.reduced, tree)


def test_a_scenario_under_another_rule(tmp_path: Path) -> None:
    """Its mismatches are told, and the tree is as it was before."""
    patch = ROOT / "docs" / "learn" / "simpler" / "a-group-has-one-cursor.patch"
    scenario = ROOT / "anabranch" / "sim" / "scenarios" / "late-arrival-in-a-group.md"
    tree = copy_tree(tmp_path)
    before = (tree / "anabranch" / "crdt" / "undelivered.py").read_text(encoding="utf-8")
    told = differences(patch, scenario, tree).splitlines()
    assert [line.strip() for line in told[1:]] == ["expected [115-2]", "got      nil"]
    assert told[0].startswith("late-arrival-in-a-group.md:") and "XREADGROUP" in told[0]
    assert (tree / "anabranch" / "crdt" / "undelivered.py").read_text(encoding="utf-8") == before
    elsewhere = ROOT / "anabranch" / "sim" / "scenarios" / "idmp-retry.md"
    assert differences(patch, elsewhere, tree) == ""


def test_there_are_shrunk_stories() -> None:
    assert len(STORIES) >= 5


def test_a_patch_that_fits_no_more_is_an_error(tmp_path: Path) -> None:
    bug = BUGS[0]
    (tmp_path / bug.files[0]).parent.mkdir(parents=True)
    (tmp_path / bug.files[0]).write_text("nothing = 1\n" * 30, encoding="utf-8")
    with pytest.raises(RuntimeError, match="does not apply"):
        plant(bug, tmp_path)


def test_a_header_must_be_complete(tmp_path: Path) -> None:
    path = tmp_path / "01-some.patch"
    path.write_text(
        "Rule: S1\nStory: it fails\n\n--- a/crdt/x.py\n+++ b/crdt/x.py\n", encoding="utf-8"
    )
    with pytest.raises(ValueError, match="Layer"):
        read(path)


def test_a_header_may_ask_for_seeds_with_restores(tmp_path: Path) -> None:
    path = tmp_path / "01-some.patch"
    head = "Rule: S1\nLayer: some\nStory: it fails\n"
    diff = "\n--- a/crdt/x.py\n+++ b/crdt/x.py\n"
    path.write_text(head + diff, encoding="utf-8")
    assert read(path).flavour == PLAIN
    path.write_text(head + "Seeds: restores\n" + diff, encoding="utf-8")
    assert read(path).flavour == RESTORES and read(path).first_seed == 0
    path.write_text(head + "Seeds: restores 70000\n" + diff, encoding="utf-8")
    assert read(path).flavour == RESTORES and read(path).first_seed == 70000
    path.write_text(head + "Seeds: others\n" + diff, encoding="utf-8")
    with pytest.raises(ValueError, match="Seeds is one of plain, restores"):
        read(path)


def test_a_header_may_name_the_tests_that_show_the_bug(tmp_path: Path) -> None:
    """They run instead of seeds."""
    bug = next(bug for bug in BUGS if bug.number == "196")
    head, _, diff = bug.path.read_text(encoding="utf-8").partition("\n\n")
    path = tmp_path / "196-some.patch"
    path.write_text(f"{head}\nTest: tests/crdt/no_such.py\n\n{diff}", encoding="utf-8")
    with pytest.raises(ValueError, match="there is no 'tests/crdt/no_such.py'"):
        read(path)
    runner = Runner(tmp_path, 1)
    by = []
    for name in ("test_bytes", "test_pair_run"):
        path.write_text(f"{head}\nTest: tests/crdt/{name}.py\n\n{diff}", encoding="utf-8")
        by.append(one_line(runner.run(read(path), range(10))).split()[2:4])
    assert by == [["NOT", "CAUGHT"], ["no", "seed,"]]


def test_bugs_are_chosen_by_number_or_name() -> None:
    assert [bug.number for bug in everything("01")] == ["01"]
    assert [bug.number for bug in everything("02,01")] == ["01", "02"]
    word = BUGS[2].name.rpartition("-")[2]
    assert BUGS[2] in everything(word)
    assert planted.FOLDER.is_dir() and everything("no such bug") == []
