"""Streams are removed and added to again between micro-batches: no entry is lost silently.

The environment gives the seed of the story, `ANABRANCH_LOSSES_SEED` (1), and about how many entries
it has, `ANABRANCH_LOSSES_ENTRIES` (1200). By hand these may be 200,000:

    ANABRANCH_LOSSES_ENTRIES=200000 make test-spark ARGS='-k test_losses_are_named'
"""

from __future__ import annotations

import os
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from anabranch.pipeline.options import SourceOptions
from tests.pipeline.test_spark import add, endpoints
from tests.support.cluster import LiveCluster

pytestmark = [pytest.mark.spark, pytest.mark.live, pytest.mark.timeout(3600)]

STREAMS: Final = ("orders", "rides")
REMOVALS: Final = ("DEL", "FLUSHALL", "RENAME", "RENAME over", "PEXPIRE", "PEXPIRE")


class Reader:
    """A query of one stream, and the numbers that it has read."""

    def __init__(self, spark: Any, cluster: LiveCluster, stream: str, checkpoint: Path) -> None:
        self.spark = spark
        # A glob: the stream may be absent at times.
        self.given = {"endpoints": endpoints(cluster), "streams": f"{stream}*"}
        self.checkpoint = str(checkpoint)
        # Micro-batch → numbers. A batch that Spark runs again replaces the former run.
        self.batches: dict[int, list[int]] = {}

    def run(self, fails: str) -> None:
        def collect(rows: Any, number: int) -> None:
            found = rows.selectExpr("CAST(CAST(fields[0].value AS STRING) AS BIGINT) AS n")
            self.batches[number] = [row.n for row in found.collect()]

        reader = self.spark.readStream.format("anabranch").options(**self.given)
        writer = reader.option("failOnDataLoss", fails).load().writeStream.foreachBatch(collect)
        writer = writer.option("checkpointLocation", self.checkpoint)
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(600), "the query did not end"

    def numbers(self) -> list[int]:
        return [number for numbers in self.batches.values() for number in numbers]


