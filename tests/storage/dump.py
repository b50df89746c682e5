"""The state of a region that a start must find again, as plain values.

The values are read attribute by attribute. The module shares no code with the encoders.
"""

from __future__ import annotations

from typing import Any

from anabranch.crdt.cursor import LogCursor
from anabranch.crdt.delivery import Delivery
from anabranch.crdt.keyspace import Keyspace
from anabranch.crdt.pel import Pel
from anabranch.crdt.place import Place
from anabranch.crdt.region_log import RegionLog
from anabranch.crdt.spans import SpansByRegion
from anabranch.crdt.stream import Stream

Plain = dict[str, Any]

# State that is kept until it is causally stable, and then dropped without a row in the log. A start
# may find such state again, and a checkpoint made since the last commit may lack it.
UNTIL_STABLE = ("tombstones", "tombstone_of_all", "clears", "touched", "pairs")


def of_keyspace(keyspace: Keyspace) -> Plain:
    return {
        "vector": dict(keyspace.vector),
        "chains": dict(keyspace.chains),
        "flush_tombstone": dict(keyspace.flush_tombstone),
        "flush_clears": dict(keyspace.flush_clears),
        "keys": {key: of_stream(stream) for key, stream in sorted(keyspace.keys.items())},
    }


def of_stream(stream: Stream) -> Plain:
    return {
        "logs": {
            region_id: _log(log) for region_id, log in sorted(stream.logs.items()) if log.length
        },
        "header": dict(sorted(stream.header.heads.items())),
        "groups": {
            name: {
                "creates": {
                    dot: (_place(create.start), _spans(create.acked))
                    for dot, create in sorted(group.creates.items())
                },
                "delivery": _delivery(group.delivery, stream),
            }
            for name, group in sorted(stream.groups.items())
        },
        "deadlines": dict(sorted(stream.deadlines.items())),
        "configurations": dict(sorted(stream.configurations.items())),
        "tombstones": {name: dict(vector) for name, vector in sorted(stream.tombstones.items())},
        "tombstone_of_all": dict(stream.tombstone_of_all),
        "clears": dict(stream.clears),
        "touched": dict(stream.header.touched),
        "pairs": {
            pid: [
                (
                    pair.iid,
                    pair.dot,
                    pair.entry_id,
                    pair.recorded_ms,
                    dict(pair.vector),
                    pair.is_retired,
                    pair.held_ms,
                )
                for pair in producer.everything()
            ]
            for pid, producer in sorted(stream.pairs.producers.items())
        },
        "statistics": (stream.entries_added, stream.max_deleted_id, stream.iids_added),
    }


def _log(log: RegionLog) -> list[tuple[int, int, list[bytes]]]:
    entries = []
    cursor = LogCursor(log)
    cursor.seek_counter(0)
    while cursor.valid:
        entries.append((cursor.counter, cursor.id(), cursor.fields()))
        cursor.step()
    assert len(entries) == log.length
    return entries


def _place(place: Place) -> tuple[bool, int, dict[int, int]]:
    return place.is_id, place.entry_id, dict(place.counters)


def _spans(spans: SpansByRegion) -> dict[int, list[tuple[int, int, int]]]:
    return {
        region_id: list(zip(one.starts, one.ends, one.end_ids, strict=True))
        for region_id, one in sorted(spans.items())
        if one
    }


def _delivery(delivery: Delivery, stream: Stream) -> Plain:
    # A deleted entry does not count as dropped (S8.1), so `dropped` may lose it at any time.
    dropped = {
        region_id: sorted(
            counter
            for counter in counters
            if region_id in stream.logs and stream.logs[region_id].has_counter(counter)
        )
        for region_id, counters in sorted(delivery.dropped.items())
    }
    return {
        "floor": None if delivery.floor is None else _place(delivery.floor),
        "raised_id": delivery.raised_id,
        "given": _spans(delivery.given),
        "dropped": {region_id: counters for region_id, counters in dropped.items() if counters},
        "entries_read": delivery.entries_read,
        "pel": _pel(delivery.pel),
        # `seen_ms`, the time when a consumer was last seen, is volatile: no log row holds it.
        "consumers": {
            name: (one.active_ms, delivery.pel.length_of(name))
            for name, one in sorted(delivery.consumers.items())
        },
    }


def _pel(pel: Pel) -> list[tuple[int, int, int, bytes, int, int]]:
    return [
        (one.entry_id, one.region_id, one.counter, one.consumer, one.delivered_ms, one.deliveries)
        for one in pel.ascending()
    ]


def differences(found: Plain, expected: Plain, collects: bool, over_ms: int) -> list[str]:
    """The differences between two states, a text each; empty if a start found everything.

    If `collects`, the parts in `UNTIL_STABLE` are not compared, except pairs that still answer a
    retry: these are not retired and are held since after `over_ms`.
    """
    told: list[str] = []
    for name in ("vector", "chains"):
        _compare(told, name, found[name], expected[name])
    for name in ("flush_tombstone", "flush_clears"):
        if not collects:
            _compare(told, name, found[name], expected[name])
    for key in sorted({**found["keys"], **expected["keys"]}):
        ours = found["keys"].get(key)
        theirs = expected["keys"].get(key)
        if ours is None:
            if collects and not any(
                value for part, value in theirs.items() if part not in (*UNTIL_STABLE, "statistics")
            ):
                continue
            told.append(f"{key!r} is lost: {theirs}")
            continue
        if theirs is None and not collects:
            told.append(f"{key!r} is found and not expected: {ours}")
            continue
        for part, value in ours.items():
            wanted: Any = None if theirs is None else theirs[part]
            if collects and part in UNTIL_STABLE:
                if theirs is not None and part == "pairs":
                    lost = [
                        pair
                        for pid in wanted
                        for pair in wanted[pid]
                        if pair not in value.get(pid, []) and pair[-1] > over_ms and not pair[-2]
                    ]
                    _compare(told, f"{key!r} {part}", lost, [])
                continue
            if theirs is None:
                if part != "statistics" and value:
                    told.append(f"{key!r} {part} is found and not expected: {value}")
            else:
                _compare(told, f"{key!r} {part}", value, wanted)
    return told


def _compare(told: list[str], what: str, found: object, expected: object) -> None:
    if found != expected:
        told.append(f"{what}:\n    found    {found}\n    expected {expected}")
