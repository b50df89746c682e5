"""The judge `twin`: the tapes of all regions, replayed beside a naive engine.

The other judges see what clients saw. The twin sees every call of every region, starts after kills
included, so it names the first wrong reply, effect or local record (docs/testing.md, The twin).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from anabranch.sim.tapes.judging import Judge, Replay
from anabranch.sim.tapes.reading import TapeError
from anabranch.sim.tapes.writing import FOLDER, tape_files

# Bytes of the tapes of one region. A run of 120 s needs about 10 MB.
BYTES_MAX: Final = 1 << 30


def judge(data: Mapping[str, Path]) -> tuple[list[str], list[str]]:
    """Judges the tapes of regions that have ended: (violations, notes).

    `data`: the data directory of each region by its name.
    """
    files = {name: tape_files(folder / FOLDER) for name, folder in data.items()}
    missing = [f"{name} wrote no tape" for name, found in files.items() if not found]
    try:
        judged = Judge([file for found in files.values() for file in found])
        judged.run()
    except TapeError as error:
        return [*missing, str(error)], []
    notes = [_seen(one, files[one.name]) for one in judged.replays]
    wrong = judged.wrong
    if wrong is None:
        unseen = [one.name for one in judged.replays if not one.calls]
        return missing + [f"the twin judged no call of {name}" for name in unseen], notes
    text = f"{wrong.region} at {wrong.at_ms} ms: {wrong.text}"
    if wrong.story:
        text += "; before it:" + "".join(f"\n      {line}" for line in wrong.story)
    return [*missing, text], notes


def _seen(one: Replay, files: list[Path]) -> str:
    """How much of a region the twin has judged."""
    gaps = [f"not followed after {note}" for note in one.notes]
    if int(files[0].stem) > 1:
        gaps.append("its oldest tapes are gone")
    if one.parts > 1:
        gaps.append(f"its tape has {one.parts - 1} gaps")
    only_a_part = f", and saw only a part: {'; '.join(gaps)}" if gaps else ""
    return f"the twin judged {one.calls} calls of {one.name}{only_a_part}"
