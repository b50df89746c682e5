"""The acknowledgements that a round announces (S8.1).

A round announces only contiguous runs, so most acknowledgements cost no replication.
"""

from __future__ import annotations

from anabranch.crdt.cursor import LogCursor
from anabranch.crdt.groups import Group
from anabranch.crdt.region_log import RegionLog
from anabranch.crdt.spans import Spans, SpansByRegion
from anabranch.crdt.stream import Stream


def announceable(stream: Stream, group: Group) -> SpansByRegion:
    """Returns the runs to announce, per region log; empty when there are none."""
    result: SpansByRegion = {}
    group.delivery.forget_dropped(stream.logs)
    for region_id in group.delivery.given:
        log = stream.find_log(region_id)
        if log is not None and log.length:
            runs = _runs(group, log)
            if runs:
                result[region_id] = runs
    return result


def _runs(group: Group, log: RegionLog) -> Spans:
    """Returns the runs of one region log."""
    acked = group.acked(log.region_id)
    begins = {group.start_counter(log), group.floor_counter(log)}
    begins.update(acked.ends)
    begins.update(group.delivery.dropped.get(log.region_id, ()))
    runs = Spans()
    for begin in sorted(begins):
        _extend(group, log, acked, begin, runs)
    return runs


def _extend(group: Group, log: RegionLog, acked: Spans, begin: int, runs: Spans) -> None:
    """Adds to `runs` the run that begins after counter `begin`.

    A run holds entries that are given here, not pending, not dropped and not yet acked. The run
    stops at an acked entry. Another run begins at the end of that acked span, so the union of the
    runs is complete.
    """
    region_id = log.region_id
    delivery = group.delivery
    given = delivery.given[region_id]
    cursor = LogCursor(log)
    cursor.seek_counter(begin)
    end = 0
    end_id = 0
    while cursor.valid:
        counter = cursor.counter
        if (
            acked.contains(counter)
            or not given.contains(counter)
            or delivery.is_dropped(region_id, counter)
        ):
            break
        entry_id = cursor.id()
        if delivery.pel.contains(region_id, counter, entry_id):
            break
        end = counter
        end_id = entry_id
        cursor.step()
    runs.add(begin, end, end_id)
