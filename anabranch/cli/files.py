"""Files that commands write."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from anabranch.cli.errors import UsageError


def checked_json(path: Path | None) -> None:
    """UsageError if the place of ``--json`` cannot be, before a command works for hours."""
    if path is None:
        return
    folder = path.absolute().parent
    if not folder.is_dir():
        raise UsageError(f"--json: there is no directory {folder}")
    if path.is_dir():
        raise UsageError(f"--json: {path} is a directory; name a file")
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise UsageError(f"--json: no permission to write {path}")


@contextmanager
def placed(path: Path) -> Iterator[None]:
    """Names `path` in an OSError that names no file, such as that of a write to a full disk."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise
