"""Lets PySpark find the data source `anabranch` by itself, without `spark.dataSource.register`.

PySpark looks for modules whose names begin with `pyspark_`, and registers their `DefaultSource`.
"""

from __future__ import annotations

from anabranch.pipeline.datasource import AnabranchDataSource as DefaultSource

__all__ = ["DefaultSource"]
