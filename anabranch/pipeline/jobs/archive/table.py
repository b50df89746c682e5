"""The table of an archive: its columns, and entries as its rows and back.

Names of fields are text for the readers of the table. If a name of an entry is not UTF-8, the
column `raw_names` has all names of the entry as they are, so nothing is lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from anabranch.pipeline.jobs.columns import day, is_text, text

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from anabranch.pipeline.jobs.archive.files import ArchiveFiles

COLUMNS: Final = (
    "stream STRING, id STRING, region STRING, counter BIGINT, ts TIMESTAMP, "
    "fields ARRAY<STRUCT<name: STRING, value: BINARY>>, raw_names ARRAY<BINARY>"
)
# The UTC day of the ID, which names the directory of a file.
DAY: Final = "date"
# Files of a batch and day: so many tasks for each core.
_TASKS_OF_CORE: Final = 4


def prepare(session: SparkSession) -> None:
    """Sets what the files depend on: times that all readers of Parquet understand."""
    session.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")


def rows(entries: DataFrame) -> DataFrame:
    """The rows for entries that the source has read with `fieldsFormat` `raw`, and their day."""
    from pyspark.sql import functions as f

    def field(one: Any) -> Column:
        return f.struct(text(one["name"]).alias("name"), one["value"].alias("value"))

    is_odd = f.exists("fields", lambda one: ~is_text(one["name"]))
    raw_names = f.transform("fields", lambda one: one["name"])
    tasks = entries.sparkSession.sparkContext.defaultParallelism * _TASKS_OF_CORE
    return (
        entries.select(
            *("stream", "id", "region", "counter", "ts"),
            f.transform("fields", field).alias("fields"),
            f.when(is_odd, raw_names).alias("raw_names"),
            day().alias(DAY),
        )
        # Many small streams make many partitions, and each of them would be a file.
        .coalesce(tasks)
        # The statistics of a file then tell readers which streams it does not hold.
        .sortWithinPartitions(DAY, "stream", "region", "counter")
    )


def read(session: SparkSession, files: ArchiveFiles) -> DataFrame:
    """The table."""
    return session.read.schema(COLUMNS).parquet(str(files.entries))


def raw_fields() -> Column:
    """The fields of a row of the table with names as they were, as `fieldsFormat` `raw` has them.

    Names and values are binary.
    """
    from pyspark.sql import functions as f

    def plain(one: Any) -> Column:
        return f.struct(one["name"].cast("binary").alias("name"), one["value"].alias("value"))

    def odd(name: Column, one: Any) -> Column:
        return f.struct(name.alias("name"), one["value"].alias("value"))

    zipped = f.zip_with("raw_names", "fields", odd)
    return f.when(f.col("raw_names").isNull(), f.transform("fields", plain)).otherwise(zipped)
