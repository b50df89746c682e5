"""The judges, one file for each invariant."""

from __future__ import annotations

from typing import Final

from sim.checkers.acknowledged_adds import AcknowledgedAdds
from sim.checkers.digests import Digests
from sim.checkers.group_reads import GroupReads
from sim.checkers.idempotent_once import IdempotentOnce
from sim.checkers.liveness import Liveness
from sim.checkers.no_phantoms import NoPhantoms
from sim.checkers.no_return import NoReturn
from sim.checkers.redelivery import Redelivery
from sim.checkers.removals import Removals
from sim.checkers.unique_ids import UniqueIds
from sim.checkers.vectors import Vectors
from sim.history import Checker

# In the order of the invariants; the twelfth, that a seed has one trace, compares two runs (`same_trace`).
ALL: Final[list[type[Checker]]] = [
    AcknowledgedAdds, NoPhantoms, IdempotentOnce, UniqueIds, Vectors, Digests, GroupReads, Redelivery, Removals, NoReturn, Liveness,
]  # fmt: skip