class Story:
    """The cluster, what was added to which stream, and which of it may be missing."""

    def __init__(self, cluster: LiveCluster, draw: Random, per_step: int) -> None:
        self.cluster = cluster
        self.draw = draw
        self.per_step = per_step
        self.added: dict[str, set[int]] = {stream: set() for stream in STREAMS}
        # Entries that XDEL took, and those of streams for which an error was raised.
        self.deleted: set[int] = set()
        self.named: set[int] = set()
        # Streams that were removed as a whole since their last query that ended well.
        self.removed: set[str] = set()
        self.is_cut = False
        self._next = 0

    def add(self, region: str, stream: str, key: str) -> None:
        """Adds entries of `stream` under a key; takes some of them away again."""
        ids: list[str] = []
        first = self._next
        with self.cluster.client(region) as client:
            pipeline = client.pipeline(transaction=False)
            for number in range(first, first + self.per_step):
                pipeline.xadd(key, {"n": number})
            ids += [str(entry_id) for entry_id in pipeline.execute()]
            taken = self.draw.sample(range(len(ids)), len(ids) // 50)
            if taken:
                client.xdel(key, *(ids[at] for at in taken))
        self._next += len(ids)
        self.added[stream] |= set(range(first, self._next))
        self.deleted |= {first + at for at in taken}

    def remove(self, region: str, stream: str) -> None:
        """Removes a stream as a whole."""
        kind = self.draw.choice(REMOVALS)
        self.removed |= {*STREAMS} if kind == "FLUSHALL" else {stream}
        if kind == "RENAME over":
            self.add(region, stream, f"source:{stream}")
        with self.cluster.client(region) as client:
            if kind == "FLUSHALL":
                client.flushall()
            elif kind == "DEL":
                client.delete(stream)
            elif kind == "PEXPIRE":
                client.pexpire(stream, 1)
            elif kind == "RENAME over":
                client.rename(f"source:{stream}", stream)
            elif client.exists(stream):
                client.rename(stream, f"away:{stream}")

    def step(self) -> None:
        """What happens between two micro-batches."""
        if self.draw.random() < 0.3:
            (self.cluster.heal if self.is_cut else self.cluster.cut)("us", "eu")
            self.is_cut = not self.is_cut
        for stream in STREAMS:
            for _ in range(3):
                self.add(self.draw.choice(("us", "eu")), stream, stream)
            if self.draw.random() < 0.5:
                self.remove(self.draw.choice(("us", "eu")), stream)
                if self.draw.random() < 0.8:
                    self.add(self.draw.choice(("us", "eu")), stream, stream)
        if not self.is_cut and self.draw.random() < 0.7:
            self.level()

    def level(self) -> None:
        """All regions hold the same, and have forgotten what they need not keep."""
        self.cluster.await_links()
        self.cluster.sync()

    def read(self, reader: Reader, stream: str) -> bool:
        """Runs the query. An error names its stream, and the query then goes on without."""
        try:
            reader.run("true")
        except Exception as error:
            text = str(error)
            assert f"the stream '{stream}'" in text and "DataLossError" in text, text
            assert stream in self.removed, f"nothing was removed: {text}"
            self.named |= self.added[stream]
            reader.run("false")
            return False
        # A removal in a region that is cut off comes later.
        if not self.is_cut:
            self.removed.discard(stream)
        return True


def test_losses_are_named(spark: Any, two_regions: LiveCluster, tmp_path: Path) -> None:
    """Each entry is read once, or its stream is named in an error (issue 47).

    After DEL, FLUSHALL, RENAME and expiry, a stream that was added to again went on at its new
    entries, and those that had not been read were missing without a word.
    """
    entries = int(os.environ.get("ANABRANCH_LOSSES_ENTRIES", "1200"))
    steps = min(6 + entries // 10_000, 25)
    seed = int(os.environ.get("ANABRANCH_LOSSES_SEED", "1"))
    story = Story(two_regions, Random(seed), entries // (steps * 4 * len(STREAMS)) + 1)
    readers = {one: Reader(spark, two_regions, one, tmp_path / one) for one in STREAMS}
    errors = 0
    for _ in range(steps):
        story.step()
        for stream, reader in readers.items():
            errors += not story.read(reader, stream)
    if story.is_cut:
        two_regions.heal("us", "eu")
    story.level()
    for stream, reader in readers.items():
        errors += not story.read(reader, stream)
        numbers = reader.numbers()
        assert len(numbers) == len(set(numbers)), "an entry was read twice"
        missing = story.added[stream] - set(numbers)
        silent = missing - story.deleted - story.named
        assert not silent, f"{len(silent)} entries of {stream} were lost silently"
        print(f"{stream}: {len(numbers)} read once, {len(missing)} named or deleted, seed {seed}")
    print(f"{errors} errors")


def test_a_drained_query_shows_no_lag(two_regions: LiveCluster) -> None:
    """The latest offset counted the effects of other streams, so the query had a lag for ever."""
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

    from anabranch.pipeline.datasource import StreamReader
    from anabranch.pipeline.schema import default_schema

    add(two_regions, "us", 10)
    options = SourceOptions({"endpoints": endpoints(two_regions), "streams": "orders"}, True)
    reader = StreamReader(options, default_schema("array"))
    try:
        end = reader.latestOffset({}, ReadMaxRows(4))
        assert reader.reportLatestOffset() != end, "six entries are unread"
        end = reader.latestOffset(end, ReadAllAvailable())
        add(two_regions, "us", 10, "others")
        assert reader.reportLatestOffset() == end == reader.latestOffset(end, ReadAllAvailable())
        add(two_regions, "us", 1)
        assert reader.reportLatestOffset() != end
    finally:
        reader.stop()
