"""The commands of a region, one file per subject. Each file ends with its command table rows.

A handler takes the engine's state, the session and the arguments, and returns a reply value.
It raises `CommandError` for a client's mistake. `registry` collects the rows of all files.

Reading order:

- `arguments`: parses arguments and builds replies and errors that several commands share.
- `trimming`: XTRIM, and the trim options that XADD shares with it.
- `adding`: XADD, and batches of it.
- `removing`: XDEL and XSETID.
- `xcfgset`: XCFGSET and XIDMP, the configuration of idempotent adds.
- `reading`: XLEN, XRANGE, XREVRANGE and XREAD.
- `groups`: XGROUP.
- `group_reading`: XREADGROUP.
- `pending`: XACK, batches of it, and XPENDING.
- `claiming`: XCLAIM and XAUTOCLAIM.
- `stream_info`: XINFO.
- `keys`: commands on whole keys, such as DEL, RENAME, SCAN and FLUSHALL.
- `objects`: OBJECT and MEMORY, about how keys are held in memory.
- `expiry`: EXPIRE and its relatives.
- `transactions`: MULTI, EXEC, DISCARD, WATCH and UNWATCH.
- `replication`: the CRDT.… commands and WAIT.
- `membership`: CRDT.MEMBER.
- `studying`: CRDT.EXPLAIN, CRDT.HISTORY and CRDT.EFFECTS, states, the reasons for them, events.
- `group_facts`: CRDT.GROUPS, groups in counters of region logs.
- `bulk_reading`: CRDT.LOGS, CRDT.SPLIT and CRDT.NODES, which analysis reads streams with.
- `connection`: PING, HELLO, AUTH and the other commands about the connection itself.
- `client`: CLIENT.
- `client_line`: the line of CLIENT LIST about a connection.
- `client_ending`: CLIENT KILL and CLIENT UNBLOCK.
- `configuration`: CONFIG.
- `introspection`: COMMAND.
- `info`: the text of INFO.
- `clocks`: CRDT.CLOCK.
- `operating`: INFO, TIME, DEBUG and SHUTDOWN.
- `server`: ROLE, LASTSAVE and MODULE, which tools ask a server for.
- `slow_commands`: SLOWLOG.
- `acl`: ACL, about the only user, the categories of commands and wrong passwords.
"""
