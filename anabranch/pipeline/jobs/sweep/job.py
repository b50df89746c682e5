"""Simulated seeds, spread over the executors of Spark: one table with a row for each seed.

A task of Spark takes a few seeds. It runs them one after the other in a child process of its Python
worker, as `anabranch simulate` does. The worker itself must live: if a seed killed it, Spark would
repeat the task, the seed would kill it again, and the fourth time would end the sweep. So the
worker only watches. It ends a child that hangs, and makes a row that says how the child ended.

A seed is a function of its number, so a task that Spark repeats gives the same rows again.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, Optional

from anabranch.pipeline.errors import OptionError, PipelineError
from anabranch.pipeline.jobs.report import Report
from anabranch.pipeline.jobs.sweep.report import report_of
from anabranch.pipeline.jobs.sweep.seed_rows import SCHEMA, batch_of, result_of
from anabranch.plural import counted
from anabranch.sim.sweep import LIMIT_S, Task, sweep
from anabranch.sim.tally import Tally

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from anabranch.pipeline.jobs.progress import Bar

SEEDS_PER_TASK: Final = 20
"""A task takes about a second, so progress shows, and no core waits long for the last task."""
TASKS_PER_CORE: Final = 4
PARTITIONS_MAX: Final = 20_000
"""Spark's scheduler becomes slow with more tasks."""
_SEED_END: Final = (1 << 63) - 1


@dataclass(frozen=True)
class SweepOptions:
    """The options of a sweep.

    Attributes:
        first: The first seed.
        end: The seed after the last one.
        task: How a seed is run.
        limit_s: Seconds after which a seed counts as hanging.
        partitions: The number of tasks; None: `partitions_of`.
        parquet: A directory for the rows; None: they are not kept.
    """

    first: int
    end: int
    task: Task = field(default_factory=Task)
    limit_s: float = LIMIT_S
    partitions: Optional[int] = None
    parquet: Optional[str] = None


def partitions_of(seeds: int, cores: int) -> int:
    """The number of tasks for so many seeds on so many cores."""
    wanted = max(-(-seeds // SEEDS_PER_TASK), TASKS_PER_CORE * cores)
    return max(1, min(wanted, seeds, PARTITIONS_MAX))


def check(options: SweepOptions) -> None:
    """OptionError if the options cannot be fulfilled."""
    if options.end > _SEED_END:
        raise OptionError(f"--seeds: the last seed can be {_SEED_END - 1}, and this is larger")
    if not options.limit_s > 0:
        raise OptionError(f"--limit: a seed needs more than {options.limit_s:g} seconds")


def run(session: SparkSession, options: SweepOptions, bar: Bar) -> Report:
    """Runs the seeds; the report has the sums of `anabranch simulate`.

    Raises:
        OptionError: See `check`; or the directory of the rows exists.
        PipelineError: An executor lacks the simulator.
    """
    check(options)
    begun_s = time.monotonic()
    seeds = options.end - options.first
    cores = session.sparkContext.defaultParallelism
    partitions = min(options.partitions or partitions_of(seeds, cores), seeds)
    bar.phase(f"simulating {counted(seeds, 'seed')}")
    table = (
        session.range(options.first, options.end, 1, partitions)
        .mapInArrow(_SeedRunner(options.task, options.limit_s), SCHEMA)
        .persist()
    )
    try:
        if options.parquet is not None:
            _write(table, options.parquet)
        tally = tally_of(table)
    finally:
        table.unpersist()
    return report_of(tally, options.task, time.monotonic() - begun_s, partitions)


def _write(table: DataFrame, directory: str) -> None:
    """Writes the table; OptionError, before any seed has run, if the directory exists."""
    from pyspark.errors import AnalysisException

    try:
        table.write.parquet(directory)
    except AnalysisException as error:
        if error.getCondition() != "PATH_ALREADY_EXISTS":
            raise
        raise OptionError(f"--parquet: {directory} exists already; give a new directory") from None


def tally_of(table: DataFrame) -> Tally:
    """The sums over a table of seeds."""
    from pyspark.sql import functions as f

    counters = (
        table.select(f.explode("counters").alias("name", "times"))
        .where("times != 0")
        .groupBy("name")
        .agg(f.sum("times").alias("times"), f.count("*").alias("seeds"))
        .collect()
    )
    whole = table.agg(f.count("*").alias("seeds"), f.sum("virtual_ms").alias("ms")).collect()[0]
    failed = table.where("checker IS NOT NULL").drop("counters").collect()
    tally = Tally()
    tally.add_sums(
        whole["seeds"],
        whole["ms"] or 0,
        [(one["name"], one["times"], one["seeds"]) for one in counters],
    )
    tally.failed.extend(result_of(row) for row in failed)
    return tally


class _SeedRunner:
    """The work of a task: takes batches of seeds, gives a batch for each seed."""

    def __init__(self, task: Task, limit_s: float) -> None:
        self._task = task
        self._limit_s = limit_s

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if find_spec("apsw") is None:
            raise PipelineError(
                f"the executor on {socket.gethostname()} lacks apsw, which the simulator needs: "
                "pip install 'anabranch[sim,spark]' there"
            )
        seeds = [seed for batch in batches for seed in batch.column(0).to_pylist()]
        with closing(sweep(seeds, self._task, 1, self._limit_s)) as results:
            for result in results:
                yield batch_of([result])
