"""Invariant 10: nothing comes back after tombstones are dropped, a long-absent region included (S6.2).

The naive state remembers removals for ever, so whatever a region shows that one of them has taken is a return, whenever it is shown:
in a command's reply, in what is looked at between faults and at the end (`removals` does the looking), as an entry or as a group.
"""

from __future__ import annotations

from anabranch.sim.oracle.judge import OracleJudge


class NoReturn(OracleJudge):
    """What it judges is in `sim.oracle.reads`: `entries_must_be`, `groups_must_be`, `group_lives`."""

    name = "no_return"
