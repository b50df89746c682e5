"""The progress of a streaming query in its sink: which batches were begun, and which are done.

A small stream for each query, `anabranch:sink:ID`, holds it:

- `begun`: the number of a batch, and the time of the region in ms at which it was begun. Each task
  adds it before its first row, unless it is there.
- `done`: the number of a batch that Spark has committed, with the number and the sum of its rows.

A region recognises the rows of a batch as long as its window is. If a batch is repeated later, this
stream tells whether its rows were added. Without it, Spark would add them again.
"""

from __future__ import annotations

from typing import Final, Optional

from anabranch.pipeline.errors import PipelineError
from anabranch.pipeline.resp import Connection, ReplyValue

# What the names of the streams of sinks begin with.
SINK_PREFIX: Final = "anabranch:sink:"
# More than the regions and batches whose entries may be the newest at a time.
_KEPT: Final = 64


class Done:
    """A batch that is done: the number of its rows, and their sum (`Pairs.sum`)."""

    def __init__(self, rows: int, total: int) -> None:
        self.rows: Final = rows
        self.total: Final = total


class Progress:
    """What the newest entries say about one batch.

    `begun_ms`: the earliest time at which it was begun. `is_done`: whether it or a later one is
    done. `done`: the facts about it, if they are still there.
    """

    def __init__(self, begun_ms: Optional[int], is_done: bool, done: Optional[Done]) -> None:
        self.begun_ms: Final = begun_ms
        self.is_done: Final = is_done
        self.done: Final = done


def progress_key(query: str) -> str:
    """The name of the stream with the progress of a query."""
    return SINK_PREFIX + query


def read_progress(connection: Connection, query: str, batch: int) -> Progress:
    """The progress of a batch, as the region knows it. Raises RegionGone or RefusedCommand."""
    reply = connection.call("XREVRANGE", progress_key(query), "+", "-", "COUNT", _KEPT)
    begun: list[int] = []
    done: dict[int, Done] = {}
    for fields in _entries(reply):
        number = int(fields[b"batch"])
        if b"at" in fields and number == batch:
            begun.append(int(fields[b"at"]))
        elif b"rows" in fields:
            done[number] = Done(int(fields[b"rows"]), int(fields[b"sum"]))
    return Progress(
        min(begun, default=None), any(number >= batch for number in done), done.get(batch)
    )


def begin(connection: Connection, query: str, batch: int, at_ms: int) -> None:
    """Notes that a batch was begun. Raises RegionGone or RefusedCommand."""
    _note(connection, query, f"begun-{batch}", "batch", batch, "at", at_ms)


def finish(connection: Connection, query: str, batch: int, done: Done) -> None:
    """Notes that a batch is done. Raises RegionGone or RefusedCommand."""
    _note(connection, query, f"done-{batch}", "batch", batch, "rows", done.rows, "sum", done.total)


def _note(connection: Connection, query: str, what: str, *fields: str | int) -> None:
    # Tasks do this at the same time: IDMP lets one of them add.
    words = ("MAXLEN", "=", _KEPT, "IDMP", query, what, "*", *fields)
    connection.call("XADD", progress_key(query), *words)


def region_ms(connection: Connection) -> int:
    """The clock of a region in ms. Raises RegionGone or RefusedCommand."""
    reply = connection.call("TIME")
    assert isinstance(reply, list)
    seconds, micros = (int(part) for part in reply if isinstance(part, bytes))
    return seconds * 1000 + micros // 1000


def other_rows(batch: int, query: str, then: Done, now: Done) -> PipelineError:
    """The error for a batch that is repeated with other rows than those that were added."""
    return PipelineError(
        f"batch {batch} was done with {then.rows} rows, and is repeated with "
        f"{'other' if then.rows == now.rows else now.rows} rows: nothing was added. The files of "
        "the checkpoint were changed, or the query gives other rows each time (rand, uuid). Start "
        "with a new checkpoint, or delete the stream "
        f"{progress_key(query)} to have these rows added as well"
    )


def too_old(batch: int, query: str) -> PipelineError:
    """The error for a batch that is repeated when its facts are no longer in the stream."""
    return PipelineError(
        f"batch {batch} was done long ago, and is repeated: nothing was added. Perhaps an old "
        "checkpoint was put back, whose batches may have other rows now. Start with a new "
        f"checkpoint, or delete the stream {progress_key(query)} to have these rows added as well"
    )


def _entries(reply: ReplyValue) -> list[dict[bytes, bytes]]:
    """The fields of the entries of XREVRANGE."""
    found = []
    for entry in reply if isinstance(reply, list) else []:
        if isinstance(entry, list) and isinstance(entry[1], list):
            flat = [part for part in entry[1] if isinstance(part, bytes)]
            found.append(dict(zip(flat[::2], flat[1::2], strict=True)))
    return found
