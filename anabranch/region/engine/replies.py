"""Replies of commands, as values; `region.resp.encoder` encodes them as RESP2 or RESP3.

A reply is one of: `None` (null), `int`, `float` (RESP3 double, RESP2 bulk string), `bool` (RESP3
boolean, RESP2 1/0), `bytes` (bulk string), `list` (array of replies), or one of the classes below.
Command handlers choose the type, never the bytes. Only `AddedIds` stands for several replies.
"""

from __future__ import annotations

from typing import Final, Union

from anabranch.crdt import ids
from anabranch.crdt.pel_slices import PendingSlice
from anabranch.crdt.place import Place
from anabranch.crdt.slices import Entries
from anabranch.crdt.spans import SpansByRegion
from anabranch.crdt.vector import Vector


class SimpleString:
    """A RESP simple string such as ``+OK``."""

    def __init__(self, text: bytes) -> None:
        self.text: Final = text


class ErrorReply:
    """A RESP error.

    `message` begins with its code, e.g. ``ERR syntax error``, without the leading ``-``.
    `reflects_nothing`: it depends on no state of the region except that its disk fails (S13.4).
    """

    def __init__(self, message: str, reflects_nothing: bool = False) -> None:
        self.message: Final = message
        self.reflects_nothing: Final = reflects_nothing


class NullArray:
    """RESP2 ``*-1``; RESP3 ``_``."""


class MapReply:
    """A RESP3 map; RESP2 a flat array. `flat` holds key, value, key, value, …"""

    def __init__(self, flat: list[Reply]) -> None:
        self.flat: Final = flat


class SetReply:
    """A RESP3 set; RESP2 an array."""

    def __init__(self, items: list[Reply]) -> None:
        self.items: Final = items


class EntriesReply:
    """An array of entries, each of which is [ID, [field, value, …]]. They change no more."""

    def __init__(self, entries: Entries) -> None:
        self.entries: Final = entries

    def listed(self) -> Reply:
        """Returns the same reply as lists."""
        return [[ids.format_id(entry.entry_id), [*entry.fields]] for entry in self.entries.listed()]


class PendingReply:
    """An array of pending entries, each of which is [ID, consumer, idle ms, deliveries].

    They change no more. `now_ms`: the time up to which they are idle.
    """

    def __init__(self, now_ms: int) -> None:
        self.now_ms: Final = now_ms
        self.slices: Final[list[PendingSlice]] = []
        self.count = 0

    def add(self, entries: PendingSlice) -> None:
        """Adds entries above those before."""
        self.slices.append(entries)
        self.count += entries.size()

    def ends_with(self, entry_id: int) -> bool:
        """Whether the last entry has this ID."""
        return bool(self.slices) and self.slices[-1].last_id() == entry_id

    def idle_ms(self, delivered_ms: int) -> int:
        """How long an entry delivered at this time has been idle."""
        return max(self.now_ms - delivered_ms, 0)

    def listed(self) -> Reply:
        """Returns the same reply as lists."""
        rows: list[Reply] = []
        for piece in self.slices:
            for one in piece.listed():
                row: list[Reply] = [ids.format_id(one.entry_id), one.consumer]
                rows.append([*row, self.idle_ms(one.delivered_ms), one.deliveries])
        return rows


class AddedIds:
    """The replies to `count` adds: IDs of one ms, at intervals of `SEQ_STRIDE`, as bulk strings."""

    def __init__(self, ms: int, first_seq: int, count: int) -> None:
        self.ms: Final = ms
        self.first_seq: Final = first_seq
        self.count: Final = count


class VerbatimText:
    """A RESP3 verbatim string of type ``txt``; RESP2 a bulk string."""

    def __init__(self, text: bytes) -> None:
        self.text: Final = text


class ReplyLater:
    """Not a reply: the reply follows through `ClientCalls.take_replies`.

    A blocked command returns it, and a command that waits for a commit.
    """


class NoReply:
    """No reply is sent (CLIENT REPLY OFF and SKIP)."""


Reply = Union[
    None,
    int,
    float,
    bool,
    bytes,
    "list[Reply]",
    SimpleString,
    ErrorReply,
    NullArray,
    MapReply,
    SetReply,
    EntriesReply,
    PendingReply,
    AddedIds,
    VerbatimText,
    ReplyLater,
    NoReply,
]

OK: Final = SimpleString(b"OK")
QUEUED: Final = SimpleString(b"QUEUED")
PONG: Final = SimpleString(b"PONG")
NULL_ARRAY: Final = NullArray()
REPLY_LATER: Final = ReplyLater()
NO_REPLY: Final = NoReply()


def listed(reply: Reply) -> Reply:
    """A reply in which lists stand for entries, for those that look into replies."""
    if isinstance(reply, (EntriesReply, PendingReply)):
        return reply.listed()
    if isinstance(reply, list):
        return [listed(item) for item in reply]
    if isinstance(reply, MapReply):
        return MapReply([listed(item) for item in reply.flat])
    return reply


def flat_spans(spans: SpansByRegion) -> Reply:
    """Spans as an array of [region_id, from, to]: the counters above `from` and up to `to`."""
    return [
        [region_id, spans[region_id].starts[index], spans[region_id].ends[index]]
        for region_id in sorted(spans)
        for index in range(len(spans[region_id].starts))
    ]


def flat_vector(vector: Vector) -> list[Reply]:
    """A vector as a flat reply: region_id, counter, …, by ascending region_id."""
    flat: list[Reply] = []
    for region_id in sorted(vector):
        if vector[region_id]:
            flat += [region_id, vector[region_id]]
    return flat


def place_reply(place: Place) -> Reply:
    """A place as an entry ID, or as a flat vector of counters."""
    return ids.format_id(place.entry_id) if place.is_id else flat_vector(place.counters)


def shown(data: bytes) -> str:
    """Bytes from a client as text for an error message, from which the encoder makes them again."""
    return data.decode("utf-8", "surrogateescape")


def wrong_arity_text(name: str) -> str:
    """Redis's error text for a wrong number of arguments; `name` is in lower case."""
    return f"ERR wrong number of arguments for '{name}' command"


class CommandError(Exception):
    """A client error. `message` is the RESP error for the client, e.g. ``ERR syntax error``."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message: Final = message
