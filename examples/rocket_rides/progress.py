"""The progress of a run: the totals of all consumers up to the same ride.

Consumers are at different rides at any moment. So totals are compared up to the *level* of each
origin: the highest ride up to which every consumer has all rides. Consumers with
one ID for the stream do not count for the level, since they may never get there.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

from examples.rocket_rides import tables
from examples.rocket_rides.database import Database, Transaction
from examples.rocket_rides.reconciliation import RIDE_ID_MAX


class ConsumerProgress(NamedTuple):
    """One consumer. `totals_mm` maps an origin to the distance of its rides up to the level."""

    name: str
    region: str
    rides: int
    seen_again: int
    uses_one_id: bool
    totals_mm: dict[str, int]


class Progress(NamedTuple):
    """All figures of one moment. `level`, `rides` and `totals_mm` of the APIs are by origin."""

    level: dict[str, int]
    rides: dict[str, int]
    totals_mm: dict[str, int]
    staged: int
    trimmed: int
    consumers: list[ConsumerProgress]


class Observer:
    """Looks into the databases of all regions. `databases`: region → its database."""

    def __init__(self, databases: Mapping[str, Database]) -> None:
        self._databases = databases
        self._level = dict.fromkeys(databases, 0)

    def look(self) -> Progress:
        """The figures now."""
        # The consumers of a run are registered before it, so they are known at the first look.
        consumers = [
            (name, region, way == tables.ONE_ID_WAY)
            for region, database in self._databases.items()
            for name, way in database.run(tables.registered)
        ]
        for origin in self._databases:
            self._raise_level(origin, [one[:2] for one in consumers if not one[2]])
        totals = {
            origin: database.run(partial(_api_total, level=self._level[origin]))
            for origin, database in self._databases.items()
        }
        return Progress(
            dict(self._level),
            {origin: database.run(_ride_count) for origin, database in self._databases.items()},
            totals,
            sum(database.run(tables.staged_count) for database in self._databases.values()),
            sum(database.run(_trimmed_count) for database in self._databases.values()),
            [self._consumer(*one) for one in consumers],
        )

    def _raise_level(self, origin: str, consumers: list[tuple[str, str]]) -> None:
        """Moves the level of an origin as far up as every one of the (name, region) has rides."""
        level = self._level[origin]
        wanted = self._databases[origin].run(partial(tables.rides, origin=origin, above=level))
        for name, region in consumers:
            query = partial(
                tables.consumed, consumer=name, origin=origin, first=level + 1, last=RIDE_ID_MAX
            )
            has = {ride.ride_id for ride in self._databases[region].run(query)}
            missing = [n for n, ride in enumerate(wanted) if ride.ride_id not in has]
            wanted = wanted[: missing[0]] if missing else wanted
        if wanted and consumers:
            self._level[origin] = wanted[-1].ride_id

    def _consumer(self, name: str, region: str, uses_one_id: bool) -> ConsumerProgress:
        def work(transaction: Transaction) -> ConsumerProgress:
            rides, again = transaction.rows(
                "SELECT rides, seen_again FROM consumers WHERE name = ?", (name,)
            )[0]
            totals = {}
            for origin, level in self._level.items():
                rows = transaction.rows(
                    "SELECT coalesce(sum(distance_mm), 0) FROM consumed_rides"
                    " WHERE consumer = ? AND origin = ? AND ride_id <= ?",
                    (name, origin, level),
                )
                totals[origin] = int(rows[0][0])
            return ConsumerProgress(name, region, int(rides), int(again), uses_one_id, totals)

        return self._databases[region].run(work)


def _api_total(transaction: Transaction, level: int) -> int:
    sql = "SELECT coalesce(sum(distance_mm), 0) FROM rides WHERE id <= ?"
    return int(transaction.rows(sql, (level,))[0][0])


def _ride_count(transaction: Transaction) -> int:
    return int(transaction.rows("SELECT count(*) FROM rides")[0][0])


def _trimmed_count(transaction: Transaction) -> int:
    return int(transaction.rows("SELECT count(*) FROM trimmed_records")[0][0])
