"""The judges, one file for each invariant."""

from __future__ import annotations

from typing import Final

from sim.checkers.acknowledged_adds import AcknowledgedAdds
from sim.checkers.digests import Digests
from sim.checkers.idempotent_once import IdempotentOnce
from sim.checkers.no_phantoms import NoPhantoms
from sim.checkers.no_return import NoReturn
from sim.checkers.removals import Removals
from sim.checkers.unique_ids import UniqueIds
from sim.checkers.vectors import Vectors
from sim.history import Checker

ALL: Final[list[type[Checker]]] = [AcknowledgedAdds, NoPhantoms, IdempotentOnce, UniqueIds, Vectors, Digests, Removals, NoReturn]
