"""Benchmarks and acceptance programs.

Reading order:

- `redis_comparison`: one region beside redis-server: rates, memory, restarts.
- `malformed`: mutated RESP against a live region.
- `acceptance`: the acceptance criteria of the first issue as programs.
"""
