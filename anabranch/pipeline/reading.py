"""Reads one range of a region log, on an executor.

A task never returns less than its range holds: it waits for a region that has applied the whole
range, goes on at another region where one breaks off, and fails if there is none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Final

from anabranch.answers import listed_vector, members_of
from anabranch.pipeline.errors import DataLossError, RegionsError
from anabranch.pipeline.losses import lost_before, trimmed_early
from anabranch.pipeline.offsets import Range
from anabranch.pipeline.options import SourceOptions
from anabranch.pipeline.regions import Rotation, info_of, refusal
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
    # What each endpoint said that lacks a part of the range, since one failed for another reason.
    behind: dict[str, _Behind] = {}
    while reached < wanted.end:
        connection = rotation.connect()
        try:
            if not _holds(connection, wanted, options):
                behind[str(rotation.endpoint)] = _Behind(connection, wanted)
                wanted = _still_wanted(wanted, rotation, behind.values(), options)
                continue
            for counter, answer in _rest(connection, wanted, reached, options):
                yield answer
                reached = counter
                rotation.progressed()
        except RegionGone as error:
            behind.clear()
            rotation.failed(error)
        except RefusedCommand as error:
            if not error.is_no_key():
                raise refusal(str(error)) from None
            if not options.fail_on_loss:
                return
            raise DataLossError(
                f"the stream '{printable(wanted.stream)}' was deleted, or expired, while it was "
                "read; with failOnDataLoss false the query goes on"
            ) from None
        finally:
            connection.close()


def _rest(
    connection: Connection, wanted: Range, reached: int, options: SourceOptions
) -> Iterator[tuple[int, bytes]]:
    """The answers of one region above `reached`, each with the counter that it reaches up to."""
    _request(connection, wanted, reached, options)
    while reached < wanted.end:
        counter, trimmed, answer = _received(connection)
        is_read = reached > wanted.after or not wanted.is_new
        if trimmed > reached and is_read and options.fail_on_loss:
            raise trimmed_early(wanted, reached, trimmed)
        if counter < wanted.end:
            # The region works on the next answer while this one is decoded.
            _request(connection, wanted, counter, options)
        yield counter, answer
        reached = counter


def _holds(connection: Connection, wanted: Range, options: SourceOptions) -> bool:
    """Whether the region has applied the whole range, soon."""
    # The answer must come before the socket's own time-out.
    wait_ms = min(_WAIT_MS, int(options.step_s * 500))
    return connection.call("CRDT.WAIT", wait_ms, wanted.region, wanted.end) == 1


class _Behind:
    """What a region said that has not applied a whole range.

    `applied`: up to where it has applied the effects of the range's region. `is_lost`: whether it
    calls that region lost.
    """

    def __init__(self, connection: Connection, wanted: Range) -> None:
        info = info_of(connection.call)
        ids = {name: region_id for region_id, name in members_of(info).items()}
        self.applied: Final = listed_vector(info["crdt_vector"]).get(ids.get(wanted.region, 0), 0)
        self.is_lost: Final = wanted.region in info["crdt_members_lost"].split(",")


def _still_wanted(
    wanted: Range, rotation: Rotation, behind: Collection[_Behind], options: SourceOptions
) -> Range:
    """The range to ask the next region for. The regions of `behind` lack a part of it.

    It is the same as long as there is time. Then, if every endpoint lacks that part, and the
    range's region is lost for good, the part never comes (S13.8): it is left out, or with
    `failOnDataLoss` a DataLossError.
    """
    try:
        rotation.failed(f"it has not applied the effects of {wanted.region} up to {wanted.end}")
    except RegionsError:
        if len(behind) < len(options.endpoints) or not any(one.is_lost for one in behind):
            raise
        applied = max(one.applied for one in behind)
        if applied < wanted.end:
            if options.fail_on_loss:
                raise lost_before(wanted, applied) from None
            wanted = wanted.part(wanted.after, applied)
        rotation.progressed()
    return wanted


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
