"""The trimming rule: nothing that a consumer has not processed, and nothing that may still arrive.

The last test runs the rule on random histories. It also runs two simpler rules on them, and shows
that those lose records.
"""

from __future__ import annotations

import random
from typing import NamedTuple

import pytest

from examples.rocket_rides.records import WHOLE_STREAM, Checkpoint, Position, entry_id
from examples.rocket_rides.trimmer import trim_limit

REGIONS = ("us", "eu")


def at(**positions: str) -> Checkpoint:
    return {log: Position(1, entry) for log, entry in positions.items()}


def test_the_lowest_position_of_any_consumer_in_any_log() -> None:
    checkpoints = {"one": at(us="50-1", eu="40-2"), "two": at(us="30-1", eu="60-2")}
    assert trim_limit(checkpoints, REGIONS) == "30-1"
    assert trim_limit({"one": at(us="9-1", eu="10-2")}, REGIONS) == "9-1"


def test_a_consumer_with_one_id_counts_with_that_id() -> None:
    checkpoints = {"one": at(us="50-1", eu="40-2"), "old": {WHOLE_STREAM: Position(0, "20-1")}}
    assert trim_limit(checkpoints, REGIONS) == "20-1"


@pytest.mark.parametrize("checkpoint", [{}, at(us="30-1")])
def test_no_limit_while_a_consumer_has_nothing_of_a_log(checkpoint: Checkpoint) -> None:
    """A record of that log may arrive with any ID."""
    assert trim_limit({"one": at(us="50-1", eu="40-2"), "two": checkpoint}, REGIONS) is None


def test_no_limit_without_consumers() -> None:
    assert trim_limit({}, REGIONS) is None


class Record(NamedTuple):
    """A record of the log of a region, with its counter there."""

    entry: tuple[int, int]
    log: int
    counter: int


class History:
    """Two regions and two consumers in each. A region holds a prefix of each log."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.logs: list[list[Record]] = [[], []]
        # Region → how much of each log it holds. Consumer → how much of each log it has read.
        self.held = [[0, 0], [0, 0]]
        self.read = [[0, 0] for _ in range(4)]
        self.clock = 100
        for _ in range(draw.randrange(2, 200)):
            self.step()

    def step(self) -> None:
        region = self.draw.randrange(2)
        kind = self.draw.randrange(4)
        if kind == 0:
            # An ID is above all that the region holds; the clocks of the regions are 20 apart.
            self.clock += self.draw.randrange(0, 4)
            newest = [self.logs[log][n - 1].entry for log, n in enumerate(self.held[region]) if n]
            ms = max([self.clock + 20 * region, *(entry[0] + 1 for entry in newest)])
            records = self.logs[region]
            records.append(Record((ms, region + 1), region, len(records) + 1))
            self.held[region][region] = len(records)
        elif kind == 1:
            other = 1 - region
            missing = self.held[other][other] - self.held[region][other]
            self.held[region][other] += self.draw.randrange(missing + 1)
        else:
            consumer = self.draw.randrange(4)
            log = self.draw.randrange(2)
            unread = self.held[consumer // 2][log] - self.read[consumer][log]
            self.read[consumer][log] += self.draw.randrange(max(unread, 0) + 1)

    def checkpoints(self) -> dict[str, Checkpoint]:
        return {
            str(n): {
                name: Position(count, "{}-{}".format(*self.logs[log][count - 1].entry))
                for log, (name, count) in enumerate(zip(REGIONS, read, strict=True))
                if count
            }
            for n, read in enumerate(self.read)
        }

    def lost(self, limit: str | None, region: int) -> list[Record]:
        """The records that a trim in a region removes, and that a consumer has not read."""
        if limit is None:
            return []
        return [
            record
            for log, count in enumerate(self.held[region])
            for record in self.logs[log][:count]
            if record.entry < entry_id(limit)
            and any(each[log] < record.counter for each in self.read)
        ]

    def late(self, limit: str | None, region: int) -> list[Record]:
        """The records below the limit that have not arrived in a region yet."""
        if limit is None:
            return []
        return [
            record
            for log, count in enumerate(self.held[region])
            for record in self.logs[log][count:]
            if record.entry < entry_id(limit)
        ]


def highest_read(checkpoints: dict[str, Checkpoint]) -> str | None:
    """A rule that is too simple: the lowest of the highest IDs that the consumers have read."""
    tops = [
        max(one.values(), key=lambda each: entry_id(each.entry_id))
        for one in checkpoints.values()
        if one
    ]
    return (
        min((top.entry_id for top in tops), key=entry_id) if len(tops) == len(checkpoints) else None
    )


def logs_with_a_position(checkpoints: dict[str, Checkpoint]) -> str | None:
    """Another: a log of which a consumer has read nothing is left out."""
    found = [each.entry_id for one in checkpoints.values() for each in one.values()]
    return min(found, key=entry_id, default=None)


def test_on_random_histories_nothing_unread_is_trimmed() -> None:
    trims = losses = 0
    for seed in range(2000):
        history = History(random.Random(seed))
        checkpoints = history.checkpoints()
        limit = trim_limit(checkpoints, REGIONS)
        trims += limit is not None
        for region in range(2):
            assert history.lost(limit, region) == [], f"seed {seed}"
            assert history.late(limit, region) == [], f"seed {seed}"
            losses += bool(history.lost(highest_read(checkpoints), region))
    assert trims > 300 and losses > 300


def test_on_random_histories_simpler_rules_fail() -> None:
    histories = [History(random.Random(seed)) for seed in range(1000)]
    for rule in (highest_read, logs_with_a_position):
        assert any(
            history.lost(rule(history.checkpoints()), region)
            or history.late(rule(history.checkpoints()), region)
            for history in histories
            for region in range(2)
        ), rule.__name__
