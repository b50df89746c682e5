"""Tests of the build and of the docs.

Reading order:

- `test_build`: the compiled and the interpreted build.
- `test_docs`: the pages match the code.
"""
