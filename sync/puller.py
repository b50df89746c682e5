"""When to ask whom for a snapshot (S11.1). Sans-IO; it decides across links, from one peer at a time.

A peer that holds back names what it has. That is the target: while this region comes nearer to it over other links, nothing is asked for;
when for `crdt-snapshot-patience-ms` it does not, or when it holds nothing at all yet, a snapshot is. The target stands still
until it is reached, so that the steady writes of some third region, which bring this one no nearer, cannot put it off for ever.
"""

from __future__ import annotations

from typing import Optional

from anabranch.crdt.vector import Vector, includes

# A pull without a chunk for so many patiences is given up: its peer may be sending one to somebody else.
_STALLED_PATIENCES = 4


class _Holder:
    """A link whose peer holds back."""

    def __init__(self, target: Vector, now_ms: int) -> None:
        self.target = dict(target)
        self.lacking = -1
        self.nearer_ms = now_ms


class Puller:
    """`pulling`: the peer that was asked, None when nobody is."""

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
        """The link is gone, and with it a pull over it."""
        self._holders.pop(peer, None)
        if self.pulling == peer:
            self.pulling = None

    def heard(self, peer: int, vector: Vector, applied: Vector, now_ms: int) -> None:
        """A heartbeat of a peer: a target that was reached while it still holds back moves on."""
        holder = self._holders.get(peer)
        if (
            holder is not None
            and includes(applied, holder.target)
            and not includes(applied, vector)
        ):
            self._holders[peer] = _Holder(vector, now_ms)

    def progress(self, now_ms: int) -> None:
        """A chunk came."""
        self._progress_ms = now_ms

    def joined(self, now_ms: int) -> None:
        """The snapshot was joined, or was no longer needed."""
        self.pulling = None
        for holder in self._holders.values():
            holder.nearer_ms = now_ms

    def stalled(self, now_ms: int, patience_ms: int) -> Optional[int]:
        """The peer whose pull has come to a stop; its link is to be closed."""
        if self.pulling is not None and now_ms - self._progress_ms > _STALLED_PATIENCES * max(
            patience_ms, 1
        ):
            return self.pulling
        return None

    def decide(self, applied: Vector, now_ms: int, patience_ms: int) -> Optional[int]:
        """The peer to ask for a snapshot now, None for nobody."""
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
        # Round robin: who failed last time comes last.
        chosen = min(due, key=lambda peer: (peer <= self._last_asked, peer))
        self._last_asked = self.pulling = chosen
        self._progress_ms = now_ms
        return chosen
