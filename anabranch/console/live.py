"""Changes as server-sent events: the cluster, the keys, and one window of a stream.

A page has one such connection. An event is made only after the former one has been sent, from the
newest state. So a slow page gets fewer events, and nothing waits for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import Receive, Send

from anabranch.console.keys import LongKeys, keys
from anabranch.console.overview import RegionState, names_of
from anabranch.console.pace import Pace
from anabranch.console.poller import StatePoller, Watcher
from anabranch.console.regions import Region
from anabranch.console.stream import Look, Streams, Window
from anabranch.console.view import JsonObject

KEEP_ALIVE_S: Final = 15.0
# A page that takes nothing for so long is gone.
SEND_PATIENCE_S: Final = 30.0
# How long the end of an answer may take.
END_PATIENCE_S: Final = 0.5
# The shortest time between two looks at a stream, and at the keys.
LOOK_S: Final = 0.05
KEYS_S: Final = 1.0
# The time after which a region that did not answer a look is asked again, though nothing changed.
AGAIN_S: Final = 1.0
PAGES_MAX: Final = 64
_HEADERS: Final = [(b"content-type", b"text/event-stream; charset=utf-8")]


class Wanted:
    """What one page watches: a window of a stream in some regions, and the keys with a filter."""

    def __init__(self, window: Window | None, regions: list[Region], wanted_keys: str) -> None:
        self.window: Final = window
        self.regions: Final = regions
        self.wanted_keys: Final = wanted_keys


class Feed:
    """The events of one page, in the order in which they are to be sent."""

    def __init__(
        self,
        poller: StatePoller,
        streams: Streams,
        regions: list[Region],
        long_keys: LongKeys,
        wanted: Wanted,
        watcher: Watcher,
        pace: Pace,
    ) -> None:
        self._pace: Final = pace
        self._long_keys: Final = long_keys
        self._poller: Final = poller
        self._streams: Final = streams
        self._regions: Final = regions
        self._wanted: Final = wanted
        self._watcher: Final = watcher
        self._last: Final[dict[str, JsonObject]] = {}
        self._signature: object = None
        # Before this time the stream is not looked at again.
        self._next_look_s = 0.0
        # Effects that all regions had applied at the last look.
        self._effects = 0
        self._keys_s = 0.0
        self._is_look_due = True
        self._are_keys_due = True
        self._reading: asyncio.Task[None] | None = None

    def pause_s(self) -> float:
        """How long to wait for a change before `events` is asked anyway."""
        pauses_s = [KEEP_ALIVE_S]
        if self._are_keys_due:
            pauses_s.append(max(self._keys_s + KEYS_S - time.monotonic(), 0.0))
        if self._is_look_due and self._wanted.window is not None:
            pauses_s.append(self._look_in_s())
        return min(pauses_s)

    def _look_in_s(self) -> float:
        """How long to wait before the next look at the stream."""
        return max(self._next_look_s - time.monotonic(), self._pace.pause_s(), 0.0)

    async def events(self) -> AsyncIterator[tuple[str, JsonObject]]:
        """The events that are due now, each as soon as it is known."""
        states = self._poller.states()
        signature = [state.signature for state in states]
        if signature != self._signature:
            self._signature = signature
            self._are_keys_due = self._is_look_due = True
        overview = self._poller.overview()
        if self._is_new("overview", overview):
            yield "overview", overview
        window = self._wanted.window
        if window is not None and self._is_look_due and self._look_in_s() == 0.0:
            stream = await self._look(window, states)
            if self._is_new("stream", stream):
                yield "stream", stream
        if self._are_keys_due and time.monotonic() - self._keys_s >= KEYS_S:
            wanted_keys = self._wanted.wanted_keys
            down = self._down(states)
            found = await keys(self._regions, wanted_keys, self._long_keys, down)
            self._are_keys_due = len(found["silent"]) > len(down)
            self._keys_s = time.monotonic()
            if self._is_new("keys", found):
                yield "keys", found

    def _is_new(self, name: str, facts: JsonObject) -> bool:
        """Whether an event differs from the last one of its name; notes it."""
        is_new = self._last.get(name) != facts
        self._last[name] = facts
        return is_new

    async def _look(self, window: Window, states: list[RegionState]) -> JsonObject:
        self._is_look_due = False
        effects = sum(state.effects for state in states)
        began_s = self._pace.begin(effects - self._effects if self._effects else 0)
        self._effects = effects
        regions, down = self._wanted.regions, self._down(states)
        look = await self._streams.look(regions, names_of(states), window, down)
        self._pace.end(began_s)
        # A region that is back may show no change any more: it had caught up when the poller
        # reached it, and only then its connection of before turned out to be closed.
        views = zip(look.facts["regions"], regions, strict=True)
        self._is_look_due = any(view["error"] and region not in down for view, region in views)
        self._next_look_s = time.monotonic() + (AGAIN_S if self._is_look_due else LOOK_S)
        if look.unread and self._reading is None:
            self._reading = asyncio.create_task(self._read(look))
        return look.facts

    def _down(self, states: list[RegionState]) -> dict[Region, str]:
        """The regions that did not answer the last question of the poller, with their errors."""
        pairs = zip(self._regions, states, strict=True)
        return {region: state.error for region, state in pairs if state.error}

    async def _read(self, look: Look) -> None:
        """Reads logs beside the events, because that may take long."""
        await self._streams.read(look.unread, names_of(self._poller.states()))
        self._reading = None
        self._is_look_due = True
        self._watcher.notify()

    def close(self) -> None:
        """Ends the reading of logs."""
        if self._reading is not None:
            self._reading.cancel()


class Live:
    """The connections of all pages."""

    def __init__(
        self, poller: StatePoller, streams: Streams, regions: list[Region], long_keys: LongKeys
    ) -> None:
        self._long_keys: Final = long_keys
        self._poller: Final = poller
        self._streams: Final = streams
        self._regions: Final = regions
        self._tasks: Final[set[asyncio.Task[Any]]] = set()
        self._pace: Final = Pace()

    @property
    def pages(self) -> int:
        """The number of pages that are connected."""
        return len(self._tasks)

    def close(self) -> None:
        """Ends all connections."""
        for task in self._tasks:
            task.cancel()

    async def serve(self, request: Request, wanted: Wanted, send: Send) -> None:
        """Sends events until the page is gone."""
        if self.pages >= PAGES_MAX:
            error = f"{PAGES_MAX} pages watch already: close one"
            await JSONResponse({"error": error}, 503)(request.scope, request.receive, send)
            return
        sending = asyncio.create_task(self._send(wanted, send))
        leaving = asyncio.create_task(_gone(request.receive))
        self._tasks.add(sending)
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            has_left = leaving.done()
            for task in (sending, leaving):
                task.cancel()
            self._tasks.discard(sending)
            with contextlib.suppress(asyncio.CancelledError, TimeoutError, OSError):
                await sending
        if not has_left:
            # The console ends, or the page was too slow. The answer is whole with its last part.
            with contextlib.suppress(TimeoutError, OSError):
                async with asyncio.timeout(END_PATIENCE_S):
                    await send({"type": "http.response.body", "body": b""})

    async def _send(self, wanted: Wanted, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        async with self._poller.watch() as watcher:
            feed = Feed(
                self._poller,
                self._streams,
                self._regions,
                self._long_keys,
                wanted,
                watcher,
                self._pace,
            )
            try:
                sent_s = time.monotonic()
                while True:
                    await watcher.wait(feed.pause_s())
                    async for name, facts in feed.events():
                        data = json.dumps(facts, separators=(",", ":"))
                        await _sent(send, f"event: {name}\ndata: {data}\n\n")
                        sent_s = time.monotonic()
                    if time.monotonic() >= sent_s + KEEP_ALIVE_S:
                        await _sent(send, ": still here\n\n")
                        sent_s = time.monotonic()
            finally:
                feed.close()


async def _sent(send: Send, text: str) -> None:
    """Sends a part of the answer; TimeoutError if the page does not take it."""
    async with asyncio.timeout(SEND_PATIENCE_S):
        await send({"type": "http.response.body", "body": text.encode(), "more_body": True})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
