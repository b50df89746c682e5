"""The acceptance criteria of the first issue as programs.

``anabranch bench acceptance.NAME`` runs one of them in a checkout, with the build to which that
``anabranch`` belongs. (``python -m anabranch bench acceptance.NAME`` in a checkout runs the
interpreted modules of the source tree.) Each program starts regions on loopback with `anabranch
serve`, prints their build, its figures and its requirements, ends the processes by their ids, and
exits with 1 if a requirement is not met. Small versions of the programs, without time limits, run
in `tests/acceptance`. What clients see while regions and links fail is the subject of `anabranch
chaos`.

Reading order:

- `stable_delay`: how far the stable time lies behind the clock, and what it costs idle regions.
- `damaged_files`: flipped and missing bytes in the files of a region.
- `malformed_messages`: malformed bytes and messages, for the next one.
- `malformed_peers`: malformed messages at the port where regions meet.
- `spark_cluster`: a standalone Spark and the driver of a query, for the programs that need them.
- `spark_queries`: the streaming queries of the next ones, each in a process of its own.
- `spark_sink`: the Spark sink while executors, drivers and a region are killed.
- `spark_stream`: the Spark source while links are cut, and drivers and workers are killed.
- `failing_allocation`: allocations of another process that fail on demand.
- `promised_writes`: clients that remember what a region has promised them.
- `out_of_memory`: regions that run out of memory while clients write.
- `console`: the console in a real Chromium: first paint, live updates, idle cost.
- `watched_rate`: adds to a region that the console watches, beside one that nobody watches.
- `many_clients`: thousands of idle clients, and hundreds of slow ones.
- `held_up`: how long one command, pipeline or snapshot keeps other clients waiting.
- `strangers`: clients that never give the password and never read, and idle HTTP connections.
- `clocks`: regions that start with a clock that is wrong, by libfaketime.
"""
