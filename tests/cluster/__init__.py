"""Tests of the parts with which clusters are run on this machine.

Reading order:

- `test_ports`: free ports.
- `test_signals`: a process that was started is known.
- `test_processes`: the end of processes.
- `test_client`: the small client.
- `test_regions`: the command lines of regions.
"""
