"""Benchmarks and acceptance programs: `anabranch bench NAME` runs one in a checkout.

Reading order:

- `harness`: figures and checks of a whole cluster that the programs share.
- `table`: the rows of the table of speed, and what measures them.
- `performance`: the table of speed: a region beside redis-server, with goals.
- `profile_row`: where a region spends CPU in a row of that table.
- `profile_memory`: what the memory of a row of that table consists of.
- `pipeline_read`: reading a stream for analysis, with Spark and beside loops of redis-py.
- `containers`: parts of anabranch beside libraries that could stand in their place.
- `first_run`: how long `make up` and `make test` take in a fresh copy of the checkout.
- `malformed`: mutated RESP against a live region.
- `acceptance`: the acceptance criteria of the first issue as programs.
"""
