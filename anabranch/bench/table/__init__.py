"""The parts of `anabranch bench`: rows with goals, what measures them, and the table.

Each measuring module has a function `measure`, which yields the rows that a run asks of it.

Reading order:

- `rows`: the rows of the table: names, workloads in words, goals, units.
- `values`: measured values, and a whole result as JSON.
- `printing`: a result as a table, for a terminal and for Markdown.
- `servers`: redis-server and a region, each alone, and their CPU.
- `client`: a small pipelining client, and redis-benchmark.
- `workloads`: what clients send for the rows that compare rates.
- `rates`: alternating runs on both servers.
- `idmp`: idempotent adds beside plain ones.
- `memory`: memory per entry, pending entry, IDMP pair and key.
- `start`: the start with a large stream.
- `peers`: a writer with peers, catching up, merging live.
- `delay`: the delay of an add at a peer.
- `idle`: the CPU of a server that nobody asks for anything.
- `many_keys`: the longest wait of a PING while a command runs over all keys.
- `key_peers`: a peer of a region with many keys.
- `key_snapshot`: the longest wait of a PING while a peer gets a snapshot of many keys.
- `growth`: CPU per command as data grow.
- `growth_regions`: CPU per add as the number of regions grows.
- `interpreted`: the interpreted build, beside its rates before.
"""
