"""The engine: deterministic decisions about data, without clock, I/O or randomness.

Commands go in, replies and effects come out. The caller gives the time with each call.

Reading order:

- `engine`: the engine: its parts, and time.
- `client_calls`: its calls for clients.
- `disk_calls`: its calls for the disk.
- `peer_calls`: its calls for peers.
- `link_calls`: its calls for links.
- `snapshot_calls`: its calls for snapshots.
- `salvage_calls`: its calls for a salvage.
- `steps`: the execution of commands, and what follows each step.
- `state`: the parts of an engine, which all modules and commands share.
- `clock`: the engine's time, one reading per step.
- `setting`: a setting, and how a value is written.
- `access_settings`: the settings that say who may use a region.
- `tls_settings`: the settings of TLS between regions.
- `client_settings`: the settings of client connections, and of what one command may ask for.
- `settings`: the table of all settings, and their values.
- `replies`: reply values and client errors.
- `session`: the state of one client connection.
- `batch`: commands that a client sent one after the other, and that are alike.
- `table`: the classes of the command table.
- `registry`: the command table.
- `refused`: commands of Redis that a region refuses with a reason.
- `dispatch`: the checks before a command runs, and the queue of MULTI.
- `commands`: the command handlers.
- `adds`: adds that follow an XADD in a client's input, and are executed with it.
- `writer`: the only way to issue effects and local records.
- `journal`: the open block, and the rows that wait for a commit.
- `rows`: the rows of the effect log, and commits.
- `disk`: the part of the state that is on disk.
- `commit_schedule`: requests for a commit or a sync round.
- `rounds`: commits, sync rounds, announced acknowledgements and attestations.
- `outbox`: late replies and other output between calls.
- `waiting`: clients that wait.
- `merging`: blocks and snapshots from peers.
- `idempotency`: idempotent adds and their conflicts.
- `deadlines`: the deadlines that are in force, by time.
- `contents`: counts of the contents of the keyspace.
- `upkeep`: what deadlines cause, and the collection of stable tombstones, clears and pairs.
- `members`: the table of members.
- `member_clocks`: the clocks of the members, and whether this region's is apart from them.
- `peers`: the state of the links to each other region.
- `start_askings`: who answered the start.
- `known_recoveries`: the recoveries of other regions that were heard of.
- `lost_words`: who says that the region is lost.
- `lifecycle`: start, serving and recovery.
- `lags`: how far regions are behind each other in time, and how long effects travel.
- `gossiping`: gossip between regions.
- `stability`: causal stability.
- `history`: the rows of the log as events of one key.
- `effects_after`: the effects of one region after a counter, as events.
- `questions`: questions of clients to the log on disk.
- `stable_time`: the floor of generated IDs, and the stable time of ordered reads.
- `explain`: the reply of CRDT.EXPLAIN.
- `statistics`: counters for INFO and /metrics.
- `slow_log`: the last commands that took long.
- `passwords`: commands without the passwords in them.
- `access_log`: the last wrong passwords.
- `loopback`: whether a client has connected over loopback.
- `histogram`: counts of measured times.
- `figures`: the table of all figures, and the health of a region.
- `glob`: Redis glob patterns.
- `errors`: the error of the region's own disk.
"""
