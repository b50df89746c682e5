"""Every numbered rule of SEMANTICS, the conflicts of concurrent effects, and their counts.

A sweep without violations proves little about a rule that no run exercised; these counts show it.
They are figures and never fail a run. The twin (`sim.twin`) counts a rule where it carries the rule
out, and conflicts in `sim.twin.conflicts`. Rules that show elsewhere are counted by the judges of
the history and by `sim.world.inside`. docs/semantics.md shows `RULES`; a test holds the two equal.
"""

from __future__ import annotations

from typing import Final, Optional

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
    "S3.1": "a key lost its last entry and went on existing",
    "S3.2": "a DEL left a lower last ID, which it had not observed",
    "S3.3": "a key was deleted while a deadline was in force on it",
    "S3.4": "two regions with the same entries counted different entries-added",
    "S4.1": "an ID was generated ahead of the clock, or not as the first of its ms",
    "S4.2": "the mode mattered: a full ID was refused, or an ID that strict never makes was taken",
    "S4.3": "an ID was refused because it was not above the last ID, or the IDs were exhausted",
    "S4.4": "a region whose mode was changed took or refused an ID given by a client",
    "S4.5": "a range had an exclusive or an incomplete bound",
    "S5.1": "one XDEL removed two entries of one ID",
    "S5.2": "a trim and an add were concurrent",
    "S5.3": "a trim with ACKED stopped at an entry that a group still needed",
    "S5.4": "a DEL or a FLUSHALL and an add were concurrent",
    "S6.1": "a create was concurrent with a destroy, a DEL or a FLUSHALL",
    "S6.2": "a group tombstone was collected",
    "S6.3": "a group had two live creates with different starts",
    "S6.4": "an entry above the start $ of a group had an ID not above those that the creator had",
    "S6.5": "a group that had delivered entries lost all its creates in one step",
    "S7.1": "a reply was longer than its COUNT, because entries shared an ID",
    "S7.2": "an entry came with an ID not above one that an XREAD had returned",
    "S7.3": "a read with > returned a new entry with a lower ID than an earlier read",
    "S7.4": "after an XGROUP SETID, entries that had been given were delivered",
    "S7.5": "a read of pending entries returned entries of two region logs",
    "S7.6": "a lag was shown after deliveries",
    "S7.7": "a region told a higher stable time than before",
    "S8.1": "an announcement followed two XACKs or more",
    "S8.2": "an announcement acknowledged entries that were pending in another region",
    "S8.3": "an announcement named two creates, or followed a NOACK read",
    "S8.4": "a group had entries acknowledged under one create, and another one with another start",
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

NOT_SIMULATED: Final[dict[str, str]] = {
    "S13.10": "only runs with `--errors` break off steps, and the judges look at what follows"
}
"""Rule → why runs do not count it."""

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
"""Rules that other counters of the world show: rule → the names of these counters."""


CONFLICTS: Final[dict[str, tuple[str, str, str]]] = {
    "add and XDEL of its ID": ("add of ID", "removal of ID", ""),
    "add and trim": ("add", "trim", "S5.2"),
    "add and DEL": ("add", "DEL", "S5.4"),
    "add and FLUSHALL": ("any add", "FLUSHALL", "S5.4"),
    "add and expiry": ("add", "expiry", "S10.4"),
    "add and RENAME": ("add", "RENAME", ""),
    "one entry removed twice": ("removal", "removal", ""),
    "create and destroy": ("create of group", "destroy of group", "S6.1"),
    "create and DEL": ("create", "DEL", "S6.1"),
    "create and FLUSHALL": ("any create", "FLUSHALL", "S6.1"),
    "create and create": ("create of group", "create of group", ""),
    "XSETID and add": ("XSETID", "add", ""),
    "XSETID and DEL": ("XSETID", "DEL", ""),
    "one ID twice": ("add of ID", "add of ID", ""),
    "one pair twice": ("add of pair", "add of pair", ""),
    "deadline and deadline": ("deadline", "deadline", "S10.2"),
    "deadline and expiry": ("deadline", "expiry", ""),
    "RENAME and RENAME": ("RENAME", "RENAME", ""),
    "configuration and configuration": ("configuration", "configuration", "S9.4"),
    "configuration and idempotent add": ("configuration", "idempotent add", "S9.4"),
    "one entry acknowledged twice": ("acknowledgement", "acknowledgement", ""),
}
"""Conflict → the kinds of the effects that meet (`sim.twin.conflicts`), and the rule exercised."""


class Counts:
    """The counts of one run: `rule:…` and `conflict:…` in `counters`.

    All twins of a run share it, and with it facts about effects that do not travel with them.
    """

    def __init__(self, counters: Optional[dict[str, int]] = None) -> None:
        self.counters: Final[dict[str, int]] = {} if counters is None else counters
        # False while a judge asks: only clients exercise rules.
        self.is_on = True
        # (region_id, counter) of an effect → what its region had of the others when it issued it.
        self.pasts: Final[dict[tuple[int, int], dict[int, int]]] = {}
        # The deletes of the sources of RENAMEs.
        self.renames: Final[set[tuple[int, int]]] = set()

    def rule(self, name: str) -> None:
        """A rule mattered."""
        self._add("rule:" + name)

    def conflict(self, name: str) -> None:
        """A conflict was met. It exercises its rule."""
        self._add("conflict:" + name)
        rule = CONFLICTS[name][2]
        if rule:
            self._add("rule:" + rule)

    def _add(self, name: str) -> None:
        if self.is_on:
            self.counters[name] = self.counters.get(name, 0) + 1

    def conclude(self) -> None:
        """Adds the rules that other counters of the run show."""
        for rule, names in FROM_COUNTERS.items():
            times = sum([self.counters.get(name, 0) for name in names])
            if times:
                self.counters["rule:" + rule] = times
