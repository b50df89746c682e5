"""The trace of a run: its events in order, hashed for every run, printed when one is replayed."""

from __future__ import annotations

import marshal
from collections.abc import Callable
from typing import Any, Optional

from xxhash import xxh3_64

from anabranch.region.engine.replies import (
    ErrorReply,
    MapReply,
    NullArray,
    SetReply,
    SimpleString,
    VerbatimText,
)

_CHUNK = 256


class Trace:
    """Lines (at_ms, region_id or 0, event, details …).

    Details are numbers, bytes, texts, and tuples and dicts of them.
    """

    def __init__(self, tell: Optional[Callable[[tuple[Any, ...]], None]] = None) -> None:
        self._tell = tell
        self.is_told = tell is not None
        self._lines: list[tuple[Any, ...]] = []
        self._hash = xxh3_64()

    def note(self, line: tuple[Any, ...]) -> None:
        if self._tell is not None:
            self._tell(line)
        self._lines.append(line)
        if len(self._lines) >= _CHUNK:
            self._fold()

    def aside(self, at_ms: int, region: int, what: str, *details: Any) -> None:
        """A line that is printed and not hashed, because it follows from other lines.

        Its details may be any objects.
        """
        if self._tell is not None:
            self._tell((at_ms, region, what, *details))

    def digest(self) -> str:
        """16 hex digits over everything noted so far."""
        self._fold()
        return str(self._hash.hexdigest())

    def _fold(self) -> None:
        # marshal version 2: later versions write references, which depend on other holders of an
        # object.
        self._hash.update(marshal.dumps(self._lines, 2))
        self._lines = []


def plain(reply: Any) -> Any:
    """A reply as a value that a trace may hold."""
    if isinstance(reply, list):
        return [plain(item) for item in reply]
    if isinstance(reply, ErrorReply):
        return "-" + reply.message
    if isinstance(reply, (SimpleString, VerbatimText)):
        return reply.text
    if isinstance(reply, MapReply):
        return [plain(item) for item in reply.flat]
    if isinstance(reply, SetReply):
        return [plain(item) for item in reply.items]
    if isinstance(reply, NullArray):
        return None
    return reply
