"""The jobs of `anabranch pipeline`: each is a Spark application over the streams of a cluster.

Each job is a package. Its module `job` has a class of its options and a function `run`, which takes
a session, the options and a bar, and returns a `Report`. `cli.pipeline` calls them.

Reading order:

- `session`: the Spark session of a job, and Spark's errors as lines for people.
- `progress`: the bar of a job.
- `report`: what a job found: for people, as JSON, as Parquet.
- `folders`: new directories, a lock, and small files that are written as a whole.
- `checkpoints`: what the checkpoint of a query says about its micro-batches.
- `landmarks`: entries by which a job recognises its cluster.
- `columns`: columns that several jobs derive.
- `key_state`: the state of a stream beside its entries, as a region tells it.
- `region_client`: one region as a job asks it.
- `beginning`: which regions answer, and which streams they hold.
- `audit`: compares all regions, and lists every difference with its cause.
- `lag`: how late entries arrive, and which an XREAD cursor skips.
- `archive`: streams to Parquet files, and back.
- `sweep`: the simulator's seeds on executors.
"""
