"""Small versions of the acceptance programs of `anabranch.bench.acceptance`.

Reading order:

- `test_acceptance`: each program, with a small load.
- `test_ordered_reads`: the recipe of docs/ordered-reads.md, against three live regions.
"""
