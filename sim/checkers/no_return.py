"""Invariant 10: no removed element comes back once its tombstone is dropped (S6.2).

This includes regions that were absent for long. The naive state keeps removals for ever. So a
region that shows a removed entry or group, in a reply or when it is looked into (by `removals`),
is found out whenever that happens.
"""

from __future__ import annotations

from anabranch.sim.oracle.judge import OracleJudge


class NoReturn(OracleJudge):
    """Receives findings of `entries_must_be`, `groups_must_be`, `group_lives` in `oracle.reads`."""

    name = "no_return"
