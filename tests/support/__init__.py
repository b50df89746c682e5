"""Helpers that the tests share.

Reading order:

- `ports`: free ports on the loopback address.
- `processes`: stopping processes, limiting their files, and waiting for conditions.
- `engines`: engines without a process.
- `engine_cluster`: a few engines, driven by hand.
- `cluster`: a live cluster of region processes.
- `generated`: the parts of docs/ that scripts write.
- `fixtures`: the pytest fixtures on top of these, and a redis-server to compare with.
"""
