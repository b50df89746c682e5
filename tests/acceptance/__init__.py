"""Small versions of the acceptance programs of `anabranch.bench.acceptance`.

Reading order:

- `test_acceptance`: each program, with a small load.
- `test_package_records`: the parser of the package index.
"""
