"""Regions as processes on this machine: started, asked, disturbed and ended.

The command line, chaos, benchmarks, the scenario runner and tests share these parts.

Reading order:

- `errors`: the errors of this package.
- `ports`: ports on which no process listens.
- `signals`: how a process is started without a signal in between.
- `processes`: the beginning and the end of a process, its log, and waiting.
- `client`: a small blocking client of a region.
- `regions`: the processes of regions that dial each other.
- `toxiproxy`: the API of a toxiproxy server.
- `toxiproxy_server`: the server as a process.
"""
