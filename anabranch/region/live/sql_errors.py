"""Errors of SQLite as errors of the region's storage."""

from __future__ import annotations

import sqlite3
from typing import Final

from anabranch.region.engine.errors import Damaged, StorageError

# Primary result codes of SQLite that tell of damage: the statement meets another schema than the
# one that was made (1, while the file is opened or loaded), a tree is wrong (11), no database (26).
_DAMAGE_CODES: Final = frozenset({1, 11, 26})


# Those of files that cannot be written: read-only (8), I/O error (10), full (13), no file (14).
_WRITE_CODES: Final = frozenset({8, 10, 13, 14})


# The module sqlite3 met a text that is none, without a code of SQLite: the type of a value changed.
_NO_TEXT: Final = "Could not decode to UTF-8"


def cannot_write(error: BaseException) -> bool:
    """Whether an error, or its cause, is that SQLite could not write a file."""
    found = error if isinstance(error, sqlite3.Error) else error.__cause__
    return getattr(found, "sqlite_errorcode", 0) & 0xFF in _WRITE_CODES


def storage_error(what: str, error: Exception) -> StorageError:
    """The error to raise for one of SQLite or the file system, met while the file is loaded."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    is_damage = code in _DAMAGE_CODES or _NO_TEXT in str(error)
    kind = Damaged if is_damage else StorageError
    return kind(f"{what}: {error}")
