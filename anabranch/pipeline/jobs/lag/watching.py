"""Watches how far each region is, from a thread for each, and looks for redeliveries."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

from anabranch.pipeline.errors import PipelineError
from anabranch.pipeline.jobs.door import Door, DoorClosed, NoKey
from anabranch.pipeline.jobs.lag.arrivals import Samples
from anabranch.pipeline.resp import named, shown

_PAGE_ENTRIES: Final = 1000
# Pending entries of one group that are looked at.
PENDING_MAX: Final = 100_000


class Watcher:
    """Notes the vector of each region while the `with` lasts.

    A region that stops answering is asked again at each turn; `failures` counts that.
    """

    def __init__(self, doors: dict[str, Door], interval_ms: int) -> None:
        self.samples: Final = {name: Samples() for name in doors}
        self.failures: Final = dict.fromkeys(doors, 0)
        self._errors: Final[list[PipelineError]] = []
        self._interval_s: Final = interval_ms / 1000
        self._began_s: Final = time.time() - time.monotonic()
        self._ended: Final = threading.Event()
        self._threads: Final = [
            threading.Thread(target=self._watch, args=(door,), daemon=True)
            for door in doors.values()
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def check(self) -> None:
        """Raises the PipelineError of a region that refused to answer, if any."""
        if self._errors:
            raise self._errors[0]

    def _watch(self, door: Door) -> None:
        """Samples one region. The last sample follows the end of the watch."""
        is_last = False
        while True:
            self._sample(door)
            if is_last or self._errors:
                return
            is_last = self._ended.wait(self._interval_s)

    def _sample(self, door: Door) -> None:
        try:
            vector = door.vector()
        except DoorClosed:
            self.failures[door.name] += 1
            return
        except PipelineError as error:
            self._errors.append(error)
            return
        now_ms = int((self._began_s + time.monotonic()) * 1000)
        self.samples[door.name].note(now_ms, vector)


def last_ids(door: Door, streams: list[bytes]) -> dict[bytes, tuple[int, int]]:
    """The last ID of each stream in a region."""
    found: dict[bytes, tuple[int, int]] = {}
    for stream in streams:
        try:
            facts = named(door.call("XINFO", "STREAM", stream))
        except NoKey:
            continue
        ms, _, seq = shown(facts["last-generated-id"]).partition("-")
        found[stream] = int(ms), int(seq)
    return found


@dataclass(frozen=True)
class Redeliveries:
    """The pending entries of a group in one region.

    `redelivered` were delivered more than once, `deliveries` is the sum of all their deliveries
    beyond the first, `most` the most deliveries of one entry. `looked_at` is below `pending` if
    there were more than PENDING_MAX.
    """

    stream: str
    group: str
    region: str
    pending: int
    looked_at: int
    redelivered: int
    deliveries: int
    most: int


def redeliveries(door: Door, streams: list[bytes]) -> list[Redeliveries]:
    """The pending entries of all groups of streams in a region."""
    found: list[Redeliveries] = []
    for stream in streams:
        try:
            groups = [named(one) for one in door.call("XINFO", "GROUPS", stream)]
        except NoKey:
            continue
        for group in groups:
            counts = _delivery_counts(door, stream, group["name"])
            again = [count for count in counts if count > 1]
            found.append(
                Redeliveries(
                    shown(stream),
                    shown(group["name"]),
                    door.name,
                    int(group["pending"]),
                    len(counts),
                    len(again),
                    sum(again) - len(again),
                    max(counts, default=0),
                )
            )
    return found


def _delivery_counts(door: Door, stream: bytes, group: bytes) -> list[int]:
    counts: list[int] = []
    start = b"-"
    while len(counts) < PENDING_MAX:
        try:
            page: list[Any] = door.call("XPENDING", stream, group, start, "+", _PAGE_ENTRIES)
        except PipelineError as error:
            if "NOGROUP" in str(error):
                # The group was destroyed meanwhile.
                break
            raise
        counts += [int(row[3]) for row in page]
        if len(page) < _PAGE_ENTRIES:
            break
        start = b"(" + page[-1][0]
    return counts
