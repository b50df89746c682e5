"""Errors of the region's own disk.

Errors of clients are `replies.CommandError`, errors of peers are in `crdt.errors`.
"""

from __future__ import annotations


class StorageError(Exception):
    """The database failed, or its contents are invalid."""


class Damaged(StorageError):
    """Bytes of the database are not those that were written: a checksum or the structure is wrong.

    The contents are not used. They come back from the other regions, or from a backup.
    """


class ReplayFailed(Exception):
    """The program cannot replay a sound row of the log (S13.10). `row`: its position."""

    def __init__(self, row: int, error: Exception) -> None:
        super().__init__(f"{type(error).__name__} {error}".rstrip())
        self.row = row
