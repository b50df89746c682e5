"""Tests of scenario files: the parser, the runner, and all files on a live cluster.

Reading order:

- `test_parser`: scenario files as values, and the errors of the parser.
- `test_runner`: the runner, on a fake cluster.
- `test_live`: every scenario file, against region processes.
"""
