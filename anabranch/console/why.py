"""Explanations and histories: the sentences of `anabranch explain` and `anabranch log`."""

from __future__ import annotations

import asyncio
import json
from typing import Final

from anabranch.console.regions import Region, RegionDown, Word
from anabranch.console.view import JsonObject
from anabranch.escapes import shown
from anabranch.study.history.as_json import as_json
from anabranch.study.history.explanation import explain as explanation_of
from anabranch.study.history.sentences import ExplanationText
from anabranch.study.history.wording import RegionNames, tell
from anabranch.study.replies.events import KeyEvent
from anabranch.study.replies.histories import ExplainedHistory, KeyHistory

EVENTS: Final = 300
_GROUP_EVENTS: Final = 100


async def explain(
    region: Region, others: list[Region], names: dict[int, str], key: bytes, entry_id: str
) -> JsonObject:
    """Why an entry, or all of a key, is or is not in a region. All regions are asked.

    Raises RegionDown or Refused if the region in question does not tell.
    """
    words: list[Word] = ["CRDT.EXPLAIN", key]
    if entry_id:
        words.append(entry_id)
    asked, *answers = await asyncio.gather(
        region.slow_line.ask(*words), *(_history_in(other, words) for other in others)
    )
    silent = [other.name for other, answer in zip(others, answers, strict=True) if answer is None]
    heard = [answer for answer in answers if answer is not None]
    explanation = explanation_of(ExplainedHistory(asked), heard, silent, names)
    facts = json.loads(json.dumps(explanation, default=as_json))
    return {"lines": ExplanationText(explanation).lines(), "facts": facts}


async def _history_in(region: Region, words: list[Word]) -> ExplainedHistory | None:
    """What another region tells; None if it does not answer."""
    try:
        return ExplainedHistory(await region.slow_line.ask(*words))
    except RegionDown:
        return None


def _events(
    history: KeyHistory, names: dict[int, str], group: str | None = None
) -> list[JsonObject]:
    """The events with their sentences, newest first; of one group, or all."""
    return [
        {
            "at_ms": event.time_ms,
            "kind": event.kind,
            "text": tell(event, history, RegionNames(names)),
        }
        for event in reversed(history.events)
        if group is None or _concerns(event, group)
    ]


def _concerns(event: KeyEvent, group: str) -> bool:
    """Whether an event changes a group of this name, or removes every group."""
    is_its = event.group is not None and shown(event.group) == group
    return is_its or event.kind in ("delete", "flush")


async def log(region: Region, names: dict[int, str], key: bytes, before_ms: int) -> JsonObject:
    """The history of a key in one region, newest first; `before_ms` 0: up to now."""
    words: list[Word] = ["CRDT.HISTORY", key, "NEWEST", EVENTS]
    if before_ms:
        words += ["UNTIL", before_ms]
    history = KeyHistory(await region.slow_line.ask(*words))
    return {
        "events": _events(history, names),
        "left_out": history.left_out,
        "is_whole": history.is_whole,
        "since_ms": history.since_ms or None,
    }


async def group_story(region: Region, names: dict[int, str], key: bytes, group: str) -> JsonObject:
    """Why a group lives or not, and its newest events in a region, newest first."""
    asked, told = await asyncio.gather(
        region.slow_line.ask("CRDT.EXPLAIN", key),
        region.slow_line.ask("CRDT.HISTORY", key, "NEWEST", 10 * EVENTS),
    )
    explanation = explanation_of(ExplainedHistory(asked), [], [], names)
    history = KeyHistory(told)
    events = _events(history, names, group)
    return {
        "lines": ExplanationText(explanation).group_lines(group),
        "events": events[:_GROUP_EVENTS],
        "left_out": max(len(events) - _GROUP_EVENTS, 0),
        "is_whole": history.is_whole,
    }
