"""The errors that name entries which a query cannot read any more, and why."""

from __future__ import annotations

from anabranch.pipeline.errors import DataLossError, OptionError
from anabranch.pipeline.offsets import Range
from anabranch.pipeline.regions import LogFacts
from anabranch.pipeline.resp import printable


def trimmed_early(one: Range, reached: int, trimmed: int) -> DataLossError:
    """The error for a range that was read up to `reached` and then trimmed up to `trimmed`."""
    return DataLossError(
        f"entries of {one.region} in the stream '{printable(one.stream)}' were trimmed, or removed "
        f"with the stream, before they were read: those with counters above {reached} and up to "
        f"{trimmed}. Read more often, or trim less; with failOnDataLoss false the query goes on "
        "without them"
    )


def removed_early(one: Range, facts: LogFacts) -> DataLossError:
    """The error for a range whose stream was removed, and added to again, since it was read."""
    end = facts.began - 1 if facts.began else facts.applied
    return DataLossError(
        f"the stream '{printable(one.stream)}' was deleted, renamed or flushed, or it expired, and "
        f"was added to again: its entries of {one.region} with counters above {one.after} and up "
        f"to {end} are gone, if they were not read. With failOnDataLoss false the query goes on"
    )


def lost_before(one: Range, applied: int) -> DataLossError:
    """The error for a range of a lost region: its effects above `applied` were lost with it."""
    return DataLossError(
        f"{one.region} was declared lost, and the regions of endpoints have its effects only up to "
        f"{applied}: entries with counters above that and up to {one.end} are lost, if there "
        f"were any in the stream '{printable(one.stream)}'; with failOnDataLoss false the query "
        "goes on without them"
    )


def above_the_end(stream: str, given: int, facts: LogFacts) -> OptionError:
    """The error for a place of `startingOffsets` that a log has not reached."""
    return OptionError(
        f"startingOffsets: {given} lies above the end of the log of {facts.region} in "
        f"'{printable(stream)}', which is {facts.applied} in the region that is read. The query "
        f"would skip the entries up to {given} when they come. Give a place up to {facts.applied}, "
        "or latest. If the region that is read lacks effects that another region has, wait until "
        "it has received them, or name the other one as readRegion. If "
        f"{facts.region} was restored from a backup, it uses "
        "the counters above the backup again: give a place that the backup holds, or earliest"
    )


def other_history(stream: str, reached: int, region: str, end: int) -> DataLossError:
    """The error for a region that has issued fewer effects than were read of its log."""
    return DataLossError(
        f"the log of {region} in '{printable(stream)}' was read up to {reached}, and "
        f"{region} has effects up to {end}: the cluster was made anew, or "
        f"{region} was restored from a backup. The query would skip what {region} adds "
        f"up to {reached}. Give it a new checkpoint; with failOnDataLoss false it goes on"
    )


def stream_gone(stream: str) -> DataLossError:
    return DataLossError(
        f"the stream '{printable(stream)}' is gone: it was deleted, or it expired. Entries that "
        "were not read yet are lost. With failOnDataLoss false the query goes on"
    )
