"""Explanations and histories: the sentences of `anabranch explain` and `anabranch log`."""

from __future__ import annotations

import asyncio
from typing import Final

from anabranch.console.regions import Region, RegionDown, Word, text
from anabranch.console.view import Facts
from anabranch.study.history.events import Telling
from anabranch.study.history.explanation import explain as facts_of
from anabranch.study.history.sentences import Teller
from anabranch.study.history.story import tell
from anabranch.study.history.wording import Names

EVENTS: Final = 300
_GROUP_EVENTS: Final = 100


async def explain(
    region: Region, others: list[Region], names: dict[int, str], key: bytes, entry_id: str
) -> Facts:
    """Why an entry, or all of a key, is or is not in a region. All regions are asked.

    Raises RegionDown or Refused if the region in question does not tell.
    """
    words: list[Word] = ["CRDT.EXPLAIN", key]
    if entry_id:
        words.append(entry_id)
    asked, *tellings = await asyncio.gather(
        region.slow_line.ask(*words), *(_told(other, words) for other in others)
    )
    silent = [
        other.name for other, telling in zip(others, tellings, strict=True) if telling is None
    ]
    heard = [telling for telling in tellings if telling is not None]
    facts = facts_of(Telling(text(asked)), heard, silent, names)
    return {"lines": Teller(facts).lines(), "facts": facts}


async def _told(region: Region, words: list[Word]) -> Telling | None:
    """What another region tells; None if it does not answer."""
    try:
        return Telling(text(await region.slow_line.ask(*words)))
    except RegionDown:
        return None


async def log(region: Region, names: dict[int, str], key: bytes, before_ms: int) -> Facts:
    """The history of a key in one region, newest first; `before_ms` 0: up to now."""
    words: list[Word] = ["CRDT.HISTORY", key, "NEWEST", EVENTS]
    if before_ms:
        words += ["UNTIL", before_ms]
    telling = Telling(text(await region.slow_line.ask(*words)))
    return {
        "events": [
            {"at_ms": event.time_ms, "kind": event.kind, "text": tell(event, telling, Names(names))}
            for event in reversed(telling.events)
        ],
        "left_out": telling.left_out,
        "is_whole": telling.is_whole,
        "since_ms": telling.since_ms or None,
    }


async def group_story(region: Region, names: dict[int, str], key: bytes, group: str) -> Facts:
    """Why a group lives or not, and its newest events in a region, newest first."""
    asked, history = await asyncio.gather(
        region.slow_line.ask("CRDT.EXPLAIN", key),
        region.slow_line.ask("CRDT.HISTORY", key, "NEWEST", 10 * EVENTS),
    )
    facts = facts_of(Telling(text(asked)), [], [], names)
    telling = Telling(text(history))
    events = [
        {"at_ms": event.time_ms, "kind": event.kind, "text": tell(event, telling, Names(names))}
        for event in reversed(telling.events)
        if event.facts.get("group") == group or event.kind in ("delete", "flush")
    ]
    return {
        "lines": Teller(facts).group_lines(group),
        "events": events[:_GROUP_EVENTS],
        "left_out": max(len(events) - _GROUP_EVENTS, 0),
        "is_whole": telling.is_whole,
    }
