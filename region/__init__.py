"""One region: a deterministic engine, and the server, storage and settings around it.

The engine makes all decisions about data. The driver and its parts decide, without I/O, in which
order the region commits, replies and ships. The process, the server and the database perform
that on asyncio.

Reading order:

- `engine`: deterministic decisions about data, commands in, replies and effects out.
- `storage`: database rows and SQL, without I/O.
- `resp`: the client protocol, requests in, encoded replies out.
- `clock`: the clock that is injected into a region.
- `work`: the value that a step of the driver returns.
- `driver`: the order in which a region commits, replies, ships, merges and stops.
- `event_log`: the events of a region for the operator's log.
- `disk_schedule`: the order of commits and checkpoint slices.
- `checkpoints`: when a checkpoint is due, and its steps.
- `effect_log`: size, retention and in-memory tail of the effect log on disk.
- `clients`: all client connections of a region.
- `client_connection`: one client connection, bytes in, bytes out.
- `command_execution`: the turns of clients, commands in, encoded replies out.
- `command_timer`: measures how long commands take.
- `client_limits`: the settings that connections need, and counters of all clients.
- `client_pressure`: bounds on the lines and the unsent output of all clients.
- `held_replies`: the queue of replies that wait for a commit.
- `salvaging`: the merging of the sound part of a damaged log, in a recovery.
- `histories`: answers about the history of a key, read from the log on disk.
- `environment`: variables that set options, that are foreign, and that are mistakes.
- `config`: the configuration from flags, environment and TOML file.
- `starting`: the load from disk that makes a driver.
- `data_files`: the database as a file: its identity, its mark, its write-ahead log.
- `sql_thread`: a connection to SQLite with a thread of its own.
- `database`: what a region asks of SQLite.
- `log_answers`: answers to questions about the log on disk.
- `damaged_log`: reads what is sound in the log of a damaged database.
- `inspection`: a data directory that no region uses: check, backup, restore, repair.
- `stored_identity`: the identity in a data directory, read without changing it.
- `server`: the client sockets on asyncio.
- `http`: the HTTP server of /metrics, /health and /ready.
- `open_files`: the limit of open files, and the number of clients that it allows.
- `process_facts`: memory, CPU, disk and system facts of the process for INFO.
- `system_clock`: the machine's clock.
- `ticker`: how often the periodic work runs: rarely, while nothing is under way.
- `process`: the asyncio process that performs the work of the driver.
"""
