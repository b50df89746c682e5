"""Pending entries of groups that were delivered more than once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from anabranch.pipeline.errors import PipelineError
from anabranch.pipeline.jobs.region_client import NoKey, RegionClient
from anabranch.pipeline.resp import named, shown

_PAGE_ENTRIES: Final = 1000
# Pending entries of one group that are looked at.
PENDING_MAX: Final = 100_000


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


def redeliveries(client: RegionClient, streams: list[bytes]) -> list[Redeliveries]:
    """The pending entries of all groups of streams in a region."""
    found: list[Redeliveries] = []
    for stream in streams:
        try:
            groups = [named(one) for one in client.call("XINFO", "GROUPS", stream)]
        except NoKey:
            continue
        for group in groups:
            counts = _delivery_counts(client, stream, group["name"])
            again = [count for count in counts if count > 1]
            found.append(
                Redeliveries(
                    shown(stream),
                    shown(group["name"]),
                    client.name,
                    int(group["pending"]),
                    len(counts),
                    len(again),
                    sum(again) - len(again),
                    max(counts, default=0),
                )
            )
    return found


def _delivery_counts(client: RegionClient, stream: bytes, group: bytes) -> list[int]:
    counts: list[int] = []
    start = b"-"
    while len(counts) < PENDING_MAX:
        try:
            page: list[Any] = client.call("XPENDING", stream, group, start, "+", _PAGE_ENTRIES)
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
