"""Notices changes in the regions while somebody watches.

As long as at least one watcher is there, each region is asked for one section of INFO 13 times a
second, and each answer is compared with the last one. Without watchers nothing is asked. A region
that is down is asked less often, until it answers again, and so is one that changes without a
pause.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator
from typing import Final

from anabranch.console.interruptions import Interruptions
from anabranch.console.links import LinkError, Links, OutsideCondition
from anabranch.console.overview import JsonObject, RegionState, overview
from anabranch.console.pace import RUSH_EFFECTS
from anabranch.console.rates import Rates
from anabranch.console.regions import Refused, Region, RegionDown

_LOG: Final = logging.getLogger(__name__)
PERIOD_S: Final = 0.075
DOWN_PERIOD_S: Final = 0.5
# For a region of which so many answers in a row were new.
BUSY_PERIOD_S: Final = 0.4
BUSY_ANSWERS: Final = 20
# For a region in a rush: it applied more effects than `RUSH_EFFECTS` between two answers.
RUSH_PERIOD_S: Final = 1.0
OUTSIDE_PERIOD_S: Final = 1.0


async def state_of(region: Region) -> RegionState:
    """Asks a region for its state; never raises for a region that does not answer."""
    try:
        return RegionState(region.place, await region.state_line.ask("INFO", "crdt"))
    except (RegionDown, Refused) as error:
        return RegionState(region.place, None, str(error))


async def _waited(event: asyncio.Event, timeout_s: float) -> None:
    """Waits for an event, or until the time is over.

    `asyncio.wait_for` of Python 3.11 loses a cancellation that comes together with the event.
    """
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            await event.wait()


class Watcher:
    """One reader of changes. `wait` returns at once if something changed since the last call.

    However many changes there are, one flag is all that a slow reader makes grow.
    """

    def __init__(self) -> None:
        self._changed: Final = asyncio.Event()
        self._changed.set()

    def notify(self) -> None:
        """Notes a change."""
        self._changed.set()

    async def wait(self, timeout_s: float) -> bool:
        """Waits for a change; False if none came in time."""
        await _waited(self._changed, timeout_s)
        changed = self._changed.is_set()
        self._changed.clear()
        return changed


class StatePoller:
    """The newest states of all regions, kept fresh while somebody watches."""

    def __init__(self, regions: list[Region], links: Links) -> None:
        self._regions: Final = regions
        self._links: Final = links
        self._states: dict[int, RegionState] = {}
        self._outside: list[OutsideCondition] = []
        self._outside_error = ""
        self._interruptions: Final = Interruptions()
        self._rates: Final = [Rates() for _ in regions]
        self._watchers: Final[set[Watcher]] = set()
        self._tasks: list[asyncio.Task[None]] = []
        # Set to ask all regions at once.
        self._hurries: Final[list[asyncio.Event]] = [asyncio.Event() for _ in regions]
        # How many answers of each region in a row were new.
        self._new_answers: Final = [0] * len(regions)
        self._is_rush: Final = [False] * len(regions)

    def states(self) -> list[RegionState]:
        """The newest state of each region, in the order of the regions."""
        return [
            self._states.get(n) or RegionState(region.place, None, "not asked yet")
            for n, region in enumerate(self._regions)
        ]

    def overview(self) -> JsonObject:
        """The newest state of the cluster."""
        facts = overview(self.states(), self._outside)
        regions, links = facts["regions"], facts["links"]
        for region, rates in zip(regions, self._rates, strict=True):
            region["rates"] = dict(rates.now)
        now_ms = _now_ms()
        self._interruptions.note(regions, links, now_ms)
        return {
            **facts,
            "interruption": self._interruptions.facts(regions, links, now_ms),
            "links_error": self._outside_error,
        }

    @property
    def is_polling(self) -> bool:
        """Whether the regions are asked again and again."""
        return bool(self._tasks)

    async def refresh(self) -> None:
        """Asks all regions now, and waits for their answers."""
        await asyncio.gather(self._ask_outside(), *(self._ask(n) for n in range(self._count)))

    def hurry(self) -> None:
        """Makes the next question of every region come at once."""
        for hurry in self._hurries:
            hurry.set()

    @contextlib.asynccontextmanager
    async def watch(self) -> AsyncIterator[Watcher]:
        """A watcher of all regions; the first one starts the poller, the last one stops it."""
        watcher = Watcher()
        if not self._watchers:
            self._interruptions.resume(_now_ms())
            await self.refresh()
        self._watchers.add(watcher)
        if not self._tasks:
            self._tasks = [asyncio.create_task(self._poll(n)) for n in range(self._count)]
            if self._links.is_outside:
                self._tasks.append(asyncio.create_task(self._poll_outside()))
        try:
            yield watcher
        finally:
            self._watchers.discard(watcher)
            if not self._watchers:
                await self.close()

    async def close(self) -> None:
        """Stops asking."""
        self._interruptions.pause(_now_ms())
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        for ended in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(ended, Exception):
                raise ended

    @property
    def _count(self) -> int:
        return len(self._regions)

    async def _ask(self, n: int) -> None:
        former = self._states.get(n)
        fresh = self._states[n] = await state_of(self._regions[n])
        has_other_rates = self._rates[n].note(fresh.info, time.monotonic())
        self._is_rush[n] = former is not None and fresh.effects - former.effects > RUSH_EFFECTS
        if (
            former is None
            or former.signature != fresh.signature
            or former.links() != fresh.links()
            or former.error != fresh.error
            or _alarms(former) != _alarms(fresh)
        ):
            self._new_answers[n] += 1
            self._notify()
        else:
            self._new_answers[n] = 0
            if has_other_rates:
                self._notify()

    def _period_s(self, n: int) -> float:
        """The time between two questions to a region."""
        if self._states[n].error:
            return DOWN_PERIOD_S
        if self._is_rush[n]:
            return RUSH_PERIOD_S
        return BUSY_PERIOD_S if self._new_answers[n] >= BUSY_ANSWERS else PERIOD_S

    async def _ask_outside(self) -> None:
        former = self._outside, self._outside_error
        try:
            self._outside, self._outside_error = await self._links.outside(), ""
        except LinkError as error:
            self._outside, self._outside_error = [], str(error)
        if former != (self._outside, self._outside_error):
            self._notify()

    def _notify(self) -> None:
        for watcher in self._watchers:
            watcher.notify()

    async def _poll(self, n: int) -> None:
        hurry = self._hurries[n]
        while True:
            await _waited(hurry, self._period_s(n))
            hurry.clear()
            try:
                await self._ask(n)
            except Exception as error:
                # The page shows it on the card of the region; the next answer may be right again.
                _LOG.exception("the state of %s", self._regions[n].name)
                place = self._regions[n].place
                self._states[n] = RegionState(place, None, f"internal error: {error!r}")
                self._notify()

    async def _poll_outside(self) -> None:
        while True:
            await asyncio.sleep(OUTSIDE_PERIOD_S)
            await self._ask_outside()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _alarms(state: RegionState) -> tuple[str | None, ...]:
    fields = ("crdt_divergence", "crdt_commit_error", "crdt_damage", "crdt_recovery_waiting_for")
    return tuple(state.info.get(field) for field in fields)
