"""Planted bugs: `planted/NN-name.patch`, each a plausible mistake in a few lines of the product.

A file is a header and a unified diff:

Rule: S6.2                       the rule that the bug breaks
Layer: tombstone collection      the part of the product
Story: …                         one sentence: what goes wrong for a user
Seeds: restores 70000            only if no other seeds show the bug: the flavour of its seeds,
                                 one of FLAVOURS (see `sim.mutants.seeds`), and the first of them
                                 if it is not 0
Test: tests/engine/test_x.py     only if no seed is known to show it: a file of tests that fails

--- a/region/…                   `patch -p1` applies it to the tree
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from anabranch.sim.mutants.seeds import FLAVOURS, PLAIN
from anabranch.sim.mutants.tree import ROOT, forget_compiled

FOLDER: Final = ROOT / "anabranch" / "sim" / "mutants" / "planted"
STORIES: Final = FOLDER.parent / "stories"
LINES_MAX: Final = 6


@dataclass(frozen=True)
class Planted:
    """One bug. `files`: the files that it changes; `lines`: how many it removes and adds.

    Seeds of its `flavour` are tried for it, from `first_seed` upward. `test`: the tests that show
    it, instead of seeds.
    """

    name: str
    rule: str
    story: str
    files: tuple[str, ...]
    lines: int
    path: Path
    flavour: str
    first_seed: int
    test: str = ""

    @property
    def reduced(self) -> Path:
        """The scenario file that fails with the bug, if there is one."""
        return STORIES / f"{self.name}.md"

    @property
    def number(self) -> str:
        return self.name.partition("-")[0]


def read(path: Path) -> Planted:
    """Reads a patch file; ValueError if its header is not complete."""
    head, _, diff = path.read_text(encoding="utf-8").partition("\n\n")
    fields = dict(line.split(": ", 1) for line in head.splitlines() if ": " in line)
    flavour, _, first = fields.pop("Seeds", PLAIN).partition(" ")
    test = fields.pop("Test", "")
    if list(fields) != ["Rule", "Layer", "Story"] or not all(fields.values()):
        raise ValueError(f"{path.name}: a header has Rule, Layer and Story, in this order")
    if flavour not in FLAVOURS or not (first or "0").isdigit():
        raise ValueError(
            f"{path.name}: Seeds is one of {', '.join(FLAVOURS)}, with the first seed or without"
            f" it, or absent, not '{flavour} {first}'"
        )
    if test and not (ROOT / test).is_file():
        raise ValueError(f"{path.name}: Test is a file of tests, and there is no '{test}'")
    files = tuple(
        line.removeprefix("+++ b/").strip() for line in diff.splitlines() if line.startswith("+++ ")
    )
    changed = [
        line
        for line in diff.splitlines()
        if line[:1] in "+-" and not line.startswith(("+++", "---"))
    ]
    return Planted(
        path.stem,
        fields["Rule"],
        fields["Story"],
        files,
        len(changed),
        path,
        flavour,
        int(first or "0"),
        test,
    )


def everything(only: str = "") -> list[Planted]:
    """All planted bugs by number.

    `only`: a number, a part of a name, or several of them, separated by commas.
    """
    wanted = [text for text in only.split(",") if text]
    found = [
        read(path)
        for path in sorted(
            FOLDER.glob("*.patch"), key=lambda path: int(path.name.partition("-")[0])
        )
    ]
    return [
        bug
        for bug in found
        if not wanted
        or any(text == bug.number or (not text.isdigit() and text in bug.name) for text in wanted)
    ]


def plant(bug: Planted, tree: Path) -> None:
    """Applies a bug to a copy of the tree; RuntimeError if the patch does not fit any more."""
    _patch(bug, tree, "--forward")


def pull_out(bug: Planted, tree: Path) -> None:
    """Undoes `plant`."""
    _patch(bug, tree, "--reverse")


def _patch(bug: Planted, tree: Path, direction: str) -> None:
    # Without fuzz the patch fits where lines have moved, but not where they have changed.
    command = [
        "patch",
        "-p1",
        "--fuzz=0",
        "--no-backup-if-mismatch",
        "--silent",
        direction,
        "-i",
        str(bug.path),
    ]
    ended = subprocess.run(
        command, cwd=tree, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    if ended.returncode:
        raise RuntimeError(
            f"{bug.name} does not apply: {ended.stdout.decode('utf-8', 'replace').strip()}"
        )
    for name in bug.files:
        forget_compiled(tree / name)
