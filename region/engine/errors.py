"""Errors of the region's own disk.

Errors of clients are `replies.CommandError`, errors of peers are in `crdt.errors`.
"""

from __future__ import annotations


class StorageError(Exception):
    """The database failed, or its contents are invalid."""
