"""Errors of the region's own disk. Clients' are `replies.CommandError`, peers' are in `crdt.errors`."""

from __future__ import annotations


class StorageError(Exception):
    """The database failed or holds what it cannot hold."""
