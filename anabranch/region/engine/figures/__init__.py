"""The figures of a region: one table for INFO (`# CRDT` and others), for /metrics and for the docs.

Reading order:

- `shared`: figures that commands show, too.
- `figure`: the classes of the table's rows.
- `state_rows`: rows about alarms, state, disk and limits.
- `data_rows`: rows about the contents of the keyspace, and about effects, sync and conflicts.
- `stream_rows`: rows about single streams and groups, behind a limit.
- `stable_rows`: rows about the stable time.
- `link_rows`: rows about the links with each other region.
- `client_rows`: rows about clients and commands.
- `table`: all rows, and the figures that INFO and /metrics take from them.
- `health`: the answers of /health and /ready.
"""
