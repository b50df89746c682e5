"""Offsets of the Spark source: stream → region → counter.

A counter says how far the log of one region was read, not how far an ID. So an entry that another
region merges late, with an ID below those already read, is still above the counter of its region's
log, and is read. Spark compares offsets as JSON texts, so their keys are always sorted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final, Optional, Union

from anabranch.pipeline.errors import OptionError

# Stream → region name → counter up to which the log was read.
Offset = dict[str, dict[str, int]]
# `earliest` and `latest`, in options.
EARLIEST: Final = "earliest"
LATEST: Final = "latest"
Point = Union[str, int]

_EXAMPLE: Final = '{"orders": {"us": 1200, "eu": "earliest"}, "rides": "latest"}'


class Range:
    """The entries of one region log with after < counter ≤ end, which one task reads.

    `is_new`: the query has read nothing of the stream before. It begins where the stream is
    trimmed, so what was trimmed is no loss. The region that planned may have lacked the trimming.
    """

    def __init__(
        self, stream: str, region: str, after: int, end: int, is_new: bool = False
    ) -> None:
        self.stream: Final = stream
        self.region: Final = region
        self.after: Final = after
        self.end: Final = end
        self.is_new: Final = is_new

    def part(self, after: int, end: int) -> Range:
        """The entries of this range with after < counter ≤ end; only the first part can be new."""
        return Range(self.stream, self.region, after, end, self.is_new and after == self.after)

    def __repr__(self) -> str:
        return f"the log of {self.region} in {self.stream}, ({self.after}, {self.end}]"


class Start:
    """The value of `startingOffsets` or `endingOffsets`.

    `everywhere` is EARLIEST or LATEST, or None if `by_stream` holds the points by stream, which are
    one point, or points by region.
    """

    def __init__(
        self, everywhere: Optional[str], by_stream: dict[str, Union[Point, dict[str, Point]]]
    ) -> None:
        self.everywhere: Final = everywhere
        self.by_stream: Final = by_stream

    def point(self, stream: str, region: str, default: str) -> Point:
        """The point for one region log; `default` if the JSON does not name it."""
        if self.everywhere is not None:
            return self.everywhere
        points = self.by_stream.get(stream, default)
        return points.get(region, default) if isinstance(points, dict) else points


def parse_start(option: str, text: str) -> Start:
    """The value of an option. Raises OptionError."""
    text = text.strip()
    if text in (EARLIEST, LATEST):
        return Start(text, {})
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise OptionError(
            f"{option} must be earliest, latest or JSON such as {_EXAMPLE}; "
            f"'{text}' is none of these: {error}"
        ) from None
    if not isinstance(given, dict):
        raise OptionError(f"{option} must be a JSON object such as {_EXAMPLE}")
    for stream, points in given.items():
        for where, point in points.items() if isinstance(points, dict) else [("", points)]:
            if point in (EARLIEST, LATEST) and isinstance(point, str):
                continue
            if where and isinstance(point, int) and not isinstance(point, bool) and point >= 0:
                continue
            place = f"{stream}, {where}" if where else stream
            raise OptionError(
                f"{option}: {place}: {json.dumps(point)} is not a counter of a region log, "
                f"earliest or latest; an example is {_EXAMPLE}"
            )
    return Start(None, given)


def check_names(option: str, start: Start, streams: list[str], regions: list[str]) -> None:
    """Raises OptionError if JSON names a stream or region that is not read."""
    for stream, points in start.by_stream.items():
        if stream not in streams:
            raise OptionError(
                f"{option} names the stream '{stream}', which is not read; "
                f"the streams are {', '.join(streams) or 'none'}"
            )
        for region in points if isinstance(points, dict) else ():
            if region not in regions:
                raise OptionError(
                    f"{option} names the region '{region}', which is no member of the cluster; "
                    f"its regions are {', '.join(regions)}"
                )


def read_offset(given: object) -> Offset:
    """An offset that Spark kept, checked. Raises OptionError if it is none of this source."""
    if not isinstance(given, dict) or not all(
        isinstance(logs, dict) and all(type(counter) is int for counter in logs.values())
        for logs in given.values()
    ):
        raise OptionError(
            f"the checkpoint has an offset that is not one of this source: {json.dumps(given)}; "
            "the checkpoint belongs to another query, so give this query another one"
        )
    return given


def sorted_offset(offset: Mapping[str, Mapping[str, int]]) -> Offset:
    """The same offset with sorted keys; counters of 0 are left out."""
    return {
        stream: {
            region: offset[stream][region]
            for region in sorted(offset[stream])
            if offset[stream][region]
        }
        for stream in sorted(offset)
    }


def joined(one: Offset, other: Offset) -> Offset:
    """The component-wise maximum."""
    result = {stream: dict(logs) for stream, logs in one.items()}
    for stream, logs in other.items():
        into = result.setdefault(stream, {})
        for region, counter in logs.items():
            into[region] = max(into.get(region, 0), counter)
    return sorted_offset(result)
