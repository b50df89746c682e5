"""anabranch: Redis Streams that several regions write at once.

Reading order:

- `crdt`: the replicated data, as pure functions and structures without I/O.
- `region`: one region: a deterministic engine, and storage, server and settings around it.
- `certificates`: certificates of regions and clients: names, making, files.
- `sync`: the exchange of blocks, vectors and snapshots between regions.
- `study`: what happened in the regions, and why: facts, sentences and drawings.
- `cluster`: regions as processes on this machine, a client, and toxiproxy.
- `pipeline`: streams as tables of Spark.
- `console`: regions, links and streams in the browser.
- `cli`: the `anabranch` command.
- `sim`: the simulator, its judges, and scenario files.
- `chaos`: real regions under real faults.
- `bench`: benchmarks and acceptance programs, which only a source tree has.
- `build`: the choice between the compiled and the interpreted hot modules.
- `answers`: vectors, members and INFO in the answers of a region.
- `log_lines`: the lines of a log, as text or as JSON.
- `hidden_arguments`: hides passwords in the arguments of a process.
- `escapes`: any bytes as text that is safe to show, and back.
- `plural`: counts with their nouns, for messages.
- `whole_file`: files that are replaced as a whole.
- `file_modes`: who may read the files of a region.
- `__main__`: the entry point of the command and of `python -m anabranch`.
"""

# This import stands first because `build` chooses between compiled and interpreted modules.
from anabranch import build as build
