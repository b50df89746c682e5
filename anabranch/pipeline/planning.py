"""Decides up to where a query reads, and cuts that into partitions.

All functions ask `Regions`, so they run on the driver.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final, Optional

from anabranch.pipeline.errors import OptionError, PipelineError
from anabranch.pipeline.losses import (
    above_the_end,
    other_history,
    removed_early,
    stream_gone,
    trimmed_early,
)
from anabranch.pipeline.offsets import (
    EARLIEST,
    LATEST,
    Offset,
    Point,
    Range,
    Start,
    check_names,
    joined,
    sorted_offset,
)
from anabranch.pipeline.options import SourceOptions, is_glob
from anabranch.pipeline.regions import LogFacts, LogPart, Regions, own_end
from anabranch.pipeline.resp import printable

# Bytes of one region log that one task reads, unless `minPartitions` asks for smaller parts.
PARTITION_BYTES: Final = 32 << 20
# The pieces of which partitions are made.
PIECE_BYTES: Final = 1 << 20


class Planner:
    """The plan of one query."""

    def __init__(self, options: SourceOptions) -> None:
        self.options: Final = options
        self.regions: Final = Regions(options)
        # Stream and region of the logs that were read, and are gone with their stream.
        self._removed: Final[set[tuple[str, str]]] = set()

    # -- which streams, and how far they reach

    def streams(self, reached: Collection[str] = ()) -> dict[str, list[LogFacts]]:
        """The logs of each stream that is there.

        Raises PipelineError for a name that is neither there nor among `reached`, the streams that
        were read before.
        """
        found: dict[str, list[LogFacts]] = {}
        for stream in self.regions.stream_names():
            logs = self.regions.logs(stream)
            if logs is not None:
                found[stream] = logs
        self._check_named(found, reached)
        return found

    def start(self) -> Offset:
        """The offset at which a new query begins (`startingOffsets`)."""
        return self._resolved("startingOffsets", self.options.start, EARLIEST)

    def streaming_start(self) -> Offset:
        """The offset at which a new streaming query begins (`startingOffsets`).

        Raises OptionError for a place above the end of its log. The query would not read the
        entries between the end and the place when they come.
        """
        streams = self.streams()
        start = self._resolved_in(streams, "startingOffsets", self.options.start, EARLIEST)
        for stream, logs in streams.items():
            for facts in logs:
                given = start[stream].get(facts.region, 0)
                if given > facts.applied:
                    raise above_the_end(stream, given, facts)
        return start

    def end(self) -> Offset:
        """The offset at which a batch query ends (`endingOffsets`)."""
        return self._resolved("endingOffsets", self.options.end, LATEST)

    def _resolved(self, option: str, start: Start, default: str) -> Offset:
        return self._resolved_in(self.streams(), option, start, default)

    def _resolved_in(
        self, streams: dict[str, list[LogFacts]], option: str, start: Start, default: str
    ) -> Offset:
        names = [facts.region for logs in streams.values() for facts in logs]
        check_names(option, start, list(streams), sorted(set(names)) or self.regions.members())
        is_begin = default == EARLIEST
        return sorted_offset(
            {
                stream: {
                    facts.region: _counter(
                        start.point(stream, facts.region, default), facts, is_begin
                    )
                    for facts in logs
                }
                for stream, logs in streams.items()
            }
        )

    def latest(self, start: Offset) -> Offset:
        """The maximum of `start` and what the region that answers has applied.

        A region that answers instead of another may have applied less: the offset never goes back.
        A stream that the options no longer name stays where it was. Raises DataLossError if the
        region that answers has issued fewer effects than were read of it (`failOnDataLoss`).
        """
        found: Offset = {}
        kept = {stream for stream in start if self.options.names_stream(stream)}
        for stream in {*self.regions.stream_names(), *kept}:
            logs = self.regions.logs(stream)
            if logs is not None:
                self._check_removed(stream, logs, start.get(stream, {}))
                found[stream] = {facts.region: _reached(facts, start.get(stream)) for facts in logs}
                self._check_history(stream, logs, start.get(stream, {}))
            elif stream in kept:
                self._is_gone(stream, start[stream])
        if start:
            self._check_named(found, start)
        return self.without_removed(joined(start, found))

    def without_removed(self, offset: Offset) -> Offset:
        """The offset without the logs that were found removed, as `failOnDataLoss` false allows.

        A log that its region begins anew is then read from its first entry.
        """
        return {
            stream: {
                region: counter
                for region, counter in logs.items()
                if (stream, region) not in self._removed
            }
            for stream, logs in offset.items()
        }

    def _check_removed(self, stream: str, logs: list[LogFacts], start: dict[str, int]) -> None:
        """Raises DataLossError if the stream was removed and added to again since it was read."""
        for facts in logs:
            reached = start.get(facts.region, 0)
            if not facts.is_removed_since(reached):
                self._removed.discard((stream, facts.region))
                continue
            if self.options.fail_on_loss:
                raise removed_early(Range(stream, facts.region, reached, facts.applied), facts)
            if facts.began == 0:
                self._removed.add((stream, facts.region))

    def _check_history(self, stream: str, logs: list[LogFacts], start: dict[str, int]) -> None:
        """Raises DataLossError if the region that answers has lost effects of its own.

        What it lacks of other regions may still come. Its own effects do not, unless it is in
        recovery.
        """
        is_behind = any(one.applied < start.get(one.region, 0) for one in logs)
        if not is_behind or not self.options.fail_on_loss:
            return
        own = own_end(self.regions.info())
        if own is not None and own[1] < start.get(own[0], 0):
            raise other_history(stream, start[own[0]], *own)

    def _check_named(self, *there: Collection[str]) -> None:
        """Raises PipelineError for a stream that is named, no glob, and not in `there`."""
        for name in self.options.streams:
            if not is_glob(name) and not any(name in streams for streams in there):
                raise PipelineError(
                    f"there is no stream '{printable(name)}' (option streams): add an entry first, "
                    "or give a glob, which may match streams that come later"
                )

    def _is_gone(self, stream: str, logs: dict[str, int]) -> bool:
        """Whether a stream that was read up to `logs` is gone. The region that answers lacks it.

        False if that region has not applied these effects yet: the others may have the stream. So
        it is if nothing of the stream was read. Raises DataLossError for a stream that is gone,
        unless `failOnDataLoss` is false.
        """
        if not logs or not self.regions.holds(logs):
            return False
        if self.options.fail_on_loss:
            raise stream_gone(stream)
        return True

    def ranges(self, start: Offset, end: Offset) -> list[Range]:
        """The ranges between two offsets.

        The logs of a stream that `start` does not name begin at their earliest entries. A log of
        another stream that it does not name begins at 0: all of it is to be read.
        """
        return ranges(self._begin(start, end), end, end.keys() - start.keys())

    def _begin(self, start: Offset, end: Offset) -> Offset:
        begin = dict(start)
        for stream in end:
            if stream not in start:
                logs = self.regions.logs(stream) or []
                begin[stream] = {facts.region: facts.earliest for facts in logs}
        return begin

    # -- limits

    def limited(self, start: Offset, end: Offset, entries_max: int) -> Offset:
        """The largest offset up to `end` with at most `entries_max` entries after `start`.

        Each log gets its share by the number of its entries, of which no more than the limit count.
        """
        waiting: list[tuple[Range, int]] = []
        begin = self._begin(start, end)
        for group in _by_stream(ranges(begin, end)).values():
            # One more than the limit tells a log that fits from one that goes on.
            parts = {one: self._first(one, entries_max + 1) for one in group}
            # Without parts it is gone, or not there yet: `partitions` decides.
            waiting += [(one, part.entries) for one, part in parts.items() if part is not None]
        total = sum(entries for _, entries in waiting)
        if total <= entries_max:
            return end
        # It names every log of a new stream, so that none begins at 0, below what was trimmed.
        there = {one.stream for one, _ in waiting}
        result = joined(begin, {one: logs for one, logs in end.items() if one not in there})
        left = entries_max
        # Shares are rounded up. So the shortest logs come first: otherwise one with few entries
        # would get nothing as long as an earlier one has more than the limit.
        for one, entries in sorted(waiting, key=lambda pair: pair[1]):
            share = min(-(-entries_max * entries // total), left)
            left -= share
            part = self._first(one, share) if share else None
            cut = one.after if part is None else part.counter
            result.setdefault(one.stream, {})[one.region] = cut
        return sorted_offset(result)

    def _first(self, one: Range, count: int) -> Optional[LogPart]:
        return self.regions.first_entries(one.stream, one.region, one.after, one.end, count)

    # -- partitions

    def partitions(self, wanted: list[Range]) -> list[Range]:
        """Cuts ranges into those that tasks read. They cover all entries, each once."""
        applied: dict[Range, int] = {}
        # Their tasks wait for a region that has the stream.
        whole: list[Range] = []
        for stream, group in _by_stream(wanted).items():
            logs = self.regions.logs(stream)
            if logs is not None:
                applied.update(self._applied(logs, group))
            elif not self._is_gone(stream, {one.region: one.end for one in group}):
                whole += group
        pieces = self._pieces(applied, PIECE_BYTES)
        total = sum(part.size for parts in pieces.values() for part in parts)
        size = min(PARTITION_BYTES, max(total // self.options.partitions_min, 1))
        if size < 4 * PIECE_BYTES and len(pieces) < self.options.partitions_min:
            pieces = self._pieces(pieces, size)
        # A stream that is gone since its logs were told has no pieces. Its tasks tell of that.
        whole += [one for one in applied if one not in pieces]
        return whole + [
            cut for one, parts in pieces.items() for cut in grouped(one, parts, size, applied[one])
        ]

    def _applied(self, logs: list[LogFacts], wanted: list[Range]) -> dict[Range, int]:
        """Up to where the region that answers has applied the log of each range of one stream."""
        of_region = {facts.region: facts for facts in logs}
        applied: dict[Range, int] = {}
        for one in wanted:
            facts = of_region.get(one.region)
            if facts is None:
                raise PipelineError(
                    f"the query has read the log of {one.region}, and the regions are "
                    f"{', '.join(of_region)}: its checkpoint is of another cluster"
                )
            applied[one] = facts.applied
            if one.is_new or not self.options.fail_on_loss:
                continue
            if facts.is_removed_since(one.after):
                raise removed_early(one, facts)
            if facts.trimmed > one.after:
                raise trimmed_early(one, one.after, facts.trimmed)
        return applied

    def _pieces(self, wanted: Iterable[Range], size: int) -> dict[Range, list[LogPart]]:
        """The pieces of ranges, without those of streams that are gone."""
        found: dict[Range, list[LogPart]] = {}
        for one in wanted:
            parts = self.regions.parts(one.stream, one.region, one.after, one.end, "BYTES", size)
            if parts is not None:
                found[one] = parts
        return found


def _by_stream(wanted: list[Range]) -> dict[str, list[Range]]:
    found: dict[str, list[Range]] = {}
    for one in wanted:
        found.setdefault(one.stream, []).append(one)
    return found


def grouped(one: Range, parts: list[LogPart], size: int, applied: int) -> list[Range]:
    """Joins the pieces of a range to partitions of about `size` bytes.

    A range without entries needs no task if the region that was asked, which has applied the log up
    to `applied`, holds all of it.
    """
    found: list[Range] = []
    after, entries, collected = one.after, 0, 0
    for part in parts:
        entries += part.entries
        collected += part.size
        if collected * 4 >= size * 3 or part.counter == one.end:
            if entries or applied < part.counter:
                found.append(one.part(after, part.counter))
            after, entries, collected = part.counter, 0, 0
    return found


def ranges(start: Offset, end: Offset, new: Collection[str] = ()) -> list[Range]:
    """The ranges between two offsets; a log that `start` does not name begins at 0.

    `new`: the streams of which the query has read nothing.
    """
    return [
        Range(stream, region, start.get(stream, {}).get(region, 0), counter, stream in new)
        for stream, logs in sorted(end.items())
        for region, counter in sorted(logs.items())
        if counter > start.get(stream, {}).get(region, 0)
    ]


def check_order(start: Offset, end: Offset) -> None:
    """Raises OptionError if a batch query would end before it starts."""
    for stream, logs in start.items():
        for region, counter in logs.items():
            last: Optional[int] = end.get(stream, {}).get(region, 0)
            if last is not None and counter > last:
                raise OptionError(
                    f"startingOffsets ({counter}) lie above endingOffsets ({last}) "
                    f"in the log of {region} in '{printable(stream)}'"
                )


def _reached(facts: LogFacts, begin: Optional[dict[str, int]]) -> int:
    """Where the next micro-batch ends in a log. `begin`: where it begins in the logs of the stream.

    The counters of a region count its effects in all streams. A log that has nothing new stays
    where it was. Otherwise each effect in another stream would make a micro-batch without entries,
    and a query that writes to the same cluster would never rest. So a log of a new stream without
    entries stays at 0: a region that has applied all of it, and lacks the stream, would say that
    the stream is gone.
    """
    reached = (begin or {}).get(facts.region, 0)
    return facts.applied if max(facts.last, facts.trimmed) > reached else reached


def _counter(point: Point, facts: LogFacts, is_begin: bool) -> int:
    """The counter of a point. `is_begin`: it is where a query begins.

    A log that never had an entry begins at 0, also with `latest`. A counter in the offset says that
    the query has read a log, which is missed when it is gone.
    """
    if isinstance(point, int):
        return point
    if point == EARLIEST:
        return facts.earliest
    return 0 if is_begin and facts.began == 0 else facts.applied
