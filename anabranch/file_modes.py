"""Who may read the files of a region: only the user that it runs as.

New files get the mode 0600, and new directories 0700 (`private_files`). Former releases made files
that every user of the machine could read; `wider` finds them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

_OTHERS: Final = 0o077
_NAMES_MAX: Final = 3


@contextmanager
def private_files() -> Iterator[None]:
    """Files that this process makes meanwhile are its user's alone."""
    former = os.umask(_OTHERS)
    try:
        yield
    finally:
        os.umask(former)


def wider(directory: Path) -> str:
    """What of a data directory other users may reach, and what to do; empty if it is nothing.

    Files in a directory that nobody else may enter are out of reach. A directory of another user,
    such as the root of a volume, cannot be closed from here: only its files count.
    """
    try:
        found = directory.stat()
        if not found.st_mode & _OTHERS:
            return ""
        names = [one.name for one in sorted(directory.iterdir()) if _is_open(one)]
    except OSError:
        return ""
    if not names and found.st_uid != os.geteuid():
        return ""
    shown = ", ".join(names[:_NAMES_MAX]) + (", …" if len(names) > _NAMES_MAX else "")
    files = f", and the files {shown} in it" if names else ""
    return (
        f"other users of this machine may reach {directory} (mode {found.st_mode & 0o777:04o})"
        f"{files}: close them with `chmod -R go= {directory}`"
    )


def _is_open(path: Path) -> bool:
    with suppress(OSError):
        return path.is_file() and bool(path.stat().st_mode & _OTHERS)
    return False
