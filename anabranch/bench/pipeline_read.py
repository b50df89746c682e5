"""Reading a stream for analysis: the pipeline's decoder and Spark beside loops of redis-py.

One region on loopback holds the stream. Beside every reader, a client adds entries to another
stream of the region, one at a time, and measures how long each XADD waits. The readers are

- an XRANGE loop of redis-py that only counts;
- XREADGROUP by one consumer for each partition, as spark-redis reads, in processes of their own;
- fetch and decode: CRDT.NODES, and the columns of Arrow made of the answers, in one process;
- with --spark: `count()` of the data source, and Parquet with all columns, with two cores;
- with --spark: XREADGROUP by one consumer for each partition, as a job of Spark that makes rows.

The rate of a Spark query counts from the start of its first task to the end of its last.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import redis

from anabranch import build
from anabranch.bench.harness import Figures, percentile, show_build
from anabranch.cluster.client import RespClient
from anabranch.cluster.errors import ClusterError, ConnectionFailed
from anabranch.cluster.ports import HOST
from anabranch.cluster.regions import ProcessCluster, RegionProcess
from anabranch.pipeline.offsets import Range
from anabranch.pipeline.options import SourceOptions
from anabranch.pipeline.reading import answers

KEY = "orders"
FILL_ENTRIES = 10_000
PAGE_ENTRIES = 10_000
# Entries that one XREADGROUP asks for: the default of spark-redis.
GROUP_ENTRIES = 100
GROUP = "spark-source"
PARTITIONS = 2
PROBE_PAUSE_S = 0.002
XADD_LIMIT_MS = 20.0
# Packages of the extra `spark`: the decoder needs the first one, Spark all.
NEEDED = ("librt", "numpy", "pandas", "pyarrow", "pyspark")
# Processes that are started for a reader or a probe share nothing with this one.
_fork = multiprocessing.get_context("fork")


def fill(region: RegionProcess, entries: int) -> None:
    """Adds entries with two fields, in pipelines."""
    with region.connect(60.0) as client:
        for first in range(0, entries, FILL_ENTRIES):
            numbers = range(first, min(first + FILL_ENTRIES, entries))
            amounts = {n: f"{n % 977}.{n % 100:02}" for n in numbers}
            client.ask_all(
                [("XADD", KEY, "*", "user", f"u{n % 5000}", "amount", amounts[n]) for n in numbers]
            )


class Probe:
    """A client in a process of its own that adds entries and measures each wait, in ms."""

    def __init__(self, port: int) -> None:
        self._ends = _fork.Event()
        self._waits: Any = _fork.Queue()
        self._process = _fork.Process(target=self._run, args=(port,))

    def _run(self, port: int) -> None:
        waits = []
        with RespClient(HOST, port) as client:
            while not self._ends.is_set():
                begun = time.perf_counter()
                client.call("XADD", "probe", "MAXLEN", "~", "1000", "*", "f", "0123456789abcdef")
                waits.append((time.perf_counter() - begun) * 1000)
                time.sleep(PROBE_PAUSE_S)
        self._waits.put(waits)

    def __enter__(self) -> Probe:
        self._process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self.waits_ms: list[float] = self._waits.get(timeout=60)
        self._process.join()


# -- the readers: each returns (entries, seconds)


def count_by_xrange(port: int) -> tuple[int, float]:
    """A plain loop of redis-py."""
    begun, count, start = time.perf_counter(), 0, "-"
    with redis.Redis(port=port) as client:
        while page := client.xrange(KEY, start, "+", PAGE_ENTRIES):
            count += len(page)
            start = f"({page[-1][0].decode()}"
    return count, time.perf_counter() - begun


def _delivered(port: int, consumer: str) -> Iterator[list[tuple[bytes, dict[bytes, bytes]]]]:
    """Everything that a group delivers to one consumer, as (ID, fields)."""
    with redis.Redis(port=port, protocol=2) as client:
        while reply := client.xreadgroup(
            GROUP, consumer, {KEY: ">"}, count=GROUP_ENTRIES, noack=True
        ):
            yield reply[0][1]


@contextlib.contextmanager
def _group(port: int) -> Iterator[None]:
    with redis.Redis(port=port) as client:
        client.xgroup_create(KEY, GROUP, "0")
        yield
        client.xgroup_destroy(KEY, GROUP)


def _count_delivered(port: int, consumer: str, counts: Any) -> None:
    counts.put(sum(len(entries) for entries in _delivered(port, consumer)))


def count_by_xreadgroup(port: int) -> tuple[int, float]:
    """One consumer of a group for each partition, in processes."""
    counts: Any = _fork.Queue()
    consumers = [
        _fork.Process(target=_count_delivered, args=(port, f"consumer-{n}", counts))
        for n in range(PARTITIONS)
    ]
    with _group(port):
        begun = time.perf_counter()
        for one in consumers:
            one.start()
        count = sum(counts.get() for _ in consumers)
        took_s = time.perf_counter() - begun
    for one in consumers:
        one.join()
    return count, took_s


def fetch_and_decode(port: int, last_counter: int) -> tuple[int, float]:
    """The pipeline without Spark, in this process."""
    # Imported here, because it needs the extra `spark`, and other benchmarks do not.
    from anabranch.pipeline.node_columns import ARRAY, NodeColumns

    options = SourceOptions({"endpoints": f"{HOST}:{port}", "streams": KEY}, False)
    decoder = NodeColumns(0, last_counter, ARRAY, [])
    begun, count = time.perf_counter(), 0
    for answer in answers(Range(KEY, "us", 0, last_counter), options):
        decoder.feed(answer)
        while rows := decoder.decode(1 << 16):
            count += rows
    return count, time.perf_counter() - begun


class SparkReader:
    """A Spark session with two cores, and the data source over the stream."""

    def __init__(self, port: int) -> None:
        try:
            from pyspark.sql import SparkSession
        except ImportError:
            raise ClusterError("--spark needs PySpark: pip install '.[spark]'") from None
        os.environ.update({"SPARK_LOCAL_IP": HOST, "PYSPARK_PYTHON": sys.executable})
        # Tasks must import this build, and not the source tree that is their current folder.
        os.environ["PYTHONPATH"] = build.environment().get("PYTHONPATH", "")
        os.environ["PYTHONSAFEPATH"] = "1"
        self.session = (
            SparkSession.builder.master(f"local[{PARTITIONS}]")
            .config("spark.ui.enabled", "false")
            .config("spark.driver.memory", "2g")
            .config("spark.log.level", "ERROR")
            .config("spark.ui.showConsoleProgress", "false")
            .getOrCreate()
        )
        given = {"endpoints": f"{HOST}:{port}", "streams": KEY, "minPartitions": "4"}
        self.rows = self.session.read.format("anabranch").options(**given).load()

    def count(self) -> tuple[int, float]:
        """`count()` of all rows."""
        return self._timed("count", self.rows.count)

    def parquet(self, directory: str, expected: int) -> tuple[int, float]:
        """All columns as Parquet."""
        writer = self.rows.write.mode("overwrite")
        _, took_s = self._timed("parquet", lambda: writer.parquet(f"{directory}/orders"))
        found = self.session.read.parquet(f"{directory}/orders").count()
        if found != expected:
            raise ClusterError(f"Parquet has {found} rows, and the stream {expected}")
        return found, took_s

    def count_by_xreadgroup(self, port: int) -> tuple[int, float]:
        """One consumer of a group for each partition, each of which makes rows."""

        def rows(numbers: Iterable[int]) -> Iterator[tuple[str, dict[str, str]]]:
            import redis

            with redis.Redis(port=port, protocol=2, decode_responses=True) as client:
                consumer = f"consumer-{next(iter(numbers))}"
                while reply := client.xreadgroup(
                    "spark-source", consumer, {"orders": ">"}, count=100, noack=True
                ):
                    yield from reply[0][1]

        with _group(port):
            partitions = self.session.sparkContext.parallelize(range(PARTITIONS), PARTITIONS)
            schema = "id STRING, fields MAP<STRING, STRING>"
            frame = self.session.createDataFrame(partitions.mapPartitions(rows), schema)
            return self._timed("XREADGROUP", frame.count)

    def _timed(self, group: str, query: Callable[[], Any]) -> tuple[Any, float]:
        """The result of a query, and the time from its first task to its last."""
        context = self.session.sparkContext
        group = f"{group} {time.monotonic()}"
        context.setJobGroup(group, group)
        result = query()
        tracker, store = context.statusTracker(), context._jsc.sc().statusStore()
        begun: list[int] = []
        ended: list[int] = []
        for job in tracker.getJobIdsForGroup(group):
            for stage in tracker.getJobInfo(job).stageIds:
                data = store.lastStageAttempt(stage)
                if data.firstTaskLaunchedTime().isDefined():
                    begun.append(data.firstTaskLaunchedTime().get().getTime())
                    ended.append(data.completionTime().get().getTime())
        return result, (max(ended) - min(begun)) / 1000


# -- the run


class Comparison:
    """The rates of the readers, in entries per second."""

    def __init__(self, figures: Figures, port: int, entries: int) -> None:
        self.figures = figures
        self.port = port
        self.entries = entries
        self.rates: dict[str, float] = {}

    def measure(
        self,
        name: str,
        read: Callable[[], tuple[int, float]],
        rounds: int = 2,
        limit_ms: float | None = XADD_LIMIT_MS,
    ) -> None:
        """Shows the best rate of some rounds, and the waits of the client beside all of them."""
        waits: list[float] = []
        for _ in range(rounds):
            with Probe(self.port) as probe:
                count, took_s = read()
            if count != self.entries:
                raise ClusterError(f"{name} read {count} entries of {self.entries}")
            waits += probe.waits_ms
            self.rates[name] = max(self.rates.get(name, 0.0), count / took_s)
        self.figures.show(name, round(self.rates[name]), "entries/s")
        p50, p99 = percentile(waits, 0.5), percentile(waits, 0.99)
        self.figures.show(f"{name}: XADD beside it, p50", p50, "ms")
        self.figures.at_most(f"{name}: XADD beside it, p99", p99, limit_ms, "ms")

    def require(self, name: str, other: str, factor: float) -> None:
        """Requires that one reader is `factor` times as fast as another."""
        ratio = self.rates[name] / self.rates[other]
        self.figures.require(f"{name} / {other} at least {factor:g}", ratio >= factor, ratio)


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="anabranch bench pipeline_read", description=__doc__)
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--spark", action="store_true", help="also Spark, which needs Java")
    given = parser.parse_args(arguments)
    for package in NEEDED if given.spark else NEEDED[:1]:
        if importlib.util.find_spec(package) is None:
            raise ClusterError(
                f"pipeline_read: {package} is not installed: it comes with pip install '.[spark]'"
            )
    figures = Figures(f"reading a stream of {given.entries:,} entries")
    with ProcessCluster(["us"]) as cluster, tempfile.TemporaryDirectory() as directory:
        region = cluster.start("us")
        show_build(figures, region)
        port = region.resp_port
        try:
            fill(region, given.entries)
        except ConnectionFailed as error:
            raise ClusterError(f"the stream cannot be filled: {error}") from error
        comparison = Comparison(figures, port, given.entries)
        comparison.measure("XRANGE loop", lambda: count_by_xrange(port), limit_ms=None)
        comparison.measure("XREADGROUP", lambda: count_by_xreadgroup(port), rounds=1, limit_ms=None)
        comparison.measure("fetch and decode", lambda: fetch_and_decode(port, given.entries))
        if given.spark:
            reader = SparkReader(port)
            comparison.measure(
                "Spark XREADGROUP",
                lambda: reader.count_by_xreadgroup(port),
                rounds=1,
                limit_ms=None,
            )
            comparison.measure("Spark count", reader.count, rounds=3)
            comparison.measure(
                "Spark Parquet", lambda: reader.parquet(directory, given.entries), rounds=2
            )
            reader.session.stop()
            comparison.require("Spark count", "XRANGE loop", 2)
            comparison.require("Spark count", "Spark XREADGROUP", 5)
            comparison.require("Spark Parquet", "XRANGE loop", 1)
        comparison.require("fetch and decode", "XRANGE loop", 2)
    return figures.finish()
