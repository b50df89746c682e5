"""Invariant 6: equal vectors have equal digests, in all regions and at all times (S13.9)."""

from __future__ import annotations

from anabranch.sim.history import Began, Checker, Committed, End, Setup, Shown

Key = frozenset[tuple[int, int]]


class Digests(Checker):
    """Remembers the digest of each vector ever shown."""

    name = "digests"

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        # Vector → (digest, region and time in ms of its first showing).
        self._seen: dict[Key, tuple[bytes, int, int]] = {}
        self._issued: dict[int, int] = {}

    def began(self, event: Began) -> None:
        """Forgets vectors with counters that were not on disk: other effects may get them."""
        self._forget(event.region, event.vector.get(event.region, 0))

    def committed(self, event: Committed) -> None:
        """Forgets vectors with counters that are issued again because a backup had lost them."""
        for block in event.blocks:
            if block.first <= self._issued.get(block.origin, 0):
                self._forget(block.origin, block.first - 1)
            self._issued[block.origin] = block.last

    def _forget(self, region: int, counter: int) -> None:
        self._seen = {
            key: seen for key, seen in self._seen.items() if dict(key).get(region, 0) <= counter
        }

    def shown(self, shown: dict[int, Shown]) -> None:
        """Compares each vector's digest with the one first shown for it."""
        for region in sorted(shown):
            one = shown[region]
            key = frozenset(one.vector.items())
            seen = self._seen.setdefault(key, (one.digest, region, one.at_ms))
            if seen[1:] == (region, one.at_ms):
                continue
            if seen[1] != region and any(one.digest):
                self.setup.counts.rule("S13.9")
            if seen[0] != one.digest:
                text = (
                    f"the vector {dict(sorted(one.vector.items()))} has the digest "
                    f"{one.digest.hex()[:12]} here"
                )
                self.fail(
                    one.at_ms,
                    region,
                    f"{text}, {seen[0].hex()[:12]} in region {seen[1]} at {seen[2]} ms",
                )

    def finish(self, end: End) -> None:
        """Compares the final digests."""
        self.shown(end.shown)
