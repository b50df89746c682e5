"""`anabranch log KEY --svg OUT`: asks all regions for the history of a key, and draws it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, Optional

from anabranch.cli.addresses import RegionAddress
from anabranch.cli.client import RegionClient
from anabranch.cli.errors import CliError, Unreachable
from anabranch.plural import counted
from anabranch.sim.timeline.files import DrawingError, write
from anabranch.study.diagram import draw
from anabranch.study.diagram.narrowing import EVENTS_MAX, TooManyEvents
from anabranch.study.history.steps import RegionAnswer
from anabranch.study.history.timeline import NoEvents, Range, timeline_of
from anabranch.study.replies.histories import KeyHistory, KeyState

# Events that each region tells. A drawing has fewer; the rest tells what became of them.
_TOLD_MAX: Final = 1000


def draw_history(
    places: list[RegionAddress], password: Optional[str], key: bytes, part: Range, out: Path
) -> None:
    """Writes the drawing of a key's history in all regions that answer.

    Raises:
        CliError: No region answers, there is nothing or too much to draw, or the file cannot be
            written.
    """
    answers: list[RegionAnswer] = []
    names: dict[int, str] = {}
    silent: list[str] = []
    errors: list[str] = []
    for place in places:
        try:
            with place.client(password) as client:
                answers.append(_answer(client, key, part))
                names |= client.members()
        except Unreachable as error:
            silent.append(place.name)
            errors.append(str(error))
    if not answers:
        raise CliError("\n  ".join(["no region answers:", *errors]))
    try:
        text = draw(timeline_of(answers, silent, names, part))
    except NoEvents as error:
        raise CliError(str(error)) from error
    except TooManyEvents as error:
        raise CliError(_too_many(error)) from error
    try:
        write(text, out)
    except DrawingError as error:
        raise CliError(str(error)) from error


def _answer(client: RegionClient, key: bytes, part: Range) -> RegionAnswer:
    """One region's state of the key, unless the range ends before the present, and its history."""
    state = None
    if part.until_ms is None:
        state = KeyState(client.raw("CRDT.EXPLAIN", key, "NOHISTORY"))
    command: list[str | bytes] = ["CRDT.HISTORY", key, "NEWEST", str(_TOLD_MAX)]
    if part.until_ms is not None:
        command += ["UNTIL", str(part.until_ms)]
    if part.entry_id:
        command += ["ID", os.fsencode(part.entry_id)]
    return RegionAnswer(KeyHistory(client.raw(*command)), state, part.until_ms)


def _too_many(error: TooManyEvents) -> str:
    return (
        f"{error.events} events are too many for one drawing, which has at most"
        f" {counted(EVENTS_MAX, 'event')}: choose the last ones with --newest N, a range of time"
        " with --since MS and --until MS (ms since 1970; `anabranch log` shows them), or one entry"
        " with --id ID"
    )
