"""The judges, one file for each invariant."""

from __future__ import annotations

from typing import Final

from anabranch.sim.checkers.acknowledged_adds import AcknowledgedAdds
from anabranch.sim.checkers.digests import Digests
from anabranch.sim.checkers.group_reads import GroupReads
from anabranch.sim.checkers.idempotent_once import IdempotentOnce
from anabranch.sim.checkers.liveness import Liveness
from anabranch.sim.checkers.no_phantoms import NoPhantoms
from anabranch.sim.checkers.no_return import NoReturn
from anabranch.sim.checkers.redelivery import Redelivery
from anabranch.sim.checkers.removals import Removals
from anabranch.sim.checkers.unique_ids import UniqueIds
from anabranch.sim.checkers.vectors import Vectors
from anabranch.sim.history import Checker

# In the order of the invariants; the twelfth, that a seed has one trace, compares two runs (`same_trace`).
ALL: Final[list[type[Checker]]] = [
    AcknowledgedAdds,
    NoPhantoms,
    IdempotentOnce,
    UniqueIds,
    Vectors,
    Digests,
    GroupReads,
    Redelivery,
    Removals,
    NoReturn,
    Liveness,
]
