"""The digest of a region, kept as keys change (S13.9)."""

from __future__ import annotations

from anabranch.crdt import digest
from anabranch.crdt.stream import Stream


class DigestCache:
    """`total` is the sum of the shares of all keys that did not change since they were hashed."""

    def __init__(self) -> None:
        self.total = 0
        # Keys to hash: those of all streams without a share, and others.
        self._changed: dict[bytes, None] = {}

    def note_new(self, key: bytes) -> None:
        """Notes a new stream, of which the total includes nothing.

        The share of a dropped stream of the same name is no longer in it: its drop is a change.
        """
        self._changed[key] = None

    def note_all_new(self, keys: dict[bytes, None]) -> None:
        """As `note_new`, for many streams."""
        self._changed.update(keys)

    def note_changed(self, stream: Stream) -> None:
        """Takes a key that changes out of the total. A key without a share is noted already."""
        if stream.share is not None:
            self.total -= stream.share
            stream.share = None
            self._changed[stream.key] = None

    def keep(self, streams: dict[bytes, Stream]) -> None:
        """All streams but these are dropped."""
        self.total = 0
        self._changed = {}
        for stream in streams.values():
            if stream.share is None:
                self._changed[stream.key] = None
            else:
                self.total += stream.share

    def hash_some(self, keys: dict[bytes, Stream], entries_max: int) -> bool:
        """Hashes about `entries_max` changed entries; returns True when none is left.

        Every call continues where the former one stopped, so a region that has loaded many keys
        gets its digest after some calls.
        """
        while self._changed:
            if entries_max <= 0:
                return False
            key, _ = self._changed.popitem()
            stream = keys.get(key)
            if stream is None or stream.share is not None:
                continue
            entries_max -= 1 + len(stream.group_names())
            for log in stream.logs.values():
                if log.unhashed:
                    entries_max -= log.hash_some(entries_max)
                    if log.unhashed:
                        self._changed[key] = None
                        return False
            stream.share = digest.of_stream(stream)
            self.total += stream.share
        # An emptied dict keeps its memory until it is cleared.
        self._changed.clear()
        return True
