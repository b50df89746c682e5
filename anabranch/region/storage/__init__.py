"""Storage without I/O (S13.1): it turns state into SQL and parameters, and rows into state.

`region/live/database.py` runs the SQL.

Reading order:

- `sums`: checksums of rows.
- `schema`: the tables, and their version.
- `schema_check`: what a database has that no region makes.
- `log`: the effect log as rows.
- `key_index`: the index of the log by key.
- `history`: questions about the rows that change a key.
- `checkpoint`: checkpoints of changed keys.
- `slices`: the rows of captured keys, in transactions of bounded size.
- `loading`: the start, from the checkpoint and the log after it.
- `key_loading`: the keys of the checkpoint, read side by side with their parts and nodes.
- `salvage`: blocks of a damaged log, for the recovery of a rebuilt region.
- `wal`: damage in SQLite's write-ahead log.
"""
