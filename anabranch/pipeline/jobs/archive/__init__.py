"""`anabranch pipeline archive` and `restore`: streams to Parquet files, and back.

Reading order:

- `names`: names of streams as the option `streams` takes them.
- `row_sets`: compares two sets of entries.
- `files`: the files of an archive, batch by batch.
- `table`: the columns of an archive.
- `report`: what a run of `archive` found.
- `job`: adds the new entries of streams to an archive.
- `restore_report`: what a run of `restore` found.
- `restore`: adds the entries of an archive to streams.
"""
