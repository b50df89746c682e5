"""Counts of the contents of the keyspace, kept as keys change.

INFO, /metrics and DBSIZE read them. A count of all keys at that moment would hold up every other
client for a time that grows with the number of keys. So what was counted of each key is kept, and
only the keys that changed are counted again: some in every tick, the rest when somebody reads.
"""

from __future__ import annotations

from typing import Final

from anabranch.crdt.keyspace import Keyspace
from anabranch.crdt.stream import NEVER, Stream
from anabranch.region.engine.deadlines import Deadlines

Counted = tuple[int, ...]
"""What one key adds to the counts."""

# Keys counted in one tick, so that a tick stays short.
KEYS_PER_TICK: Final = 1000
# How many different counts are shared by the keys to which they apply.
_SHARED_MAX: Final = 1000


class Contents:
    """The counts. `read` brings them up to date."""

    def __init__(self, keyspace: Keyspace) -> None:
        self._keyspace: Final = keyspace
        self.deadlines: Final = Deadlines()
        self._counted: Final[dict[bytes, Counted]] = {}
        # Equal counts are one object.
        self._shared: Final[dict[Counted, Counted]] = {}
        self.keys = 0
        # Keys that exist and will expire.
        self.expires = 0
        self.entries = 0
        self.groups = 0
        self.pending = 0
        self.pairs = 0
        # Data kept until it is stable, in hidden keys too: group tombstones (by name and by key),
        # vectors of clears, and keys that are hidden or absent.
        self.tombstones = 0
        self.clears = 0
        self.keys_absent = 0
        # What FLUSHALL left, as counted last.
        self._of_flush: Counted = _NOTHING

    def read(self, clock_ms: int) -> Contents:
        """Counts what changed since the last call; returns itself."""
        self._keyspace.free_some()
        for key in self.deadlines.passed(clock_ms):
            self._keyspace.unseen.uncounted[key] = None
        self.count_some(len(self._keyspace.unseen.uncounted), clock_ms)
        tombstones = 1 if self._keyspace.flush_tombstone else 0
        clears = 1 if self._keyspace.flush_clears else 0
        of_flush = (0, 0, 0, 0, 0, 0, tombstones, clears, 0)
        self._replace(self._of_flush, of_flush)
        self._of_flush = of_flush
        return self

    def count_some(self, keys_max: int, clock_ms: int) -> None:
        """Counts at most `keys_max` of the keys that changed."""
        uncounted = self._keyspace.unseen.uncounted
        while uncounted and keys_max > 0:
            keys_max -= 1
            key, _ = uncounted.popitem()
            stream = self._keyspace.keys.get(key)
            if stream is None:
                self._replace(self._counted.pop(key, _NOTHING), _NOTHING)
                continue
            former = self._counted.get(key)
            counted = self._shared_form(_count(stream, clock_ms))
            if counted is not former:
                # The place of a key in the dict stays, so the dict is never built anew.
                self._counted[key] = counted
                self._replace(_NOTHING if former is None else former, counted)
        if not uncounted:
            # An emptied dict keeps its memory until it is cleared.
            uncounted.clear()

    def _shared_form(self, counted: Counted) -> Counted:
        if len(self._shared) < _SHARED_MAX:
            return self._shared.setdefault(counted, counted)
        return self._shared.get(counted, counted)

    def _replace(self, former: Counted, counted: Counted) -> None:
        """Counts a key that was counted as `former`, or not at all (`_NOTHING`)."""
        self.keys += counted[0] - former[0]
        self.expires += counted[1] - former[1]
        self.entries += counted[2] - former[2]
        self.groups += counted[3] - former[3]
        self.pending += counted[4] - former[4]
        self.pairs += counted[5] - former[5]
        self.tombstones += counted[6] - former[6]
        self.clears += counted[7] - former[7]
        self.keys_absent += counted[8] - former[8]


_NOTHING: Final[Counted] = (0, 0, 0, 0, 0, 0, 0, 0, 0)
# The counts of a key that is absent, and of which nothing but entries is left.
_ABSENT: Final[Counted] = (0, 0, 0, 0, 0, 0, 0, 0, 1)


def _count(stream: Stream, clock_ms: int) -> Counted:
    """What one key adds to the counts, in the order of `Contents._replace`."""
    if stream.rare is None:
        is_here = stream.exists_at(clock_ms)
        return (1, 0, stream.length(), 0, 0, 0, 0, 0, 0) if is_here else _ABSENT
    tombstones = len(stream.tombstones) + (1 if stream.tombstone_of_all else 0)
    clears = 1 if stream.clears else 0
    pairs = stream.pairs.count() if stream.pairs else 0
    if not stream.exists_at(clock_ms):
        return (0, 0, 0, 0, 0, pairs, tombstones, clears, 1)
    expires = pending = 0
    if stream.deadlines:
        winner = stream.winning_deadline()
        if winner is not None and winner[1] != NEVER:
            expires = 1
    for group in stream.groups.values():
        pending += group.delivery.pel.length
    groups = len(stream.groups)
    return (1, expires, stream.length(), groups, pending, pairs, tombstones, clears, 0)
