"""The jobs of `anabranch pipeline`: each is a Spark application over the streams of a cluster.

Each job is a module with a class of its options and a function `run`, which takes a session, the
options and a bar, and returns a `Report`. `cli.pipeline` calls them.

Reading order:

- `session`: the Spark session of a job, and Spark's errors as lines for people.
- `progress`: the bar of a job.
- `report`: what a job found: for people, as JSON, as Parquet.
- `differences`: a difference between regions, and its causes.
- `key_state`: compares the state of a stream beside its entries.
- `entry_sets`: compares the entries of a range.
- `audit_door`: one region as the audit asks it.
- `audit_task`: one task of the audit.
- `audit_report`: the report of the audit.
- `audit`: compares all regions.
- `arrivals`: when entries arrived in a region, and which an XREAD cursor skipped.
- `watching`: watches how far each region is.
- `lag_report`: the report of `lag`.
- `lag_plots`: its plots.
- `lag`: how late entries arrive.
"""
