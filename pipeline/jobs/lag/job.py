"""`anabranch pipeline lag`: how late entries arrive, and which of them XREAD cursors skip.

No region records when an entry arrived, so the job watches: it notes the vector of each region on
disk every few hundred milliseconds (`watching`). Afterwards Spark reads the entries that arrived
anywhere during the watch, and finds for each region when it had each of them (`arrivals`). Entries
that were removed before the watch ended are not counted.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Optional

from anabranch.pipeline.entry_hashes import ids_in
from anabranch.pipeline.errors import PipelineError
from anabranch.pipeline.jobs import folders
from anabranch.pipeline.jobs.beginning import Beginning, begin, stream_names
from anabranch.pipeline.jobs.door import Door, DoorClosed, NoKey, Piece
from anabranch.pipeline.jobs.lag.arrivals import SCHEMA, Samples, arrivals, id_key
from anabranch.pipeline.jobs.lag.plots import draw
from anabranch.pipeline.jobs.lag.report import Lag, report
from anabranch.pipeline.jobs.lag.watching import Redeliveries, Watcher, last_ids, redeliveries
from anabranch.pipeline.jobs.report import Report
from anabranch.pipeline.jobs.session import shuffle_by_cores
from anabranch.pipeline.node_columns import LAST_TIME_MS
from anabranch.pipeline.options import SourceOptions
from anabranch.plural import counted

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

    from anabranch.pipeline.jobs.progress import Bar

PIECE_BYTES: Final = 4 << 20
_ENTRIES: Final = "number BIGINT, origin BIGINT, counter BIGINT, key STRING"
_STEP_S: Final = 0.2
# Points of the curves of lags.
_POINTS: Final = 200


@dataclass
class LagOptions:
    """The options of the job.

    Attributes:
        regions: The options `endpoints` and `passwordFile` of the source.
        streams: Names of streams or globs, separated by commas.
        seconds: How long to watch.
        interval_ms: Time between two looks at a region.
        out: A directory for tables and plots; None for none.
    """

    regions: dict[str, str]
    streams: str = "*"
    seconds: int = 60
    interval_ms: int = 200
    out: Optional[str] = None


@dataclass(frozen=True)
class Part:
    """A range of a region log that a task reads: `number` is that of its stream."""

    number: int
    piece: Piece
    region: str
    address: tuple[str, int]


def run(session: SparkSession, options: LagOptions, bar: Bar) -> Report:
    """Watches the regions.

    Raises:
        OptionError: An option is wrong.
        PipelineError: Fewer than two regions answer, or the plots cannot be drawn.
    """
    check(options)
    given = {**options.regions, "streams": options.streams}
    found = SourceOptions(given, False)
    begun = begin(found)
    try:
        watched, failures = watch(begun, found, options, bar)
        bar.phase("looking for entries and for redeliveries")
        streams = stream_names(begun.doors, found.streams)
        again = _redeliveries(begun, streams)
        parts = parts_of(begun.doors, streams, watched)
    except DoorClosed as error:
        raise PipelineError(f"{error.name} stopped answering: {error}") from None
    finally:
        begun.close()
    bar.phase(f"reading what arrived in {counted(len(streams), 'stream')}")
    rows = _rows(session, parts, given, streams, watched, begun.names).persist()
    lag = Lag(
        list(begun.doors),
        begun.down,
        options.seconds,
        options.interval_ms,
        {name: samples.gap_ms() for name, samples in watched.items()},
        failures,
        again,
    )
    hours = by_hour(rows).persist()
    lag.hours = [row.asDict() for row in hours.collect()]
    if options.out is not None:
        bar.phase(f"writing tables and plots to {options.out}")
        hours.write.parquet(str(Path(options.out) / "hours"))
        _write(rows, lag, Path(options.out), watched)
    hours.unpersist()
    rows.unpersist()
    return report(lag)


def check(options: LagOptions) -> None:
    """Raises OptionError for a directory that exists, PipelineError if matplotlib is missing."""
    if options.out is None:
        return
    folders.check_new("--out", options.out)
    if importlib.util.find_spec("matplotlib") is None:
        raise PipelineError(
            "the plots of --out need matplotlib, which is not installed: "
            "pip install 'anabranch[spark]'"
        )


# -- watching


def watch(
    begun: Beginning, source: SourceOptions, options: LagOptions, bar: Bar
) -> tuple[dict[str, Samples], dict[str, int]]:
    """The samples of each region, and how often it did not answer."""
    streams = stream_names(begun.doors, source.streams)
    cursors = {name: last_ids(door, streams) for name, door in begun.doors.items()}
    bar.phase(f"watching {len(begun.doors)} regions for {options.seconds} s")
    with Watcher(begun.doors, options.interval_ms) as watcher:
        for name, samples in watcher.samples.items():
            samples.cursors.update(cursors[name])
        until_s = time.monotonic() + options.seconds
        while (left_s := until_s - time.monotonic()) > 0:
            time.sleep(min(left_s, _STEP_S))
            watcher.check()
    watcher.check()
    for name, samples in list(watcher.samples.items()):
        if not samples.vectors:
            raise PipelineError(f"{name} did not answer during the watch")
    return watcher.samples, watcher.failures


def _redeliveries(begun: Beginning, streams: list[bytes]) -> list[Redeliveries]:
    found: list[Redeliveries] = []
    for name, door in begun.doors.items():
        try:
            found += redeliveries(door, streams)
        except DoorClosed as error:
            begun.down[name] = f"it stopped answering after the watch: {error}"
    return found


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


# -- in Spark


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


def _rows(
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


def by_hour(rows: DataFrame) -> DataFrame:
    """The arrivals by stream, origin, region, and hour of their IDs."""
    from pyspark.sql import functions as f

    in_time = f.col("id_ms").between(0, LAST_TIME_MS)
    hour = f.when(in_time, f.date_trunc("hour", f.timestamp_millis("id_ms")))
    lags = [
        f.percentile_approx("lag_ms", share).alias(f"lag_p{share * 100:g}_ms")
        for share in (0.5, 0.95, 0.99)
    ]
    return (
        rows.groupBy("stream", "origin", "region", hour.alias("hour"))
        .agg(
            f.count("*").alias("entries"),
            f.count("arrived_ms").alias("arrived"),
            f.count_if("late").alias("skipped"),
            *lags,
            f.max("lag_ms").alias("lag_max_ms"),
            f.max("below_ms").alias("below_max_ms"),
        )
        .orderBy("stream", "origin", "region", "hour")
    )


def _write(rows: DataFrame, lag: Lag, out: Path, watched: dict[str, Samples]) -> None:
    """Writes the arrivals and the plots."""
    from pyspark.sql import functions as f

    rows.write.parquet(str(out / "arrivals"))
    shares = [n / _POINTS for n in range(_POINTS + 1)]
    arrived = rows.where("lag_ms IS NOT NULL")
    began_ms = min(samples.times_ms[0] for samples in watched.values())
    curves = arrived.groupBy("origin", "region").agg(
        f.percentile_approx("lag_ms", shares, 100_000).alias("lags_ms")
    )
    second = f.floor((f.col("arrived_ms") - began_ms) / 1000).alias("second")
    highest = arrived.groupBy("origin", "region", second).agg(f.max("lag_ms").alias("lag_ms"))
    draw(
        out,
        {(row.origin, row.region): list(row.lags_ms) for row in curves.collect()},
        [
            (row.origin, row.region, row.second, row.lag_ms)
            for row in highest.orderBy("second").collect()
        ],
        lag,
    )
