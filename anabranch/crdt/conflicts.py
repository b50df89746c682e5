"""Counts of conflicts, by the rule that decides them. They are statistics, and no replicated state.

A conflict is counted in a region that applies a block of effects and sees both sides of it. If the
rule leaves no trace, only one order of arrival shows it: an add that a concurrent DEL had not
observed is seen where the add came first. Joined snapshots count nothing. Every count takes
constant time, and none is on the path of a plain add.
"""

from __future__ import annotations


class Conflicts:
    """What concurrent effects met in the blocks applied since the start or the last `reset`."""

    def __init__(self) -> None:
        # Entries that stayed, because a DEL or FLUSHALL had not observed them (S5.4).
        self.kept_from_delete = 0
        # Entries that stayed, because the removal of an expired key had not observed them (S10.3).
        self.kept_from_expiry = 0
        # Entries that an XDEL named and that a concurrent removal had taken already (S5.1).
        self.removed_twice = 0
        # Groups created concurrently with a destroy, DEL or FLUSHALL, which won (S6.1).
        self.creates_lost = 0
        # Deadlines set while a concurrent one was in force; the longer one wins (S10.2).
        self.deadlines = 0
        # Configurations of idempotent adds set while a concurrent one was in force (S9.4).
        self.configurations = 0

    def reset(self) -> None:
        """Sets all counts to 0."""
        self.__init__()  # type: ignore[misc]
