"""Errors of peers: the reasons for which a region refuses to merge."""

from __future__ import annotations


class PeerError(Exception):
    """A peer broke the protocol. The text is the reason with which its link is closed."""


class SyncGap(PeerError):
    """A block leaves out counters after the last one applied of its region (S2.2)."""


class ChainForked(PeerError):
    """The same counters of one region stand for two different contents (S13.5)."""


class NotAMember(PeerError):
    """An effect comes from a region that is not a member (S1.1)."""
