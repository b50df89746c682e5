"""Complete programs that use anabranch as any application would.

They import nothing of anabranch: they speak to regions through redis-py or the data source of
Spark, and start a cluster with the command `anabranch up`. They are part of the source tree, and
are not installed.

Reading order:

- `rocket_rides`: the unified log of a ride service, in two regions.
- `totals`: running totals by key, as a streaming query of Spark.
"""
