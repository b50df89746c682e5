"""`anabranch pipeline lag`: how late entries arrive, and which of them XREAD cursors skip.

The job reads the logs of past hours on the disks of the regions (`arrivals`), and the pending
entries of their groups (`redeliveries`).
"""

from __future__ import annotations

import importlib.util
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Optional

from anabranch.pipeline.errors import PipelineError
from anabranch.pipeline.jobs import folders
from anabranch.pipeline.jobs.beginning import Beginning, begin, stream_names
from anabranch.pipeline.jobs.lag import arrivals
from anabranch.pipeline.jobs.lag.plots import draw
from anabranch.pipeline.jobs.lag.redeliveries import Redeliveries, redeliveries
from anabranch.pipeline.jobs.lag.report import Lag, report
from anabranch.pipeline.jobs.region_client import ConnectionLost
from anabranch.pipeline.jobs.report import Report
from anabranch.pipeline.node_columns import LAST_TIME_MS
from anabranch.pipeline.options import SourceOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from anabranch.pipeline.jobs.progress import Bar

# Points of the curves of lags.
_POINTS: Final = 200
# Points of a curve over time.
_STEPS: Final = 600


@dataclass
class LagOptions:
    """The options of the job.

    Attributes:
        regions: The options `endpoints` and `passwordFile` of the source.
        streams: Names of streams or globs, separated by commas.
        hours: How many of the last hours.
        out: A directory for tables and plots; None for none.
    """

    regions: dict[str, str]
    streams: str = "*"
    hours: float = 1.0
    out: Optional[str] = None


def run(session: SparkSession, options: LagOptions, bar: Bar) -> Report:
    """Reads the logs of the regions.

    Raises:
        OptionError: An option is wrong.
        PipelineError: Fewer than two regions answer, or the plots cannot be drawn.
    """
    check(options)
    given = {**options.regions, "streams": options.streams}
    found = SourceOptions(given, False)
    begun = begin(found)
    try:
        # A name that no region knows is an error.
        streams = stream_names(begun.clients, found.streams)
        bar.phase(
            f"finding the last {options.hours:g} h in the logs of {len(begun.clients)} regions"
        )
        logs = arrivals.look(begun, int((time.time() - options.hours * 3600) * 1000))
        bar.phase(f"reading the logs of {len(begun.clients)} regions")
        rows, untold = arrivals.rows(session, logs, given, begun.names)
        rows.persist()
        hours = by_hour(rows).persist()
        again = _redeliveries(begun, streams)
    except ConnectionLost as error:
        raise PipelineError(f"{error.name} stopped answering: {error}") from None
    finally:
        begun.close()
    lag = Lag(list(begun.clients), begun.down, options.hours, untold, again)
    lag.hours = [row.asDict() for row in hours.collect()]
    if options.out is not None:
        bar.phase(f"writing tables and plots to {options.out}")
        hours.write.parquet(str(Path(options.out) / "hours"))
        _write(rows, lag, Path(options.out))
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


def _redeliveries(begun: Beginning, streams: list[bytes]) -> list[Redeliveries]:
    found: list[Redeliveries] = []
    for name, client in begun.clients.items():
        try:
            found += redeliveries(client, streams)
        except ConnectionLost as error:
            begun.down[name] = f"it stopped answering: {error}"
    return found


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


def _write(rows: DataFrame, lag: Lag, out: Path) -> None:
    """Writes the arrivals and the plots."""
    from pyspark.sql import functions as f

    rows.write.parquet(str(out / "arrivals"))
    shares = [n / _POINTS for n in range(_POINTS + 1)]
    arrived = rows.where("lag_ms IS NOT NULL")
    began_ms, ended_ms = arrived.agg(f.min("arrived_ms"), f.max("arrived_ms")).first() or (0, 0)
    began_ms, ended_ms = began_ms or 0, ended_ms or 0
    step_s = max((ended_ms - began_ms) // 1000 // _STEPS, 1)
    curves = arrived.groupBy("origin", "region").agg(
        f.percentile_approx("lag_ms", shares, 100_000).alias("lags_ms")
    )
    second = f.floor((f.col("arrived_ms") - began_ms) / (1000 * step_s)) * step_s
    highest = arrived.groupBy("origin", "region", second.alias("second")).agg(
        f.max("lag_ms").alias("lag_ms")
    )
    draw(
        out,
        {(row.origin, row.region): list(row.lags_ms) for row in curves.collect()},
        [
            (row.origin, row.region, row.second, row.lag_ms)
            for row in highest.orderBy("second").collect()
        ],
        step_s,
        lag,
    )
