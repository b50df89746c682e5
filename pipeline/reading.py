"""Reads one range of a region log, on an executor.

A task never returns less than its range holds: it waits for a region that has applied the whole
range, goes on at another region where one breaks off, and fails if there is none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from anabranch.pipeline.errors import DataLossError
from anabranch.pipeline.options import SourceOptions
from anabranch.pipeline.planning import Range
from anabranch.pipeline.regions import Rotation, refusal
from anabranch.pipeline.resp import Connection, RefusedCommand, RegionGone, encoded

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
        encoded(wanted.stream).decode("utf-8", "replace"),
        encoded(wanted.region).decode("utf-8", "replace"),
        wanted.after,
        wanted.end,
        options.fields_format,
        options.fails_fast,
    )
    for answer in answers(wanted, options):
        yield from maker.batches(answer)


def answers(wanted: Range, options: SourceOptions) -> Iterator[bytes]:
    """The answers of CRDT.NODES that make up a range."""
    rotation = Rotation(options, options.password())
    reached = wanted.after
    while reached < wanted.end:
        connection = rotation.connect()
        try:
            if not _holds(connection, wanted):
                rotation.failed(
                    f"it has not applied the effects of {wanted.region} up to {wanted.end}"
                )
                continue
            request = _request(connection, wanted, reached, options)
            while request:
                counter, answer = _received(connection)
                if counter < wanted.end:
                    # The region works on the next answer while this one is decoded.
                    request = _request(connection, wanted, counter, options)
                else:
                    request = False
                yield answer
                reached = counter
                rotation.progressed()
        except RegionGone as error:
            rotation.failed(str(error))
        except RefusedCommand as error:
            if "no such key" not in str(error):
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


def _request(connection: Connection, wanted: Range, after: int, options: SourceOptions) -> bool:
    stream = encoded(wanted.stream)
    size = options.fetch_bytes
    connection.send("CRDT.NODES", stream, wanted.region, after, wanted.end, "BYTES", size)
    return True


def _received(connection: Connection) -> tuple[int, bytes]:
    """The answer to a request: the counter up to which it reaches, and the nodes."""
    reply = connection.receive()
    if not isinstance(reply, list) or len(reply) != 2:
        raise RegionGone("it gave an unexpected answer")
    counter, answer = reply
    if not isinstance(counter, int) or not isinstance(answer, bytes):
        raise RegionGone("it gave an unexpected answer")
    return counter, answer
