"""Files that commands write."""

from __future__ import annotations

from pathlib import Path

from anabranch.cli.errors import UsageError


def checked_json(path: Path | None) -> None:
    """UsageError if the place of ``--json`` cannot be, before a command works for hours."""
    if path is not None and not path.absolute().parent.is_dir():
        raise UsageError(f"--json: there is no directory {path.absolute().parent}")
    if path is not None and path.is_dir():
        raise UsageError(f"--json: {path} is a directory; name a file")
