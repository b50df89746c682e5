"""Tests of the driver, in whole regions without a process (`region/driver`).

Reading order:

- `regions`: regions with real drivers on SQLite in memory, and the connections between them.
- `test_links`: two drivers and the links between them.
- `test_effect_log`: the size, the floor and the tail of the log.
- `test_events`: the lines of the operator's log.
- `test_lost_region`: a region that was said to be lost comes back.
"""
