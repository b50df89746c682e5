"""Invariant 4: no two entries present at once under one key share an ID, as long as regions choose IDs; RENAME apart (S4.1, S10.1).

Besides, every ID that a command chose is the one that its mode, the last ID and the clock demand (S4.1 to S4.3).
"""

from __future__ import annotations

from anabranch.sim.oracle.judge import OracleJudge


class UniqueIds(OracleJudge):
    """What it judges is in `sim.oracle.adds` and in `Follower`: two of one ID are met as soon as one state holds both."""

    name = "unique_ids"
