"""The Spark data source `anabranch`: `spark.read` and `spark.readStream`, and the sink."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, Optional

import pyspark
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    Filter,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from anabranch.pipeline.errors import OptionError, PipelineError
from anabranch.pipeline.filters import Bounds
from anabranch.pipeline.offsets import Offset, Range, joined, read_offset
from anabranch.pipeline.options import FORMATS, SourceOptions
from anabranch.pipeline.planning import Planner, check_order
from anabranch.pipeline.reading import read_range
from anabranch.pipeline.schema import check_schema, default_schema
from anabranch.pipeline.sink import BatchWriter, StreamWriter, checked_options

if TYPE_CHECKING:
    import pyarrow as pa

OLDEST_SPARK: Final = (4, 3)

if tuple(int(part) for part in pyspark.__version__.split(".")[:2]) < OLDEST_SPARK:
    raise ImportError(
        f"anabranch.pipeline needs PySpark 4.3 or later, and this is {pyspark.__version__}: "
        "pip install 'anabranch[spark]'"
    )


class RangePartition(InputPartition):
    """The work of one task; without a range there is nothing to read."""

    def __init__(self, value: Optional[Range]) -> None:
        super().__init__(value)


class AnabranchDataSource(DataSource):
    """`format("anabranch")`. The options are those of `pipeline/options.py`, and
    `pipeline/sink_options.py` for a query that writes.

    Example::

        spark.dataSource.register(AnabranchDataSource)
        rows = (
            spark.read.format("anabranch")
            .option("endpoints", "us=127.0.0.1:7001,eu=127.0.0.1:7002")
            .option("streams", "orders")
            .load()
        )
    """

    @classmethod
    def name(cls) -> str:
        """The name for `format`."""
        return "anabranch"

    def schema(self) -> StructType:
        """The columns stream, id, region, counter, ts and fields."""
        given = {name.lower(): value for name, value in self.options.items()}
        fields_format = given.get("fieldsformat", "array").lower()
        # A wrong format is reported by `SourceOptions`, with the formats that there are.
        return default_schema(fields_format if fields_format in FORMATS else "array")

    def reader(self, schema: StructType) -> DataSourceReader:
        """The reader of a batch query. Raises PipelineError for wrong options."""
        options = SourceOptions(self.options, is_streaming=False)
        check_schema(schema, options.fields_format)
        if options.pushes_filters:
            return FilteringReader(options, schema)
        return BatchReader(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """The reader of a streaming query. Raises PipelineError for wrong options."""
        options = SourceOptions(self.options, is_streaming=True)
        check_schema(schema, options.fields_format)
        return StreamReader(options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """The writer of a batch query. Raises PipelineError for wrong options or columns."""
        return BatchWriter(checked_options(dict(self.options), schema, overwrite, False))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """The writer of a micro-batch. Raises PipelineError for wrong options or columns."""
        return StreamWriter(checked_options(dict(self.options), schema, overwrite, True))


def _read(
    partition: InputPartition, options: SourceOptions, schema: StructType
) -> Iterator[pa.RecordBatch]:
    """The rows of one partition. Spark makes a partition of None where there is none to read."""
    from pyspark.sql.pandas.types import to_arrow_schema

    wanted = partition.value
    if wanted is None:
        return iter(())
    return read_range(wanted, options, to_arrow_schema(schema, timezone="UTC"))


class BatchReader(DataSourceReader):
    """Reads from `startingOffsets` to `endingOffsets`."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._bounds = Bounds()

    def partitions(self) -> list[InputPartition]:
        """The ranges that tasks read."""
        planner = Planner(self._options)
        try:
            start, end = planner.start(), planner.end()
            check_order(start, end)
            wanted = self._bounds.narrowed(planner.ranges(start, end), planner.regions)
            return [RangePartition(one) for one in planner.partitions(wanted)]
        finally:
            planner.regions.close()

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of one partition, as Arrow batches."""
        return _read(partition, self._options, self._schema)


class FilteringReader(BatchReader):
    """As `BatchReader`, with filters pushed down.

    Spark refuses a reader with this method unless `spark.sql.python.filterPushdown.enabled` is
    true. So it is a class of its own, and the option `pushFilters` chooses it. Spark (4.3) keeps
    the partitions for later queries of the same DataFrame, and asks again only if these have
    filters that it can push down. So the option is for a DataFrame that one query uses.
    """

    def pushFilters(self, filters: list[Filter]) -> list[Filter]:
        """Notes what the filters exclude. Spark evaluates all of them again."""
        for one in filters:
            self._bounds.take(one)
        return filters


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads what was added since the offset of the last micro-batch."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._open_planner: Optional[Planner] = None
        # With Trigger.AvailableNow the query ends at the first offset that is latest.
        self._is_for_now = False
        self._target: Optional[Offset] = None
        # Where the newest micro-batch ends.
        self._end: Offset = {}

    def __getstate__(self) -> dict[str, Any]:
        # The reader goes to executors, its connection does not.
        return {**self.__dict__, "_open_planner": None}

    @property
    def _planner(self) -> Planner:
        if self._open_planner is None:
            self._open_planner = Planner(self._options)
        return self._open_planner

    def initialOffset(self) -> Offset:
        """Where a new query begins (`startingOffsets`). Raises PipelineError for a wrong place."""
        return self._planner.streaming_start()

    def getDefaultReadLimit(self) -> ReadLimit:
        """The limit of a micro-batch (`maxEntriesPerTrigger`)."""
        limit = self._options.entries_max
        return ReadMaxRows(limit) if limit else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """The query ends at what there is when Spark asks for the first micro-batch."""
        self._is_for_now = True

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> Offset:
        """The end of the next micro-batch: what the read region has applied, within the limit."""
        begin = read_offset(start)
        planner = self._planner
        end = planner.latest(begin)
        if self._is_for_now:
            if self._target is None:
                self._target = end
            end = planner.without_removed(joined(begin, self._target))
        if isinstance(limit, ReadMaxRows):
            end = planner.limited(begin, end, limit.max_rows)
        elif not isinstance(limit, ReadAllAvailable):
            raise OptionError(f"this source has no limit of the kind {type(limit).__name__}")
        self._end = end
        return end

    def reportLatestOffset(self) -> Optional[Offset]:
        """Where the next micro-batch would end, for the progress of the query.

        It is the end of the newest one if nothing is unread: a log without new entries stays where
        it is. None if no region answers, or entries are lost, which the next micro-batch tells.
        """
        try:
            return self._planner.latest(self._end)
        except PipelineError:
            return None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The ranges that tasks read in one micro-batch."""
        planner = self._planner
        wanted = planner.ranges(read_offset(start), read_offset(end))
        return [RangePartition(one) for one in planner.partitions(wanted)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of one partition, as Arrow batches."""
        return _read(partition, self._options, self._schema)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing to do: Spark keeps the offsets."""

    def stop(self) -> None:
        """Closes the connection of the driver."""
        if self._open_planner is not None:
            self._open_planner.regions.close()
