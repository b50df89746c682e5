"""The window of a stream: how long, and how many rows of a producer, it recognises (S9.1, S9.3).

A row that is repeated within the window is not added again. So the sink adds nothing to a stream
whose window is shorter than `windowSeconds`.

A change of the window clears the pairs that a region has seen (S9.4), and rows that wait for their
repetition would then be added twice. So the sink sets a window only while the stream holds no
pairs. The check and the change are one transaction.
"""

from __future__ import annotations

from typing import Final

from anabranch.pipeline.errors import PipelineError
from anabranch.pipeline.pairs import MAXSIZE
from anabranch.pipeline.resp import Connection, RefusedCommand, named, printable
from anabranch.pipeline.sink_options import SinkOptions

_TRIES: Final = 20


class WindowError(PipelineError):
    """A stream recognises rows for too short a time, or too few of them."""


class Window:
    """The window of a stream in one region. `pairs` is the number of pairs that answer retries.

    `exists`: whether the region has the stream. If not, its default values hold.
    """

    def __init__(self, duration_s: int, maxsize: int, pairs: int, exists: bool) -> None:
        self.duration_s: Final = duration_s
        self.maxsize: Final = maxsize
        self.pairs: Final = pairs
        self.exists: Final = exists

    def suffices(self, window_s: int) -> bool:
        """Whether rows are recognised for that many seconds, and enough of them."""
        return self.duration_s >= window_s and self.maxsize >= MAXSIZE


def window_of(connection: Connection, stream: bytes) -> Window:
    """The window of a stream. Raises RegionGone or RefusedCommand."""
    try:
        facts = named(connection.call("XINFO", "STREAM", stream))
    except RefusedCommand as error:
        if not error.is_no_key():
            raise
        settings = named(connection.call("CONFIG", "GET", "stream-idmp-*"))
        return Window(
            int(settings["stream-idmp-duration"]), int(settings["stream-idmp-maxsize"]), 0, False
        )
    return Window(
        int(facts["idmp-duration"]), int(facts["idmp-maxsize"]), int(facts["iids-tracked"]), True
    )


def checked_window(
    connection: Connection, stream: bytes, options: SinkOptions, may_set: bool
) -> Window:
    """The window of a stream, once it suffices; sets it if the options ask for it and `may_set`.

    Raises WindowError, which says what to type, and RegionGone or RefusedCommand.
    """
    for _ in range(_TRIES):
        connection.call("WATCH", stream)
        window = window_of(connection, stream)
        if window.suffices(options.window_s):
            connection.call("UNWATCH")
            return window
        if not (may_set and options.sets_window) or window.pairs:
            connection.call("UNWATCH")
            raise WindowError(_advice(stream, window, options))
        # If the transaction fails, the stream was changed meanwhile: look again.
        _set(connection, stream, window, options)
    raise WindowError(
        f"the window of the stream '{printable(stream)}' could not be set, because it was written "
        "to all the time: " + _command(stream, window, options)
    )


def _set(connection: Connection, stream: bytes, window: Window, options: SinkOptions) -> None:
    connection.call("MULTI")
    if not window.exists:
        # XCFGSET needs a stream. This one is empty: no other command makes one without a group.
        connection.call("XADD", stream, "MAXLEN", "=", 0, "*", "anabranch", "window")
    duration_s, maxsize = _wanted(window, options)
    connection.call("XCFGSET", stream, "IDMP-DURATION", duration_s, "IDMP-MAXSIZE", maxsize)
    connection.call("EXEC")


def _wanted(window: Window, options: SinkOptions) -> tuple[int, int]:
    """The duration in s and maxsize that suffice; neither is made smaller."""
    return max(window.duration_s, options.window_s), max(window.maxsize, MAXSIZE)


def _command(stream: bytes, window: Window, options: SinkOptions) -> str:
    duration_s, maxsize = _wanted(window, options)
    return f"XCFGSET {printable(stream)} IDMP-DURATION {duration_s} IDMP-MAXSIZE {maxsize}"


def _advice(stream: bytes, window: Window, options: SinkOptions) -> str:
    """What is wrong with a window, and what to do."""
    text = (
        f"the stream '{printable(stream)}' recognises a row for {window.duration_s} s and "
        f"{window.maxsize} rows of a producer, but windowSeconds is {options.window_s}, and the "
        f"sink needs {MAXSIZE} rows"
    )
    if not window.exists:
        return (
            f"{text}. The stream does not exist yet: give setWindow=true, which creates it so, or "
            f"create it and type {_command(stream, window, options)}"
        )
    if not window.pairs:
        return f"{text}: type {_command(stream, window, options)}, or give setWindow=true"
    return (
        f"{text}. It holds {window.pairs} pairs, which a change would clear, so setWindow does not "
        "change it. Stop all producers that may repeat an add, let queries finish the batch that "
        f"they have begun, and type {_command(stream, window, options)}"
    )
