"""The files of drawings: their names, the part of a run that they show, and their writing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Optional

from anabranch.plural import counted
from anabranch.study.diagram import draw
from anabranch.study.diagram.model import Timeline
from anabranch.study.diagram.narrowing import (
    EVENTS_MAX,
    NAMED_MAX,
    NothingLeft,
    TooManyEvents,
    narrowed,
)
from anabranch.study.diagram.texts import word
from anabranch.whole_file import write_whole

SUFFIX: Final = ".svg"
# Bytes of a file that tell whether it is a drawing.
_BEGIN_BYTES: Final = 100
_RANGE: Final = re.compile(r"(\d+):(\d*)")


class DrawingError(Exception):
    """A drawing cannot be made or written; the text says how it can be."""


@dataclass(frozen=True)
class Part:
    """The part of a run that is drawn: one key or all, and a range of time in ms.

    `to_ms` None: up to the end.
    """

    key: Optional[bytes] = None
    from_ms: int = 0
    to_ms: Optional[int] = None


def part_of(key: Optional[str], time: Optional[str]) -> Part:
    """The part that the options ask for; `time` is ``FROM:TO`` or ``FROM:`` in ms.

    Raises `DrawingError` if `time` is no such range.
    """
    # Bytes of an argument that are not UTF-8 are surrogates.
    key_bytes = key.encode("utf-8", "surrogateescape") if key is not None else None
    if time is None:
        return Part(key_bytes)
    found = _RANGE.fullmatch(time.strip())
    if found is None:
        raise DrawingError(f"a range of time is FROM:TO in ms, such as 200:600, not '{time}'")
    from_ms, to_ms = int(found[1]), int(found[2]) if found[2] else None
    if to_ms is not None and to_ms < from_ms:
        raise DrawingError(f"the range of time '{time}' ends before it begins")
    return Part(key_bytes, from_ms, to_ms)


def drawn(timeline: Timeline, part: Part) -> str:
    """The SVG text of that part of a timeline.

    Raises `DrawingError` if nothing is left, or if too much is left.
    """
    try:
        return draw(narrowed(timeline, part.key, part.from_ms, part.to_ms))
    except NothingLeft as error:
        raise DrawingError(str(error)) from error
    except TooManyEvents as error:
        raise DrawingError(_too_many(error, part)) from error


def _too_many(error: TooManyEvents, part: Part) -> str:
    ways = []
    if part.key is None and len(error.keys) > 1:
        named = ", ".join(map(word, error.keys[:NAMED_MAX]))
        more = f" and {len(error.keys) - NAMED_MAX} more" if len(error.keys) > NAMED_MAX else ""
        ways.append(f"choose one key with --svg-key ({named}{more})")
    ways.append(
        f"choose a range of time with --svg-time FROM:TO, in ms (the run lasted {error.end_ms} ms)"
    )
    limit = counted(EVENTS_MAX, "event")
    return (
        f"{error.events} events are too many for one drawing, which has at most {limit}:"
        f" {', or '.join(ways)}"
    )


def targets(sources: Sequence[Path], out: Path, is_one: bool) -> dict[Path, Path]:
    """source → file of its drawing.

    With `is_one` OUT is that file; otherwise it is a directory, and each drawing has the name of
    its source. Raises `DrawingError` if that cannot be.
    """
    if is_one:
        if out.is_dir():
            raise DrawingError(f"{out} is a directory: name a file for the drawing of one scenario")
        _keep_other(out)
        return {sources[0]: out}
    if out.exists() and not out.is_dir():
        raise DrawingError(f"{out} is a file: name a directory for the drawings of these scenarios")
    found = {source: out / f"{source.stem}{SUFFIX}" for source in sources}
    twice = {source.stem for source in sources if list(found.values()).count(found[source]) > 1}
    if twice:
        raise DrawingError(f"two files are called {min(twice)}: draw them into two directories")
    for path in found.values():
        _keep_other(path)
    return found


def _keep_other(path: Path) -> None:
    """Raises `DrawingError` if a drawing would take the place of another file than a drawing."""
    if str(path) == "-":
        raise DrawingError("a drawing is written to a file, and - is none: name one, as run.svg")
    if not path.is_file():
        return
    try:
        with path.open("rb") as file:
            begin = file.read(_BEGIN_BYTES).lstrip()
    except OSError as error:
        raise DrawingError(f"{path} cannot be read: {error.strerror or error}") from error
    if begin and not begin.startswith((b"<svg", b"<?xml")):
        raise DrawingError(f"{path} exists and is no drawing: name another file")


def write(text: str, path: Path) -> None:
    """Writes a drawing, and makes its directory.

    `DrawingError` if that fails, or if the path is that of a file of another kind.
    """
    try:
        _keep_other(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text.encode())
    except OSError as error:
        raise DrawingError(f"{path} cannot be written: {error.strerror or error}") from error
