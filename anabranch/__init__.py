"""anabranch: Redis Streams that several regions write at once.

The folders of this package, in reading order:

1. `crdt`: the replicated data. Pure functions and structures, without I/O.
2. `region`: one region. A deterministic engine, and storage, server and settings around it.
3. `sync`: how regions exchange what they hold.
4. `cli`: the `anabranch` command.
5. `sim`: the simulator, its judges, and scenario files.
6. `bench`: benchmarks and acceptance programs. Only a source tree has it.

`build` says whether the hot modules run compiled or interpreted.
"""

from anabranch import build as build  # First of all: it chooses the build.
