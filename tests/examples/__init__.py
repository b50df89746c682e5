"""Tests of examples/rocket_rides, with SQLite and, in `make test-examples`, with PostgreSQL.

Reading order:

- `postgresql`: a PostgreSQL server of the tests' own.
- `conftest`: the databases of the tests.
- `test_staging`: POST /rides, and transactions of both databases.
- `test_streamer`: staged records are deleted once they are confirmed.
- `test_consumer`: totals and checkpoint in one transaction.
- `test_trimming`: the trimming rule, also on random histories.
- `test_reconciliation`: every kind of difference is named.
- `test_regions_live`: the parts on two real regions, with a fail-over and a partition.
- `test_whole_run`: small whole runs.
"""
