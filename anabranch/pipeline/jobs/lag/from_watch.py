"""Arrivals that a watch finds: the regions are asked again and again for their vectors.

`watching` notes how far each region is on disk. Afterwards Spark reads the entries that arrived
anywhere during the watch, and `arrivals` finds when each region had each of them. Entries that were
removed before the watch ended are not counted.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from anabranch.pipeline.entry_hashes import ids_in
from anabranch.pipeline.errors import PipelineError
from anabranch.pipeline.jobs.beginning import Beginning
from anabranch.pipeline.jobs.door import Door, DoorClosed, NoKey, Piece
from anabranch.pipeline.jobs.lag.arrivals import SCHEMA, Samples, arrivals, id_key
from anabranch.pipeline.jobs.lag.watching import Watcher, last_ids
from anabranch.pipeline.jobs.session import shuffle_by_cores
from anabranch.pipeline.options import SourceOptions

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

PIECE_BYTES: Final = 4 << 20
_ENTRIES: Final = "number BIGINT, origin BIGINT, counter BIGINT, key STRING"
_STEP_S: Final = 0.2


@dataclass(frozen=True)
class Part:
    """A range of a region log that a task reads: `number` is that of its stream."""

    number: int
    piece: Piece
    region: str
    address: tuple[str, int]


def watch(
    begun: Beginning, streams: list[bytes], seconds: int, interval_ms: int
) -> tuple[dict[str, Samples], dict[str, int]]:
    """The samples of each region, and how often it did not answer."""
    cursors = {name: last_ids(door, streams) for name, door in begun.doors.items()}
    with Watcher(begun.doors, interval_ms) as watcher:
        for name, samples in watcher.samples.items():
            samples.cursors.update(cursors[name])
        until_s = time.monotonic() + seconds
        while (left_s := until_s - time.monotonic()) > 0:
            time.sleep(min(left_s, _STEP_S))
            watcher.check()
    watcher.check()
    for name, samples in list(watcher.samples.items()):
        if not samples.vectors:
            raise PipelineError(f"{name} did not answer during the watch")
    return watcher.samples, watcher.failures


def parts_of(
    doors: dict[str, Door], streams: list[bytes], watched: dict[str, Samples]
) -> list[Part]:
    """The ranges that arrived in any region during the watch."""
    origins = {origin for samples in watched.values() for origin in samples.vectors[-1]}
    found: list[Part] = []
    for origin in sorted(origins):
        after = min(samples.vectors[0].get(origin, 0) for samples in watched.values())
        ends = {name: samples.vectors[-1].get(origin, 0) for name, samples in watched.items()}
        name = max(ends, key=ends.__getitem__)
        if ends[name] == after:
            continue
        door = doors[name]
        for number, stream in enumerate(streams):
            reached = after
            try:
                for cut in door.cuts(stream, origin, ends[name], PIECE_BYTES, after):
                    if cut.size:
                        piece = Piece(stream, origin, reached, cut.counter, cut.size)
                        found.append(Part(number, piece, name, door.address))
                    reached = cut.counter
            except NoKey:
                continue
    return found


def entries(part: Part, given: dict[str, str]) -> Iterator[tuple[int, int, int, str]]:
    """The rows of a part: number of the stream, region_id of the log, counter, key of the ID."""
    door = Door(part.region, part.address, SourceOptions(given, False))
    piece = part.piece
    try:
        for answer in door.answers(piece):
            for counter, ms, seq in ids_in(answer, piece.after, piece.end):
                yield part.number, piece.region_id, counter, id_key(ms, seq)
    except NoKey:
        # The stream was deleted after the watch.
        return
    except DoorClosed as error:
        raise PipelineError(f"{part.region} stopped answering: {error}") from None
    finally:
        door.close()


def rows(
    session: SparkSession,
    parts: list[Part],
    given: dict[str, str],
    streams: list[bytes],
    watched: dict[str, Samples],
    names: dict[int, str],
) -> DataFrame:
    """The arrivals, as SCHEMA."""
    if not parts:
        return session.createDataFrame([], SCHEMA)
    read = session.sparkContext.parallelize(parts, len(parts)).flatMap(
        partial(entries, given=given)
    )

    def judge(key: tuple[Any, ...], frame: pd.DataFrame) -> pd.DataFrame:
        return arrivals(frame, streams[int(key[0])], watched, names)

    # The arrivals of a watch are few.
    shuffle_by_cores(session)
    frame = session.createDataFrame(read, _ENTRIES)
    return frame.groupBy("number").applyInPandas(judge, SCHEMA)
