"""The facts of `anabranch whatif region-lost`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from anabranch.study.whatif.deliveries import Deliveries, deliveries_of
from anabranch.study.whatif.losses import Losses, losses_of
from anabranch.study.whatif.survey import Survey


@dataclass(frozen=True)
class Totals:
    """Counts of what is lost of all keys. `again`: entries delivered again, by region name."""

    keys_with_entries: int
    entries: int
    returning: int
    groups_created: int
    groups_destroyed: int
    pairs: int
    removals: int
    deadlines: int
    windows: int
    last_ids: int
    pending: int
    acknowledged: int
    again: dict[str, int]


@dataclass(frozen=True)
class Answer:
    """The losses of each key and the deliveries of each group, where there are any.

    `targets` are the region_ids to which clients may fail over; `names`: region_id → name of every
    region; `listed`: the most IDs that each list shows.
    """

    survey: Survey
    targets: Sequence[int]
    names: Mapping[int, str]
    listed: int
    totals: Totals
    losses: list[Losses]
    deliveries: list[Deliveries]

    @property
    def silent(self) -> list[str]:
        """The other regions that do not answer."""
        return [self.names[one] for one in self.survey.known if one != self.survey.lost]


def answer(survey: Survey, targets: Sequence[int], names: Mapping[int, str], listed: int) -> Answer:
    """The answer that a survey gives; see `Answer` for the arguments."""
    losses = [losses_of(survey, key) for key in survey.keys]
    deliveries = [one for key in survey.keys for one in deliveries_of(key, list(targets))]
    return Answer(
        survey,
        targets,
        names,
        listed,
        _totals(losses, deliveries, {one: names[one] for one in targets}),
        [one for one in losses if one.is_any()],
        [one for one in deliveries if one.is_any()],
    )


def _totals(losses: list[Losses], deliveries: list[Deliveries], targets: dict[int, str]) -> Totals:
    counts = ("entries", "returning", "groups_created", "groups_destroyed", "pairs")
    effects = ("removals", "deadlines", "windows", "last_ids")
    again = dict.fromkeys(targets.values(), 0)
    for repeated in (repeated for one in deliveries for repeated in one.repeated):
        again[targets[repeated.region]] += len(repeated.entries)
    return Totals(
        keys_with_entries=sum(bool(one.entries) for one in losses),
        pending=sum(one.pending for one in deliveries),
        acknowledged=sum(len(one.acknowledged) for one in deliveries),
        again=again,
        **{name: sum(len(getattr(one, name)) for one in losses) for name in counts},
        # An effect on every key, FLUSHALL, is in the list of each key.
        **{
            name: len({effect.dot for one in losses for effect in getattr(one, name)})
            for name in effects
        },
    )
