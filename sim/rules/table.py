"""Every numbered rule of SEMANTICS, and the event that counts as exercising it.

docs/semantics.md shows this table; a test holds the two equal.
"""

from __future__ import annotations

from typing import Final

RULES: Final[dict[str, str]] = {
    "S1.1": "a member was declared lost, and stability was reached without it",
    "S1.2": "a transaction replicated two effects or more",
    "S1.3": "a region began with a life above its clock, or took another life while it ran",
    "S1.4": "a block travelled in parts",
    "S2.1": "a block came from a region that had not issued it",
    "S2.2": "a connection was replaced by a newer one of the same peer",
    "S2.3": "a receiver waited at a header for so long that it asked for the body",
    "S2.4": "a vector or a digest was answered only after a commit",
    "S2.5": "one commit held acknowledgements and other effects",
    "S2.6": "a sender's log no longer held the blocks that a peer lacked",
    "S3.1": "a key existed without entries",
    "S3.2": "after a DEL the last ID was that of a lower entry, added concurrently",
    "S3.3": "a key was deleted while a deadline was in force on it",
    "S3.4": "two regions with the same entries counted different entries-added",
    "S4.1": "an ID was generated ahead of the clock, or not as the first of its ms",
    "S4.2": "the mode mattered: a full ID was refused, or an ID that strict never makes was taken",
    "S4.3": "an ID was refused because it was not above the last ID, or the IDs were exhausted",
    "S4.4": "a region whose mode was changed took or refused an ID given by a client",
    "S4.5": "a range had an exclusive or an incomplete bound",
    "S5.1": "one XDEL removed two entries of one ID",
    "S5.2": "a trim and an add were concurrent",
    "S5.3": "XTRIM … ACKED left more entries than its threshold",
    "S5.4": "a DEL or a FLUSHALL and an add were concurrent",
    "S6.1": "a create was concurrent with a destroy, a DEL or a FLUSHALL",
    "S6.2": "a group tombstone was collected",
    "S6.3": "two creates of one name with different starts were concurrent",
    "S6.4": "after a create at $, an entry came with an ID not above those that the creator had",
    "S6.5": "a group that had delivered entries lost all creates that were live at the delivery",
    "S7.1": "a reply was longer than its COUNT, because entries shared an ID",
    "S7.2": "an entry came with an ID not above one that an XREAD had returned",
    "S7.3": "a read with > returned a new entry with a lower ID than an earlier read",
    "S7.4": "after an XGROUP SETID entries were delivered anew",
    "S7.5": "a read of pending entries returned entries of two region logs",
    "S7.6": "a lag was shown after deliveries",
    "S8.1": "an announcement followed two XACKs or more",
    "S8.2": "an announcement acknowledged entries that were pending in another region",
    "S8.3": "an announcement named two creates, or followed a NOACK read",
    "S8.4": "an announcement under one create and a create with another start were concurrent",
    "S9.1": "a retry was answered in another region than the one that had added the entry",
    "S9.2": "the loser of a conflict was removed",
    "S9.3": "a retired pair was forgotten above its limit, before it was stable",
    "S9.4": "a configuration was concurrent with another one, or with an idempotent add",
    "S9.5": "a retry with IDMPAUTO was recognised",
    "S10.1": "a RENAME copied entries",
    "S10.2": "two deadlines were concurrent",
    "S10.3": "the removal of a hidden key was issued",
    "S10.4": "the removal of a hidden key and an add were concurrent",
    "S10.5": "a write created a key over remnants of an absent or hidden one",
    "S10.6": "a key that held nothing but deadlines or configuration lost them",
    "S10.7": "EXEC did not run because of effects of other regions",
    "S10.8": "a command of another type was refused",
    "S11.1": "a region asked for a snapshot",
    "S11.2": "a snapshot was joined",
    "S11.3": "a snapshot was joined, and each side had effects that the other lacked",
    "S12.1": "a region log had several nodes",
    "S12.2": "a node was rewritten without its deleted entries",
    "S12.3": "two regions held the same bytes of a node of several entries",
    "S13.1": "a start replayed a log over a checkpoint",
    "S13.2": "under always, a reply waited for the disk",
    "S13.3": "a crash lost effects that were not on disk",
    "S13.4": "a commit failed",
    "S13.5": "a handshake compared a peer's chain values with the log",
    "S13.6": "a command waited for the end of a start",
    "S13.7": "a recovery was entered and left",
    "S13.8": "a write was refused in recovery",
    "S13.9": "two regions with equal vectors compared digests",
    "S14": "a unit was refused for its size, or a write because too many bytes waited for the disk",
}

NOT_SIMULATED: Final[dict[str, str]] = {}
"""Rule → why no simulated run can exercise it."""

FROM_COUNTERS: Final[dict[str, tuple[str, ...]]] = {
    "S1.4": ("message:Part",),
    "S2.2": ("connection replaced",),
    "S2.3": ("message:BodyRequest",),
    "S2.6": ("message:HoldingBack",),
    "S9.2": ("figure:idmp_conflicts",),
    "S9.3": ("figure:idmp_evicted_early",),
    "S11.1": ("message:SnapshotRequest",),
    "S13.4": ("write failed",),
    "S13.5": ("question:CheckChains",),
}
"""Rules whose witness is a counter of the world: rule → the names of its counters."""
