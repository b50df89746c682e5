"""Errors of peers (STYLE 11): what a region refuses to merge, and why."""

from __future__ import annotations


class PeerError(Exception):
    """A peer broke the protocol. Its link is closed, and the text says why."""


class SyncGap(PeerError):
    """A block does not follow what is applied of its region (S2.2)."""


class ChainForked(PeerError):
    """One region's counters stand for two different contents (S13.5)."""


class NotAMember(PeerError):
    """An effect of a region that is no member (S1.1)."""
