"""Benchmarks and acceptance programs: `anabranch bench NAME` runs one in a checkout.

Reading order:

- `redis_comparison`: one region beside redis-server: rates, memory, restarts.
- `pipeline_read`: reading a stream for analysis, with Spark and beside loops of redis-py.
- `malformed`: mutated RESP against a live region.
- `acceptance`: the acceptance criteria of the first issue as programs.
"""
