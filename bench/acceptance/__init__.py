"""The acceptance lines of the first issue as programs: ``python -m bench.acceptance.NAME``.

Each starts regions on loopback by the contract of `anabranch serve`, prints its figures and what they must be, ends the processes by
their ids, and exits with 1 if something is not as it must be. `harness` is what they share; then, by rising violence:
`replication_delay`, `package_index`, `three_way_load`, `kill_region`, `catch_up`, `restored_backup`. Small versions of them without time
limits run in `tests/acceptance`.
"""
