"""The driver: the order in which a region commits, replies, ships, merges and stops. Sans-IO.

Reading order:

- `clock`: the clock that is injected into a region.
- `work`: the value that a step of the driver returns.
- `turn_limits`: the limits of a turn, and the delay before a failed write is retried.
- `driver`: the driver, its rules of order, and its steps.
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
- `eviction`: the limit of the memory of all clients.
- `login_delays`: how long clients wait after wrong passwords of their address.
- `protected_mode`: clients that are refused while there is no password.
- `held_replies`: the queue of replies that wait for a commit.
- `salvaging`: the merging of the sound part of a damaged log, in a recovery.
- `histories`: answers about the history of a key, read from the log on disk.
"""
