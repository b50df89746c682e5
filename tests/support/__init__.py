"""Helpers that the tests share.

Reading order:

- `ports`: the ports of this test process.
- `processes`: waiting for the processes that tests start.
- `engines`: engines without a process.
- `engine_cluster`: a few engines, driven by hand.
- `cluster`: a live cluster of region processes.
- `generated`: the parts of docs/ that scripts write.
- `fixtures`: the pytest fixtures on top of these, and a redis-server to compare with.
"""
