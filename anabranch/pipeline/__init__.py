"""The data pipeline: streams as tables of Spark, to read and to add to.

`AnabranchDataSource` is the data source for `spark.dataSource.register`. It needs the extra
`anabranch[spark]`; so do `arrow`, `schema`, `rows` and `sink`. The other modules
need only Python and librt.

Reading order:

- `errors`: the errors that users of Spark see.
- `resp`: a small client of a region, for executors.
- `offsets`: how far a query has read, by stream and region, and the ranges between.
- `options`: the options of the source.
- `regions`: finds a region that answers, and asks it about streams.
- `losses`: the errors that name entries which are gone.
- `planning`: up to where a query reads, and its partitions.
- `filters`: filters that Spark pushes down.
- `reading`: reads one range of a region log in a task.
- `column_buffers`: the buffers of columns.
- `node_columns`: decodes packed nodes into the buffers of Arrow columns.
- `entry_hashes`: hashes the entries of packed nodes.
- `arrow`: makes record batches of those buffers.
- `schema`: the columns, and the check of a schema of the user.
- `sink_options`: the options of the sink.
- `pairs`: the pair by which a region recognises a row.
- `window`: how long a stream recognises rows.
- `progress`: which batches of a query were begun, and which are done.
- `adding`: adds the rows of one task.
- `rows`: rows of a table as entries.
- `sink`: the writers that Spark calls.
- `datasource`: the classes that Spark calls.
- `jobs`: the jobs of `anabranch pipeline`.
"""

from __future__ import annotations

from typing import Any

__all__ = ["AnabranchDataSource"]


def __getattr__(name: str) -> Any:
    # Imported on demand: the jobs of a region do not need PySpark.
    if name == "AnabranchDataSource":
        from anabranch.pipeline.datasource import AnabranchDataSource

        return AnabranchDataSource
    raise AttributeError(f"module {__name__} has no attribute {name}")
