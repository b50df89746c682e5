"""Compares two sets of entries by their identities, region log by region log, on Spark.

Entries are equal if stream, region and counter are, and their contents by a hash of 64 bits. The
hash finds files and entries that were damaged; it is no protection against forgery.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

KEYS: Final = ("stream", "region", "counter")


@dataclass(frozen=True)
class LogComparison:
    """One region log, in the archive and elsewhere (in the source, or where it was restored).

    Attributes:
        entries: Entries in the archive.
        size: Bytes of their fields and values.
        twice: Entries that the archive, or the other side, has more than once.
        missing: Entries of the other side that the archive lacks.
        alone: Entries of the archive that the other side lacks.
        differ: Entries with another ID or other fields there.
    """

    stream: str
    region: str
    entries: int
    size: int
    twice: int
    missing: int
    alone: int
    differ: int

    def facts(self, **more: int) -> dict[str, Any]:
        """What a report tells of it as JSON; `more` are missing entries and the like."""
        names = ("stream", "region", "entries", "twice", "differ")
        return {**{name: getattr(self, name) for name in names}, "field_bytes": self.size, **more}


def hashed(frame: DataFrame, fields: Column) -> DataFrame:
    """The identity of each row, the hash of its `id` and `fields`, and the bytes of the fields.

    `fields` is an array of structs of a name and a value, both binary.
    """
    from pyspark.sql import functions as f

    def size(total: Column, one: Any) -> Column:
        return total + f.length(one["name"]) + f.length(one["value"])

    return frame.select(
        *KEYS,
        f.xxhash64("id", fields).alias("hash"),
        f.aggregate(fields, f.lit(0).cast("long"), size).alias("size"),
    )


def compared(archived: DataFrame, other: DataFrame) -> list[LogComparison]:
    """The comparison of two results of `hashed`, by stream and region."""
    from pyspark.sql import functions as f

    def marked(frame: DataFrame, of_archive: int) -> DataFrame:
        sides = (f.lit(of_archive).alias("a"), f.lit(1 - of_archive).alias("o"))
        return frame.select(*KEYS, "hash", "size", *sides)

    dots = (
        marked(archived, 1)
        .unionByName(marked(other, 0))
        .groupBy(*KEYS)
        .agg(
            f.sum("a").alias("a"),
            f.sum("o").alias("o"),
            f.min("hash").alias("low"),
            f.max("hash").alias("high"),
            f.max("size").alias("size"),
        )
    )
    rows = (
        dots.groupBy("stream", "region")
        .agg(
            f.count_if(f.expr("a > 0")).alias("entries"),
            f.coalesce(f.sum(f.when(f.col("a") > 0, f.col("size"))), f.lit(0)).alias("size"),
            f.count_if(f.expr("a > 1 OR o > 1")).alias("twice"),
            f.count_if(f.expr("a = 0")).alias("missing"),
            f.count_if(f.expr("o = 0")).alias("alone"),
            f.count_if(f.expr("low <> high")).alias("differ"),
        )
        .orderBy("stream", "region")
        .collect()
    )
    return [LogComparison(**row.asDict()) for row in rows]
