"""Arrivals of past hours, which the effect logs on the disks of the regions tell.

Theory of operation
-------------------
A region writes each effect into its log when it applies it, its own effects and those of others,
with the clock of that moment. CRDT.EFFECTS tells them: dot, position in the log, clock. So an entry
with the dot (origin, counter) arrived in a region at the clock of its row there. The log of its
origin has the clock at which its block ended, which is up to a commit later than the add. So the
entry was added at the ms of its ID, if that lies shortly before this clock; IDs that users choose
may lie anywhere. The two are clocks of two regions, so a lag is as exact as these clocks agree.

The position tells the order in which a region applied entries. A reader with XREAD that began with
the hours that are looked at had read the highest ID of all rows before. An entry is late if its ID
is below that (S7.2). Of one block, only entries of one origin arrive, in ascending order.

A log goes back as far as it is retained, and a snapshot does not tell its entries apart. Arrivals
that are in no log for one of these reasons are counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Optional

from anabranch.answers import vector_of
from anabranch.crdt import ids
from anabranch.crdt.vector import Vector
from anabranch.pipeline.errors import PipelineError
from anabranch.pipeline.jobs.beginning import Beginning
from anabranch.pipeline.jobs.region_client import ConnectionLost, RegionClient
from anabranch.pipeline.jobs.session import shuffle_by_cores
from anabranch.pipeline.options import SourceOptions
from anabranch.pipeline.resp import bytes_of, int_of, list_of, named, printable

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

# Columns of the rows that `rows` makes, as a schema of Spark. A row is an entry at a region other
# than its origin. `arrived_ms` and `lag_ms` are null if the entry had not arrived. `lag_ms` is also
# null if the log of its origin does not tell the add. `below_ms` tells how far the ms of a late ID
# was below that of the cursor.
SCHEMA: Final = (
    "stream STRING, origin STRING, counter BIGINT, id STRING, id_ms BIGINT, region STRING, "
    "arrived_ms BIGINT, lag_ms BIGINT, late BOOLEAN, below_ms BIGINT"
)
_KEY_DIGITS: Final = 20
# Effects of one region that a task reads from one log, and that one answer holds at most.
_PART_EFFECTS: Final = 100_000
_PAGE_EFFECTS: Final = 10_000
# A block ends so long after its first add at most: `everysec` commits every second.
COMMIT_MAX_MS: Final = 2000
_ROWS: Final = (
    "region STRING, stream STRING, origin BIGINT, counter BIGINT, key STRING, "
    "position BIGINT, clock_ms BIGINT"
)


def id_key(ms: int, seq: int) -> str:
    """A text that sorts as the ID does."""
    return f"{ms:0{_KEY_DIGITS}}-{seq:0{_KEY_DIGITS}}"


@dataclass(frozen=True)
class LogRange:
    """Effects of a region that a task reads from the log of `region`: after < counter ≤ end."""

    region: str
    address: tuple[str, int]
    origin: int
    after: int
    end: int


@dataclass
class Logs:
    """What the logs of the regions hold of the hours that are looked at.

    `vectors` are those on the disks of the regions at the time of the look.
    """

    parts: list[LogRange]
    vectors: dict[str, Vector]


def look(begun: Beginning, since_ms: int) -> Logs:
    """Finds where a time begins in each log. Raises ConnectionLost if a region does not answer."""
    found = Logs([], {})
    for name, client in begun.clients.items():
        vector = found.vectors[name] = client.vector()
        if not vector:
            continue
        # Every answer has the floor of the whole log.
        floor = _Page(client, next(iter(vector)), 0, 1).floor
        for origin, end in vector.items():
            after = _before(client, origin, floor.get(origin, 0), end, since_ms)
            for reached in range(after, end, _PART_EFFECTS):
                part_end = min(reached + _PART_EFFECTS, end)
                found.parts.append(LogRange(name, client.address, origin, reached, part_end))
    return found


class _Page:
    """One answer of CRDT.EFFECTS."""

    def __init__(self, client: RegionClient, origin: int, after: int, count: int) -> None:
        facts = named(client.call("CRDT.EFFECTS", origin, after, "COUNT", count, "NOFIELDS"))
        self.events: Final = [named(one) for one in list_of(facts["events"])]
        self.floor: Final[Vector] = vector_of(list_of(facts["log-floor"]))
        after_this = facts["next"]
        # The counter to continue after; None at the end of the log.
        self.next: Final[Optional[int]] = None if after_this is None else int_of(after_this)


def _before(client: RegionClient, origin: int, low: int, high: int, since_ms: int) -> int:
    """The highest counter in low … high up to which a region applied effects before `since_ms`.

    The clock of a region never runs back, so the clocks of an origin's effects ascend with their
    counters, and a bisection finds it.
    """
    while low < high:
        middle = (low + high) // 2
        events = _Page(client, origin, middle, 1).events
        if not events or int_of(events[0]["clock-ms"]) >= since_ms:
            high = middle
        else:
            low = max(_counter(events[0]), middle + 1)
    return low


def _counter(event: dict[str, Any]) -> int:
    return int_of(list_of(event["dot"])[1])


def entries(
    part: LogRange, given: dict[str, str]
) -> Iterator[tuple[str, str, int, int, str, int, int]]:
    """The rows of a part: a row for each add to a stream that the option `streams` names.

    They are region, stream, origin, counter, key of the ID, position, and clock in ms.
    """
    options = SourceOptions(given, False)
    client = RegionClient(part.region, part.address, options)
    after: Optional[int] = part.after
    try:
        while after is not None and after < part.end:
            page = _Page(client, part.origin, after, min(_PAGE_EFFECTS, part.end - after))
            for event in page.events:
                counter = _counter(event)
                if counter > part.end:
                    return
                if event["kind"] != b"add":
                    continue
                stream = printable(bytes_of(event["key"]))
                if not options.names_stream(stream):
                    continue
                entry_id = ids.parse(bytes_of(event["id"]), 0)
                key = id_key(entry_id >> 64, entry_id & ids.MAX_HALF)
                position, clock_ms = int_of(event["position"]), int_of(event["clock-ms"])
                yield part.region, stream, part.origin, counter, key, position, clock_ms
            after = page.next
    except ConnectionLost as error:
        raise PipelineError(f"{part.region} stopped answering: {error}") from None
    finally:
        client.close()


def rows(
    session: SparkSession, logs: Logs, given: dict[str, str], names: dict[int, str]
) -> tuple[DataFrame, int]:
    """The arrivals, as SCHEMA, and how many arrivals no log tells."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    if not logs.parts:
        return session.createDataFrame([], SCHEMA), 0
    shuffle_by_cores(session)
    read = session.sparkContext.parallelize(logs.parts, len(logs.parts)).flatMap(
        partial(entries, given=given)
    )
    before = (
        Window.partitionBy("region", "stream")
        .orderBy("position", "counter")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    told = session.createDataFrame(read, _ROWS).withColumn("cursor", f.max("key").over(before))
    told = told.withColumn("origin_name", _name_of(names)).persist()
    own = told.where("region = origin_name")
    dot = ["origin", "counter"]
    is_generated = (f.col("clock_ms") - _id_ms("key")).between(0, COMMIT_MAX_MS)
    added_ms = f.when(is_generated, _id_ms("key")).otherwise(f.col("clock_ms"))
    added = own.select(*dot, added_ms.alias("added_ms"))
    arrived = told.where("region != origin_name").withColumnRenamed("clock_ms", "arrived_ms")
    arrived = arrived.join(added, dot, "left")
    missing, untold = own.limit(0), 0
    for name, vector in logs.vectors.items():
        elsewhere = own.where(f.col("origin_name") != name).withColumn("region", f.lit(name))
        reached = _reached(vector)
        missing = missing.unionByName(elsewhere.where(f.col("counter") > reached))
        here = told.where(f.col("region") == name).select(*dot)
        untold += elsewhere.where(f.col("counter") <= reached).join(here, dot, "left_anti").count()
    none = f.lit(None).cast("bigint")
    missing = missing.drop("clock_ms").withColumns(
        {"arrived_ms": none, "added_ms": none, "cursor": f.lit(None).cast("string")}
    )
    return _as_schema(arrived.unionByName(missing)), untold


def _name_of(names: dict[int, str]) -> Column:
    """The name of the region in the column `origin`."""
    from pyspark.sql import functions as f

    pairs = [f.lit(one) for region_id, name in names.items() for one in (region_id, name)]
    return f.create_map(*pairs)[f.col("origin")]


def _reached(vector: Vector) -> Column:
    """The counter in a vector of the region in the column `origin`; 0 if the vector lacks it."""
    from pyspark.sql import functions as f

    pairs = [f.lit(one) for pair in {0: 0, **vector}.items() for one in pair]
    return f.coalesce(f.create_map(*pairs)[f.col("origin")], f.lit(0))


def _id_ms(column: str) -> Column:
    """The ms of the ID whose key is in a column; the highest number where it is above that."""
    from pyspark.sql import functions as f

    ms = f.expr(f"try_cast(split({column}, '-')[0] AS BIGINT)")
    return f.coalesce(ms, f.lit((1 << 63) - 1))


def _as_schema(arrived: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    def half(key: str, index: int) -> Column:
        """A number of the ID, as a text without leading zeros."""
        return f.regexp_replace(f.split(key, "-")[index], "^0+(?=.)", "")

    id_ms = _id_ms("key")
    is_late = f.coalesce(f.col("key") < f.col("cursor"), f.lit(False))
    has_arrived = f.col("arrived_ms").isNotNull()
    took_ms = f.col("arrived_ms") - f.col("added_ms")
    return arrived.select(
        "stream",
        f.col("origin_name").alias("origin"),
        "counter",
        f.concat_ws("-", half("key", 0), half("key", 1)).alias("id"),
        id_ms.alias("id_ms"),
        "region",
        "arrived_ms",
        f.when(took_ms.isNotNull(), f.greatest(took_ms, f.lit(0))).alias("lag_ms"),
        f.when(has_arrived, is_late).alias("late"),
        f.when(is_late, _id_ms("cursor") - id_ms).alias("below_ms"),
    )
