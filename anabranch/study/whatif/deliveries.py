"""Deliveries of one group: pending and acknowledged in one region, and repeated after a fail-over.

A region delivers an entry with ``>`` unless it has given it or heard that it is acknowledged (S7.3,
S8.2). So the entries that the lost region has given and that another region does not know as
acknowledged are delivered again there. A group that was destroyed and made anew is another group:
its deliveries say nothing of the former one.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from anabranch.crdt.vector import Dot
from anabranch.study.replies.groups import GroupState
from anabranch.study.replies.spans import holds, minus, spans_with, union
from anabranch.study.whatif.survey import KeySurvey
from anabranch.study.whatif.survivors import Entries

PENDING = "pending"
ACKNOWLEDGED = "acknowledged"
DROPPED = "dropped"
REMOVED = "removed"
DESTROYED = "destroyed"


@dataclass(frozen=True)
class Repeated:
    """The entries of one group that one region would deliver again, each with its state.

    The states are those in the lost region: `pending` there; `acknowledged`, there alone;
    `dropped` with its consumer; `removed`: not there any more, delivered or jumped over;
    `destroyed`: delivered before the group was destroyed there.
    """

    region: int
    has_group: bool
    entries: Entries
    states: dict[Dot, str]

    def counts(self) -> dict[str, int]:
        """State → how many entries have it."""
        return dict(sorted(Counter(self.states.values()).items()))


@dataclass(frozen=True)
class Deliveries:
    """One group in the lost region.

    `consumers`: (name, pending entries). `acknowledged`: entries of whose acknowledgement no other
    region has heard; `unannounced` of them are not announced yet. `repeated`: one for each region
    to which clients may fail over.
    """

    key: bytes
    group: bytes
    pending: int
    consumers: list[tuple[bytes, int]]
    acknowledged: Entries
    unannounced: int
    repeated: list[Repeated]

    def is_any(self) -> bool:
        """Whether the group has anything to report."""
        return bool(self.pending or self.acknowledged or any(one.entries for one in self.repeated))


def deliveries_of(key: KeySurvey, targets: list[int]) -> list[Deliveries]:
    """The groups of a key that was looked at; `targets` are regions to which clients may go."""
    return [_deliveries(key, name, targets) for name in sorted({*key.lost.groups, *key.delivered})]


def _deliveries(key: KeySurvey, name: bytes, targets: list[int]) -> Deliveries:
    group = key.lost.groups.get(name)
    unheard = {} if group is None else key.unheard(name)
    unannounced = {} if group is None else group.unannounced()
    acknowledged = {
        dot: one for dot, one in sorted(key.lost.entries.items()) if holds(unheard, dot)
    }
    consumers = [] if group is None else group.consumers
    return Deliveries(
        key.key,
        name,
        sum(count for _, count in consumers),
        consumers,
        acknowledged,
        sum(holds(unannounced, dot) for dot in acknowledged),
        [_repeated(key, name, group, target) for target in targets],
    )


def _repeated(key: KeySurvey, name: bytes, group: GroupState | None, target: int) -> Repeated:
    delivered = spans_with(key.delivered.get(name, set()))
    handed_out = group.handed_out() if group is not None and key.shares(name) else {}
    entries = key.survivors.deliverable(target, name, union(handed_out, delivered))
    return Repeated(
        target,
        bool(key.survivors.creates(name)),
        dict(sorted(entries.items(), key=lambda item: (item[1], item[0]))),
        {dot: _state(key, group, dot) for dot in entries},
    )


def _state(key: KeySurvey, group: GroupState | None, dot: Dot) -> str:
    if group is None or not holds(group.handed_out(), dot):
        return DESTROYED
    if holds(group.pending, dot):
        return PENDING
    if dot not in key.lost.entries:
        return REMOVED
    return DROPPED if holds(minus(group.dropped, group.acked), dot) else ACKNOWLEDGED
