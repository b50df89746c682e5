"""Invariant 4: no two present entries of one key share an ID that regions generated (S4.1).

Copies made by RENAME are excepted (S10.1). Each chosen ID must be the one that the mode, the last
ID and the clock demand (S4.1 to S4.3).
"""

from __future__ import annotations

from anabranch.sim.oracle.judge import OracleJudge


class UniqueIds(OracleJudge):
    """Receives the findings of `sim.oracle.adds` (chosen IDs) and of `Follower` (shared IDs)."""

    name = "unique_ids"
