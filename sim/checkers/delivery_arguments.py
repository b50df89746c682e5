"""A naive parser of group commands and their replies, for commands that a region accepted."""

from __future__ import annotations

from anabranch.region.engine.replies import MapReply, NullArray, Reply
from anabranch.sim.history import Words
from anabranch.sim.oracle.arguments import MAX_ID, entry_id, lower_bound, number


class ReadRequest:
    """The arguments of XREAD and XREADGROUP."""

    __slots__ = ("consumer", "count", "group", "ids", "keys", "no_ack")

    def __init__(self, words: Words) -> None:
        self.count = 0  # 0: no limit
        self.no_ack = False
        self.group = b""
        self.consumer = b""
        index = 1
        while words[index].upper() != b"STREAMS":
            option = words[index].upper()
            if option == b"GROUP":
                self.group, self.consumer = words[index + 1], words[index + 2]
                index += 3
            elif option == b"NOACK":
                self.no_ack = True
                index += 1
            else:
                if option == b"COUNT":
                    self.count = max(number(words[index + 1]), 0)
                index += 2
        rest = words[index + 1 :]
        half = len(rest) // 2
        self.keys = rest[:half]
        self.ids = rest[half:]


class ClaimRequest:
    """The arguments of XCLAIM after the consumer. `clock_ms`: the region's clock."""

    __slots__ = ("force", "ids", "just_id", "last_id", "min_idle_ms", "retry_count", "since_ms")

    def __init__(self, words: Words, clock_ms: int) -> None:
        self.min_idle_ms = max(number(words[4]), 0)
        self.ids: list[int] = []
        self.force = self.just_id = False
        self.retry_count = -1
        self.last_id = 0
        since_ms = -1
        index = 5
        while index < len(words) and words[index][:1].isdigit():
            self.ids.append(entry_id(words[index]))
            index += 1
        while index < len(words):
            option = words[index].upper()
            if option in (b"FORCE", b"JUSTID"):
                self.force = self.force or option == b"FORCE"
                self.just_id = self.just_id or option == b"JUSTID"
                index += 1
                continue
            value = words[index + 1]
            if option == b"IDLE":
                since_ms = clock_ms - number(value)
            elif option == b"TIME":
                since_ms = number(value)
            elif option == b"RETRYCOUNT":
                self.retry_count = number(value)
            else:
                self.last_id = entry_id(value)
            index += 2
        # The delivery time of claimed entries, never in the future; now if IDLE and TIME are
        # missing or out of range.
        self.since_ms = since_ms if 0 <= since_ms <= clock_ms else clock_ms


class AutoclaimRequest:
    """The arguments of XAUTOCLAIM after the consumer."""

    __slots__ = ("count", "just_id", "min_idle_ms", "start")

    def __init__(self, words: Words) -> None:
        self.min_idle_ms = max(number(words[4]), 0)
        self.start = lower_bound(words[5]) if words[5] != b"+" else MAX_ID
        self.count = 100
        self.just_id = False
        index = 6
        while index < len(words):
            if words[index].upper() == b"COUNT":
                self.count = number(words[index + 1])
                index += 1
            else:
                self.just_id = True
            index += 1


def fields_of_map(reply: Reply) -> dict[bytes, Reply]:
    """A map reply of RESP2 or RESP3 as a dict."""
    flat = reply.flat if isinstance(reply, MapReply) else reply
    assert isinstance(flat, list)
    return {
        name: flat[index + 1]
        for index in range(0, len(flat), 2)
        if isinstance(name := flat[index], bytes)
    }


def is_null(reply: Reply) -> bool:
    return reply is None or isinstance(reply, NullArray)


def readable(words: Words) -> str:
    """A command as text for messages."""
    return " ".join(word.decode("utf-8", "backslashreplace") for word in words)


def last_id(entries: list[Reply]) -> int:
    """The ID of the last entry of a non-empty list."""
    item = entries[-1]
    assert isinstance(item, list) and isinstance(item[0], bytes)
    return entry_id(item[0])
