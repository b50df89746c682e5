"""The world of a run: real regions on simulated clocks, networks and disks.

Reading order:

- `scheduler`: virtual time and its events.
- `trace`: the lines that a run leaves, hashed for every run and printed in a replay.
- `environment`: the time, trace, counters and judges that all parts of a world share.
- `file`: a simulated file, and what a power cut leaves of it.
- `disk`: a simulated disk with its faults.
- `vfs`: runs real SQLite on a simulated disk.
- `network`: the connections between regions.
- `lines`: the connections of clients to a region's process.
- `watchers`: what watches the calls of an engine.
- `tap`: makes a value of each call of an engine that has ended.
- `tapped`: the real engine, which tells of its calls.
- `reports`: what the calls of one process tell: operations, movements of the vector, late replies.
- `inside`: the rules that show only inside a region's engine.
- `links`: what a region must do about its links by itself.
- `planted_error`: an error that strikes inside a step of a process.
- `file_work`: the transactions and reads of one process, which take time.
- `process`: one process of a region, with the real driver.
- `region`: one machine, and its processes one after the other.
- `world`: all regions, clients and judges of a run.
- `faults`: each kind of fault, how it strikes and how it ends.
- `draining`: reads every group to its end after convergence.
- `quiet`: the quiet spell at the end of a run.
- `rereading`: reads the files of a region at the end of a run, and compares them with the region.
"""
