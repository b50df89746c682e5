"""Reads one range of a region log, on an executor.

A task never returns less than its range holds: it waits for a region that has applied the whole
range, goes on at another region where one breaks off, and fails if there is none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from anabranch.pipeline.errors import DataLossError
from anabranch.pipeline.options import SourceOptions
from anabranch.pipeline.planning import Range, trimmed_early
from anabranch.pipeline.regions import Rotation, refusal
from anabranch.pipeline.resp import Connection, RefusedCommand, RegionGone, encoded, printable

if TYPE_CHECKING:
    import pyarrow as pa

# How long one region may take to apply the range before the next is tried.
_WAIT_MS: Final = 1000


def read_range(
    wanted: Range, options: SourceOptions, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """The entries of a range as Arrow batches. Raises PipelineError if they cannot be read."""
    from anabranch.pipeline.arrow import BatchMaker

    maker = BatchMaker(
        schema,
        printable(wanted.stream),
        printable(wanted.region),
        wanted.after,
        wanted.end,
        options.fields_format,
        options.fails_fast,
    )
    for answer in answers(wanted, options):
        yield from maker.batches(answer)


def answers(wanted: Range, options: SourceOptions) -> Iterator[bytes]:
    """The answers of CRDT.NODES that make up a range."""
    rotation = Rotation(options)
    reached = wanted.after
    while reached < wanted.end:
        connection = rotation.connect()
        try:
            if not _holds(connection, wanted):
                rotation.failed(
                    f"it has not applied the effects of {wanted.region} up to {wanted.end}"
                )
                continue
            _request(connection, wanted, reached, options)
            while reached < wanted.end:
                counter, trimmed, answer = _received(connection)
                if trimmed > reached and options.fail_on_loss:
                    raise trimmed_early(wanted, reached, trimmed)
                if counter < wanted.end:
                    # The region works on the next answer while this one is decoded.
                    _request(connection, wanted, counter, options)
                yield answer
                reached = counter
                rotation.progressed()
        except RegionGone as error:
            rotation.failed(str(error))
        except RefusedCommand as error:
            if not error.is_no_key():
                raise refusal(str(error)) from None
            if not options.fail_on_loss:
                return
            raise DataLossError(
                f"the stream '{wanted.stream}' was deleted, or expired, while it was read "
                "(failOnDataLoss)"
            ) from None
        finally:
            connection.close()


def _holds(connection: Connection, wanted: Range) -> bool:
    """Whether the region has applied the whole range, soon."""
    return connection.call("CRDT.WAIT", _WAIT_MS, wanted.region, wanted.end) == 1


def _request(connection: Connection, wanted: Range, after: int, options: SourceOptions) -> None:
    """Asks for the entries above `after`."""
    stream = encoded(wanted.stream)
    size = options.fetch_bytes
    connection.send("CRDT.NODES", stream, wanted.region, after, wanted.end, "BYTES", size)


def _received(connection: Connection) -> tuple[int, int, bytes]:
    """The answer to a request: up to where it reaches, up to where entries were trimmed, nodes."""
    reply = connection.receive()
    if isinstance(reply, list) and len(reply) == 3:
        counter, trimmed, answer = reply
        if isinstance(counter, int) and isinstance(trimmed, int) and isinstance(answer, bytes):
            return counter, trimmed, answer
    raise RegionGone("it gave an unexpected answer")
