"""A file whose first line is a password."""

from __future__ import annotations

from pathlib import Path

from anabranch.region.option_values import ConfigError


def password_in(path: Path, where: str) -> str:
    """The first line of a file. `where` is the option that named it.

    Raises:
        ConfigError: The file cannot be read, or the line is empty.
    """
    try:
        text = path.read_bytes().decode("utf-8", "surrogateescape")
    except OSError as error:
        raise ConfigError(f"{where}: cannot read {path}: {error.strerror}") from None
    password = text.partition("\n")[0].removesuffix("\r")
    if not password:
        raise ConfigError(f"{where}: the first line of {path} is empty, not a password")
    return password


def is_open(path: Path) -> bool:
    """Whether every user of the machine may read the file."""
    try:
        return bool(path.stat().st_mode & 0o004)
    except OSError:
        return False
