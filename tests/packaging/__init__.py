"""Tests of the build and of the docs.

Reading order:

- `test_build`: the compiled and the interpreted build.
- `test_install`: installation in empty environments.
- `test_install_script`: what `make up` installs, and when.
- `test_docs`: the pages match the code.
- `source_index`: the names of the source tree.
- `references`: backticked references, and their resolution against these names.
- `test_references`: references in docs, docstrings and comments lead somewhere.
"""
