"""Files that commands write."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from anabranch.cli.errors import UsageError


def checked_json(path: Path | None) -> None:
    """UsageError if the place of ``--json`` cannot be, before a command works for hours."""
    if path is not None and not path.absolute().parent.is_dir():
        raise UsageError(f"--json: there is no directory {path.absolute().parent}")
    if path is not None and path.is_dir():
        raise UsageError(f"--json: {path} is a directory; name a file")


@contextmanager
def placed(path: Path) -> Iterator[None]:
    """Names `path` in an OSError that names no file, such as that of a write to a full disk."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise
