"""A running region on asyncio and files. These parts perform the work of the driver.

Reading order:

- `serving`: the run of a region, from the start on its files to its end.
- `process`: the asyncio process that performs the work of the driver.
- `starting`: the load from disk that makes a driver.
- `failed_ends`: ends by errors of the region itself, and how often one place may end it.
- `uncaught`: errors that no step catches, in threads and callbacks.
- `server`: the client sockets on asyncio.
- `http`: the HTTP server of /metrics, /health and /ready.
- `database`: what a region asks of SQLite.
- `sql_errors`: what a failure of SQLite means to a region.
- `sql_safety`: connections to files that may come from somebody else.
- `sql_thread`: the connection that writes, with a thread of its own.
- `sql_connections`: the connections that the database needs, and those to real files.
- `log_answers`: answers to questions about the log on disk.
- `data_files`: the database as a file: its identity, its mark, its write-ahead log.
- `stored_identity`: the identity in a data directory, read without changing it.
- `damaged_log`: reads what is sound in the log of a damaged database.
- `inspection`: a data directory that no region uses: check, backup, restore, repair.
- `system_clock`: the machine's clock.
- `ticker`: how often the periodic work runs: rarely, while nothing is under way.
- `process_facts`: memory, CPU, disk and system facts of the process for INFO.
- `open_files`: the limit of open files, and the number of clients that it allows.
"""
