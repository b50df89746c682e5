"""The decision when to ask which peer for a snapshot (S11.1). Sans-IO.

The puller decides across all links and pulls from one peer at a time. A peer that holds back
reports its vector, which becomes the target. While other links bring this region nearer to the
target, the puller does not ask. It asks when they have not done so for `crdt-snapshot-patience-ms`,
or when this region holds no effects at all. The target stays fixed until it is reached. So the
steady writes of a third region, which bring this region no nearer, cannot delay the pull for ever.
"""

from __future__ import annotations

from typing import Optional

from anabranch.crdt.vector import Vector, includes

# A pull without a chunk for this many times the patience is given up. The factor is above 1 because
# the peer may first have to send a snapshot to another region.
_STALLED_PATIENCES = 4


class _Holder:
    """A link whose peer holds back.

    `lacking`: the number of effects that this region lacks of `target`; -1: not counted yet.
    `nearer_ms`: the last time at which `lacking` changed.
    """

    def __init__(self, target: Vector, now_ms: int) -> None:
        self.target = dict(target)
        self.lacking = -1
        self.nearer_ms = now_ms


class Puller:
    """The holders, and the pull under way. `pulling`: the peer that was asked, None without one."""

    def __init__(self) -> None:
        self.pulling: Optional[int] = None
        self._progress_ms = 0
        self._holders: dict[int, _Holder] = {}
        self._last_asked = 0

    def holds_back(self, peer: int, target: Vector, now_ms: int) -> None:
        self._holders[peer] = _Holder(target, now_ms)

    def ships_again(self, peer: int) -> None:
        self._holders.pop(peer, None)

    def closed(self, peer: int) -> None:
        """Notes that the link to a peer closed; this ends a pull over the link."""
        self._holders.pop(peer, None)
        if self.pulling == peer:
            self.pulling = None

    def heard(self, peer: int, vector: Vector, applied: Vector, now_ms: int) -> None:
        """Takes the vector of a peer's heartbeat.

        If this region has reached the target and the peer still holds back, the vector becomes the
        new target.
        """
        holder = self._holders.get(peer)
        if (
            holder is not None
            and includes(applied, holder.target)
            and not includes(applied, vector)
        ):
            self._holders[peer] = _Holder(vector, now_ms)

    def progress(self, now_ms: int) -> None:
        """Notes that a message of the snapshot came."""
        self._progress_ms = now_ms

    def joined(self, now_ms: int) -> None:
        """Notes that the snapshot was joined or was no longer needed."""
        self.pulling = None
        for holder in self._holders.values():
            holder.nearer_ms = now_ms

    def stalled(self, now_ms: int, patience_ms: int) -> Optional[int]:
        """Returns the peer whose pull has stalled, None without one; its link is to be closed."""
        if self.pulling is not None and now_ms - self._progress_ms > _STALLED_PATIENCES * max(
            patience_ms, 1
        ):
            return self.pulling
        return None

    def decide(self, applied: Vector, now_ms: int, patience_ms: int) -> Optional[int]:
        """Returns the peer to ask for a snapshot now; None when no pull is due."""
        due = []
        for peer, holder in self._holders.items():
            lacking = sum(
                max(0, counter - applied.get(region_id, 0))
                for region_id, counter in holder.target.items()
            )
            if lacking != holder.lacking:
                if holder.lacking != -1:
                    holder.nearer_ms = now_ms
                holder.lacking = lacking
            if lacking and (not applied or now_ms - holder.nearer_ms >= patience_ms):
                due.append(peer)
        if not due or self.pulling is not None:
            return None
        # Round robin: the peer that was asked last comes last.
        return self.ask(min(due, key=lambda peer: (peer <= self._last_asked, peer)), now_ms)

    def ask(self, peer: int, now_ms: int) -> int:
        """Notes that this peer is asked for a snapshot now; returns the peer."""
        self._last_asked = self.pulling = peer
        self._progress_ms = now_ms
        return peer
