"""The judges, one file for each invariant.

The twin (`sim.twin.judge`) computes every reply and effect from the calls of each region
(docs/testing.md). The judges here know nothing of it. All but `refusals` compute from the history
(commands, replies, vectors, committed blocks), and none looks into an engine.

Reading order:

- `state`: the state at a version vector, computed by definition.
- `ledger`: the effects of a run and facts about its regions, which several judges share.
- `acknowledged_adds`: invariant 1, acknowledged adds are in every region after healing.
- `no_phantoms`: invariant 2, no entry exists without an attempted add.
- `idempotent_once`: invariant 3, a pair has at most one entry within the window.
- `unique_ids`: invariant 4, regions never generate one ID twice.
- `known_region`: what the judge of vectors knows of one region.
- `vectors`: invariant 5, vectors never regress and effects are applied without gaps.
- `digests`: invariant 6, equal vectors have equal digests.
- `no_return`: invariant 10, a removed element never comes back.
- `liveness`: invariant 11, regions converge, and a region that is awake answers.
- `same_trace`: invariant 12, one seed gives one trace.
- `stable_times`: invariant 13, no entry comes below a stable time that was told.
- `refusals`: invariant 14, no region refuses a peer as malformed or for a gap.
- `clocks`: invariant 15, a clock that leaps is not taken for the time.
"""

from __future__ import annotations

from typing import Final

from anabranch.sim.checkers.acknowledged_adds import AcknowledgedAdds
from anabranch.sim.checkers.clocks import Clocks
from anabranch.sim.checkers.digests import Digests
from anabranch.sim.checkers.idempotent_once import IdempotentOnce
from anabranch.sim.checkers.liveness import Liveness
from anabranch.sim.checkers.no_phantoms import NoPhantoms
from anabranch.sim.checkers.no_return import NoReturn
from anabranch.sim.checkers.refusals import Refusals
from anabranch.sim.checkers.stable_times import StableTimes
from anabranch.sim.checkers.unique_ids import UniqueIds
from anabranch.sim.checkers.vectors import Vectors
from anabranch.sim.history import Checker
from anabranch.sim.twin.judge import Twin

# In the order of the invariants; the twin judges 7 to 9. The twelfth (`same_trace`) compares two
# runs and is no `Checker`.
ALL: Final[list[type[Checker]]] = [
    AcknowledgedAdds,
    NoPhantoms,
    IdempotentOnce,
    UniqueIds,
    Vectors,
    Digests,
    Twin,
    NoReturn,
    Liveness,
    StableTimes,
    Refusals,
    Clocks,
]
