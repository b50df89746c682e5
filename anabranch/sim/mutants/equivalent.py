"""Mutants that do not change the program, judged by hand: `equivalent.txt`, each with its reason.

The format of an entry:

crdt/spans.py Spans.add          path and function; `#2` behind it: the second equal line there
- if end <= start:
+ if end < start:
= an empty span …                the reason, which may go on in further `=` lines
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from anabranch.sim.mutants.operators import Key, mutants_of
from anabranch.sim.mutants.tree import ROOT

FILE: Final = ROOT / "anabranch" / "sim" / "mutants" / "equivalent.txt"


@dataclass(frozen=True)
class Equivalent:
    """A mutant, and the reason why it changes nothing."""

    key: Key
    reason: str


def read(text: str) -> list[Equivalent]:
    """The entries; ValueError says what is wrong with the file."""
    found: list[Equivalent] = []
    for number, block in enumerate(text.split("\n\n"), 1):
        lines = [line for line in block.splitlines() if line and not line.startswith("#")]
        if not lines:
            continue
        words = lines[0].split(" ")
        before = [line[2:] for line in lines if line.startswith("- ")]
        after = [line[2:] for line in lines if line.startswith("+ ")]
        reason = " ".join(line[2:] for line in lines if line.startswith("= "))
        if len(words) not in (2, 3) or len(before) != 1 or len(after) != 1 or len(reason) < 10:
            raise ValueError(f"block {number} of equivalent mutants is not complete: {lines[0]}")
        nth = int(words[2].removeprefix("#")) if len(words) == 3 else 1
        found.append(Equivalent((words[0], words[1], nth, before[0], after[0]), reason))
    return found


def stale(entries: list[Equivalent], root: Path = ROOT) -> list[Equivalent]:
    """Entries that name no mutant of the present source, or a mutant that is named twice."""
    keys: dict[str, set[Key]] = {}
    seen: set[Key] = set()
    wrong: list[Equivalent] = []
    for entry in entries:
        path = entry.key[0]
        if path not in keys:
            source = root / path
            keys[path] = (
                {mutant.key() for mutant in mutants_of(path, source.read_text(encoding="utf-8"))}
                if source.is_file()
                else set()
            )
        if entry.key not in keys[path] or entry.key in seen:
            wrong.append(entry)
        seen.add(entry.key)
    return wrong
