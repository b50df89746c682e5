"""Announcements of the state on disk (S2.4): attestations and the times to make them. Sans-IO."""

from __future__ import annotations

from typing import Optional

from anabranch.crdt.gossip import Gossip, Heard
from anabranch.sync.session.interfaces import Attestation, Engine, Settings


class Announcer:
    """One announcement at a time, for all links: acknowledgements up, and heartbeats down.

    `dirty`: effects were merged that no acknowledgement covers yet. Acknowledgements come at most
    every `crdt-sync-interval-ms`, because each needs a commit.
    """

    def __init__(self, settings: Settings, now_ms: int) -> None:
        self.dirty = False
        self._settings = settings
        self._pending: Optional[Attestation] = None
        self._pending_beat = False
        self._beat_ms = now_ms
        self._last_ms = now_ms

    def begin(self, engine: Engine, now_ms: int, steady_ms: int) -> None:
        """Asks the engine for an attestation when one is due and none waits for its commit.

        `steady_ms` never runs back; `now_ms` may.
        """
        if self._pending is not None:
            return
        beat = steady_ms >= self._beat_ms
        if not beat and not (
            self.dirty
            and steady_ms >= self._last_ms + self._settings.integer("crdt-sync-interval-ms")
        ):
            return
        if beat and engine.peers.refreshes_clock(now_ms):
            return
        self.dirty = False
        self._last_ms = steady_ms
        if beat:
            self._beat_ms = steady_ms + self._settings.integer("crdt-heartbeat-interval-ms")
        self._pending = engine.peers.attest(beat, now_ms)
        self._pending_beat = beat

    def finished(self, position: int) -> Optional[tuple[Attestation, bool]]:
        """Returns the attestation that is now on disk, and whether a heartbeat announces it.

        `position` is the committed log position. Returns None when no attestation is on disk.
        """
        if self._pending is None or self._pending.position > position:
            return None
        result = (self._pending, self._pending_beat)
        self._pending = None
        return result


def own_gossip(engine: Engine, attestation: Attestation) -> Gossip:
    """Returns the engine's gossip, with this region's own report from an attestation on disk."""
    gossip = engine.peers.gossip()
    own = Heard(
        engine.region_id,
        attestation.life,
        attestation.counts,
        dict(attestation.vector),
        attestation.clock_ms,
        attestation.asks_stable,
        attestation.lost,
        attestation.read_ms,
        attestation.ahead,
    )
    return Gossip(
        [own] + [heard for heard in gossip.heard if heard.region_id != engine.region_id],
        gossip.questions,
        gossip.answers,
    )
