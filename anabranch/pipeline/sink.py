"""The writers that Spark calls for queries that write to the format `anabranch`.

The driver makes a writer for each query, or for each micro-batch, and checks the stream there. Each
task gets a copy. After the tasks of a micro-batch the driver makes another writer for the commit.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, Optional

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from anabranch.pipeline.adding import Adder, Task
from anabranch.pipeline.errors import OptionError, PipelineError
from anabranch.pipeline.pairs import SUM_MASK, Pairs, RowToAdd
from anabranch.pipeline.progress import Done, finish, other_rows, read_progress, region_ms, too_old
from anabranch.pipeline.regions import Rotation, takes_no_writes
from anabranch.pipeline.resp import Connection, encoded
from anabranch.pipeline.rows import RowMaker, check_columns
from anabranch.pipeline.sink_options import SinkOptions
from anabranch.pipeline.window import checked_window

if TYPE_CHECKING:
    import pyarrow as pa

# Where Spark tells a task which query and which micro-batch it belongs to.
QUERY_ID: Final = "sql.streaming.queryId"
BATCH_ID: Final = "streaming.sql.batchId"


class Added(WriterCommitMessage):
    """What a task tells the driver: the query, the rows of the task, and their sum."""

    def __init__(self, query: str, rows: int, total: int) -> None:
        self.query: Final = query
        self.rows: Final = rows
        self.total: Final = total


def checked_options(
    given: dict[str, str], schema: StructType, overwrite: bool, is_streaming: bool
) -> SinkOptions:
    """The options of a writer. Raises OptionError for what the sink cannot do."""
    options = SinkOptions(given)
    if overwrite:
        raise OptionError(
            "a stream is only added to: use outputMode append or update, not complete"
            if is_streaming
            else 'a stream is only added to: use mode("append"), not overwrite'
        )
    check_columns(schema, options)
    return options


def prepare(options: SinkOptions) -> int:
    """Checks the window of the option `stream`, and sets it if asked; returns the region's time.

    The time is in ms. Raises PipelineError.
    """

    def question(connection: Connection) -> int:
        if options.stream:
            checked_window(connection, encoded(options.stream), options, may_set=True)
        return region_ms(connection)

    return Rotation(options).ask(question, takes_no_writes)


def context() -> TaskContext:
    """The context of the task that runs here."""
    found = TaskContext.get()
    assert found is not None, "a writer writes in a task"
    return found


def _write(
    batches: Iterator[pa.RecordBatch], options: SinkOptions, task: Task, pairs: Pairs
) -> Added:
    adder = Adder(options, task, pairs)
    maker = RowMaker(options, task.place)

    def rows() -> Iterator[RowToAdd]:
        for batch in batches:
            yield from maker.rows(batch)

    adder.begin()
    adder.add(rows())
    return Added(task.query, adder.rows, pairs.sum)


class BatchWriter(DataSourceArrowWriter):
    """Writes the rows of a batch query. A task that is repeated adds its rows once."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._begun_ms = prepare(options)
        self._writer = options.producer or str(uuid.uuid4())

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Adds the rows of one partition, on an executor."""
        options, part = self._options, context().partitionId()
        prefix = self._writer if options.id_column else f"{self._writer}/{part}"
        task = Task(f"partition {part}", "", 0, self._begun_ms)
        return _write(iterator, options, task, Pairs(prefix, bool(options.id_column)))


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes the rows of a micro-batch. A micro-batch that is repeated adds its rows once."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        prepare(options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Adds the rows of one partition, on an executor."""
        options, here = self._options, context()
        query, number = here.getLocalProperty(QUERY_ID), here.getLocalProperty(BATCH_ID)
        if not query or not number:
            raise PipelineError(
                f"Spark has not said which query and which micro-batch a task writes ({QUERY_ID}: "
                f"{query}, {BATCH_ID}: {number}). Without them a repeated row cannot be recognised"
            )
        part = here.partitionId()
        prefix = options.producer or query
        if not options.id_column:
            prefix = f"{query}/{number}/{part}"
        task = Task(f"batch {number}, partition {part}", query, int(number), 0)
        return _write(iterator, options, task, Pairs(prefix, bool(options.id_column)))

    def commit(self, messages: list[Optional[WriterCommitMessage]], batchId: int) -> None:
        """Notes that a micro-batch is done, before Spark does so in the checkpoint."""
        added = [one for one in messages if isinstance(one, Added)]
        if not added:
            return
        total = sum(one.total for one in added) & SUM_MASK
        now = Done(sum(one.rows for one in added), total)
        # Every refusal may come from one region only: the batch is on disk, and must be noted.
        Rotation(self._options).ask(
            lambda connection: _finish(connection, added[0].query, batchId, now), lambda text: True
        )

    def abort(self, messages: list[Optional[WriterCommitMessage]], batchId: int) -> None:
        """Nothing to do: the rows that were added are recognised when the batch is repeated."""


def _finish(connection: Connection, query: str, batch: int, now: Done) -> None:
    """Notes that a batch is done; if it was done before, checks that it had the same rows."""
    progress = read_progress(connection, query, batch)
    if not progress.is_done:
        finish(connection, query, batch, now)
        # Its reply says that the note is on disk.
        connection.call("CRDT.VECTOR")
    elif progress.done is None:
        raise too_old(batch, query)
    elif (progress.done.rows, progress.done.total) != (now.rows, now.total):
        raise other_rows(batch, query, progress.done, now)
