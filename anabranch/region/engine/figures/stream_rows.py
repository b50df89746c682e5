"""Rows about single streams and groups, as many as crdt-metrics-streams-max allows.

Names of keys come from clients, so the number and the length of label values are bounded. If there
are more streams than the limit, those with the most entries are shown; of groups, those of the
streams that are shown, until the limit is reached.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from typing import Final

from xxhash import xxh3_64_hexdigest

from anabranch.crdt import undelivered
from anabranch.crdt.groups import Group
from anabranch.crdt.stream import Stream
from anabranch.escapes import shown
from anabranch.region.engine.figures.figure import GAUGE, Figure, Labelled, Values, View

# Most characters of a label value.
_LABEL_MAX: Final = 100


def label_of(name: bytes) -> str:
    """The label value of a key or of a group.

    Backslashes, control characters and bytes that are not UTF-8 are escaped. A long name is cut,
    and a hash follows, so that different names have different label values.
    """
    text = shown(name)
    if len(text) > _LABEL_MAX:
        text = f"{text[:_LABEL_MAX]}…{xxh3_64_hexdigest(name)}"
    return text


def _shown(view: View) -> list[Stream]:
    """The streams that have metrics of their own, the longest first."""
    state = view.state
    most = state.settings.integer("crdt-metrics-streams-max")
    if most == 0:
        return []
    clock_ms = state.clock.now_ms
    existing = [one for one in state.keyspace.keys.values() if one.exists_at(clock_ms)]
    return heapq.nsmallest(most, existing, key=_longest_first)


def _longest_first(stream: Stream) -> tuple[int, bytes]:
    return -stream.length(), stream.key


def _shown_groups(view: View) -> Iterator[tuple[Stream, bytes, Group]]:
    left = view.state.settings.integer("crdt-metrics-streams-max")
    for stream in _shown(view):
        for name in sorted(stream.group_names()):
            if left == 0:
                return
            left -= 1
            yield stream, name, stream.groups[name]


def _of_groups(view: View, read: Callable[[Stream, Group], int]) -> Values:
    return [
        ({"stream": label_of(stream.key), "group": label_of(name)}, float(read(stream, group)))
        for stream, name, group in _shown_groups(view)
    ]


def _lengths(view: View) -> Values:
    return [({"stream": label_of(one.key)}, float(one.length())) for one in _shown(view)]


def _pending(stream: Stream, group: Group) -> int:
    return group.delivery.pel.length


STREAMS: Final[list[Figure]] = [
    Labelled(
        "stream_entries",
        GAUGE,
        "entries",
        "Entries of a stream (crdt-metrics-streams-max).",
        ("stream",),
        _lengths,
    ),
    Labelled(
        "group_lag_entries",
        GAUGE,
        "entries",
        "Entries that a group would still deliver here (crdt-metrics-streams-max).",
        ("stream", "group"),
        lambda view: _of_groups(view, undelivered.lag),
    ),
    Labelled(
        "group_pending_entries",
        GAUGE,
        "entries",
        "Entries of a group that were delivered here and not acknowledged"
        " (crdt-metrics-streams-max).",
        ("stream", "group"),
        lambda view: _of_groups(view, _pending),
    ),
]
