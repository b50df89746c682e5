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
- `seed_rows`: results of simulated seeds as rows of a table.
- `sweep_report`: the report of a sweep.
- `sweep`: simulated seeds on the executors.
- `folders`: a lock, and small files that are written as a whole.
- `columns`: columns that several jobs derive.
- `names`: names of streams as the option `streams` takes them.
- `row_sets`: compares two sets of entries.
- `archive_files`: the files of an archive, batch by batch.
- `archive_table`: the columns of an archive.
- `archive_report`: what a run of `archive` found.
- `archive`: adds the new entries of streams to an archive.
- `restore_report`: what a run of `restore` found.
- `restore`: adds the entries of an archive to streams.
- `arrivals`: when entries arrived in a region, and which an XREAD cursor skipped.
- `watching`: watches how far each region is.
- `lag_report`: the report of `lag`.
- `lag_plots`: its plots.
- `lag`: how late entries arrive.
- `numbers`: exact sums of the values of fields.
- `totals_state`: the state of running totals in Spark.
- `totals_folder`: the checkpoint of running totals, and where they are put out.
- `totals_report`: what a run of `totals` found.
- `totals`: running totals by key.
"""
