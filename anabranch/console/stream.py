"""One stream in several regions, live: lanes, rows, groups, and what each region lacks.

All parts of one region's view come from one transaction, so they fit together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from anabranch.answers import info_of, listed_vector
from anabranch.console.groups import LiveGroup
from anabranch.console.keys import name_of
from anabranch.console.regions import Refused, Region, RegionDown, Word, text
from anabranch.console.tail import Tail
from anabranch.console.view import JsonObject, RegionView, entry_of, region_facts, rows
from anabranch.crdt import ids
from anabranch.escapes import shown
from anabranch.study.history.wording import RegionNames
from anabranch.study.replies.groups import KeyGroups
from anabranch.study.replies.parts import fields_of, id_of, raw, word

ROWS_DEFAULT: Final = 60
ROWS_MAX: Final = 500
# Bytes of fields that are asked of one region at once, judged by its newest entries.
_BYTES: Final = 4 << 20
_PROBE: Final = 3
# Pending entries of a group that are asked for.
_PENDING: Final = 500
# Entries of one log that are asked for, in windows: more came between two questions.
_BURST: Final = 4
_NONE_DOWN: Final[Mapping[Region, str]] = {}
# Keys whose removals are remembered.
_TAILS: Final = 64


class Window:
    """The part of a stream that is wanted: `count` rows below the ID `before`, or the newest."""

    def __init__(self, key: bytes, before: str = "", count: int = ROWS_DEFAULT) -> None:
        self.key: Final = key
        self.before: Final = before
        self.count: Final = count

    @property
    def end(self) -> str:
        """The upper bound for XREVRANGE."""
        return f"({self.before}" if self.before else "+"

    @property
    def end_id(self) -> int:
        """All IDs of the window are below this one."""
        return ids.parse(self.before.encode(), 0) if self.before else ids.MAX_ID + 1


class Unread:
    """A log that is to be read for the reasons of removals."""

    def __init__(
        self, tail: Tail, region: Region, key: bytes, info: dict[str, str], signature: object
    ) -> None:
        self.tail: Final = tail
        self.region: Final = region
        self.key: Final = key
        self.info: Final = info
        self.signature: Final = signature


class Look:
    """The facts that the regions showed, and the logs that are to be read before the next look."""

    def __init__(self, facts: JsonObject, unread: list[Unread]) -> None:
        self.facts: Final = facts
        self.unread: Final = unread


class _Bounds:
    """The ID with which a region's part of a window begins, 0 for all; `error` if it is down."""

    def __init__(self, low: int, average: int = 0, error: str = "") -> None:
        self.low: Final = low
        # Bytes of its entries, on average.
        self.average: Final = average
        self.error: Final = error


