"""The judges, one file for each invariant.

A judge computes from the history (commands, replies, vectors, committed blocks), not from engines.
Two judges follow the calls of each region, and are not among `ALL` yet: `refusals` and
`sim.twin.judge` (docs/testing.md).

Reading order:

- `acknowledged_adds`: invariant 1, acknowledged adds are in every region after healing.
- `no_phantoms`: invariant 2, no entry exists without an attempted add.
- `idempotent_once`: invariant 3, a pair has at most one entry within the window.
- `unique_ids`: invariant 4, regions never generate one ID twice.
- `vectors`: invariant 5, vectors never regress and effects are applied without gaps.
- `digests`: invariant 6, equal vectors have equal digests.
- `removals`: invariant 9, removals and replies agree with the naive model.
- `refusals`: invariant 14, no region refuses a peer as malformed or for a gap.
- `stable_times`: invariant 13, no entry comes below a stable time that was told.
- `no_return`: invariant 10, a removed element never comes back.
- `liveness`: invariant 11, regions converge, and a region that is awake answers.
- `same_trace`: invariant 12, one seed gives one trace.
- `delivery_arguments`: a naive parser of group commands and their replies.
- `delivery_effects`: committed effects by dot, in an order in which they may be applied.
- `delivery_tape`: the order of one region's steps, and the steps that a crash has lost.
- `redelivery`: invariant 8, acknowledged entries are not delivered again.
- `delivery_model`: the groups of one region, by definition.
- `delivery_steps`: the effect of each group command on one possible local state.
- `delivery_xread`: the required replies of XREAD.
- `delivery_transactions`: the division of a transaction's effects among its commands.
- `group_reads`: invariant 7, group reads skip nothing and repeat only by rule.
"""

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
from anabranch.sim.checkers.stable_times import StableTimes
from anabranch.sim.checkers.unique_ids import UniqueIds
from anabranch.sim.checkers.vectors import Vectors
from anabranch.sim.history import Checker

# In the order of the invariants. The twelfth (`same_trace`) compares two runs and is no `Checker`.
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
    StableTimes,
]