class Streams:
    """Looks at streams, and remembers the removals of those that were looked at last."""

    def __init__(self) -> None:
        self._tails: Final[dict[tuple[str, bytes], Tail]] = {}
        # Bytes of the newest entries of a key, on average.
        self._averages: Final[dict[bytes, int]] = {}

    async def look(
        self,
        regions: list[Region],
        names: dict[int, str],
        window: Window,
        down: Mapping[Region, str] = _NONE_DOWN,
    ) -> Look:
        """The rows of a window, newest first, and the stream as a whole.

        `names` are those of all regions, by region_id. A region that does not answer has an error
        in its place. `down`: those that are not asked, because they would keep the others waiting,
        with their errors.
        """
        up = [region for region in regions if region not in down]
        if window.key not in self._averages:
            while len(self._averages) >= _TAILS:
                del self._averages[next(iter(self._averages))]
            found = await asyncio.gather(*(_average(region, window) for region in up))
            self._averages[window.key] = max(found, default=0)
        average = self._averages[window.key]
        begins = await asyncio.gather(*(_bounds(region, window, average) for region in up))
        bounds = dict(zip(up, begins, strict=True))
        bounds |= {region: _Bounds(0, 0, error) for region, error in down.items()}
        low = max((bound.low for bound in bounds.values()), default=0)
        self._averages[window.key] = max((bound.average for bound in bounds.values()), default=0)
        looked = await asyncio.gather(
            *(self._view(region, bounds[region].error, names, window, low) for region in regions)
        )
        views = [view for view, _ in looked]
        shown, are_older_left = rows(views, low, window.count)
        facts: JsonObject = {
            "key": name_of(window.key),
            "before": window.before or None,
            "rows": shown,
            "has_older": are_older_left or low > 0,
            "regions": [region_facts(view) for view in views],
            "names": {str(region_id): name for region_id, name in sorted(names.items())},
        }
        return Look(facts, [unread for _, unread in looked if unread is not None])

    async def read(self, unread: list[Unread], names: dict[int, str]) -> None:
        """Reads logs for the reasons of removals. The next look shows them."""
        await asyncio.gather(*(self._read(one, RegionNames(names)) for one in unread))

    async def _read(self, unread: Unread, names: RegionNames) -> None:
        await asyncio.sleep(unread.tail.pause_s())
        try:
            await unread.tail.read(unread.region, unread.key, unread.info, names, unread.signature)
        except (RegionDown, Refused) as error:
            unread.tail.fail(str(error), unread.signature)

    async def _view(
        self, region: Region, error: str, names: dict[int, str], window: Window, low: int
    ) -> tuple[RegionView, Unread | None]:
        """The stream in one region, and its log if removals are to be read from it."""
        view = RegionView(region.name, region.place.region_id)
        view.error = error
        if error:
            return view, None
        members = sorted(names) or [region.place.region_id]
        limit = _BURST * window.count
        bounds: list[Word] = [ids.format_id(low), window.end]
        logs: list[list[Word]] = [
            ["CRDT.LOG", window.key, region_id, *bounds, "COUNT", limit] for region_id in members
        ]
        commands: list[list[Word]] = [
            ["MULTI"],
            ["INFO", "crdt"],
            ["XINFO", "STREAM", window.key],
            ["CRDT.GROUPS", window.key, *bounds, "COUNT", _PENDING],
            *logs,
            ["EXEC"],
        ]
        try:
            reply = (await region.line.ask_all(commands))[-1]
            if isinstance(reply, Refused):
                raise reply
            signature = _fill(view, reply, members)
        except (RegionDown, Refused) as failure:
            view.error = str(failure)
            return view, None
        tail = self._tail(region, window.key)
        tail.remember(view.entries)
        view.log_since_ms, view.log_error = tail.since_ms, tail.error
        # Where a log ends at the limit, entries above are not known.
        ends = [log[-1] for log in reply[3:] if len(log) >= limit]
        high = min((id_of(fields_of(end)["id"]) for end in ends), default=window.end_id - 1)
        view.removed = tail.gone(view, low, high)
        if not tail.is_behind(signature, view.removed):
            return view, None
        return view, Unread(tail, region, window.key, info_of(reply[0]), signature)

    def _tail(self, region: Region, key: bytes) -> Tail:
        at = (str(region.place.address), key)
        tail = self._tails.pop(at, None) or Tail()
        self._tails[at] = tail
        while len(self._tails) > _TAILS:
            del self._tails[next(iter(self._tails))]
        return tail


def _fill(view: RegionView, reply: list[Any], members: list[int]) -> object:
    """Fills a view; returns a value that changes with each removal of entries."""
    info, summary, groups, *logs = reply
    view.vector = listed_vector(info_of(info).get("crdt_vector", ""))
    signature: object = "absent"
    if isinstance(summary, dict):
        facts = fields_of(summary)
        view.exists = True
        view.length = int(facts["length"])
        signature = int(facts["entries-added"]) - view.length
    if isinstance(groups, Exception):
        raise Refused(text(groups))
    told = KeyGroups(groups)
    view.groups = [LiveGroup(state) for state in told.groups.values()]
    view.tombstones = [(shown(name), seen) for name, seen in told.tombstones]
    for region_id, log in zip(members, logs, strict=True):
        if isinstance(log, Exception):
            raise Refused(text(log))
        for entry in map(fields_of, log):
            dot = (region_id, int(entry["counter"]))
            view.entries[dot] = entry_of(word(entry["id"]), list(map(raw, entry["fields"])))
    return signature


async def _average(region: Region, window: Window) -> int:
    """Bytes of a region's newest entries, on average; 0 if it has none, or does not answer."""
    try:
        found = await region.line.ask("XREVRANGE", window.key, window.end, "-", "COUNT", _PROBE)
    except (RegionDown, Refused):
        return 0
    return _bytes(found)


def _bytes(entries: list[Any]) -> int:
    """The bytes of entries as XREVRANGE tells them, on average."""
    return sum(len(word) for _, fields in entries for word in fields) // max(len(entries), 1)


async def _bounds(region: Region, window: Window, average: int) -> _Bounds:
    """Asks a region where its part of the window begins. `average`: bytes of its entries."""
    count = min(window.count, max(_BYTES // max(average, 1), 1))
    try:
        # One more shows whether older entries follow.
        found = await region.line.ask("XREVRANGE", window.key, window.end, "-", "COUNT", count + 1)
    except (RegionDown, Refused) as error:
        return _Bounds(0, 0, str(error))
    low = ids.parse(found[count - 1][0], 0) if len(found) > count else 0
    return _Bounds(low, _bytes(found))
