"""Totals and checkpoint change together, and every ride counts once."""

from __future__ import annotations

import pytest

from examples.rocket_rides import tables
from examples.rocket_rides.consumer import (
    Batch,
    LogReader,
    OneIdReader,
    Reader,
    StaleBatch,
    Totals,
    run_once,
)
from examples.rocket_rides.database import Database
from examples.rocket_rides.mishaps import Mishaps
from examples.rocket_rides.records import WHOLE_STREAM, Position, Ride, entry_id
from examples.rocket_rides.ride_log import Endpoint, Entry, RideLog
from tests.examples.conftest import Open

NEVER = Mishaps(1, "nobody", share=0.0)


class Crash(Exception):
    """A crash before a commit."""


def crash() -> None:
    raise Crash


def state(database: Database, name: str = "one") -> tuple[int, int, int]:
    """(rides, distance in mm, rides seen again)."""
    rows = database.run(
        lambda each: each.rows(
            "SELECT rides, distance_mm, seen_again FROM consumers WHERE name = ?", (name,)
        )
    )
    rides, distance_mm, seen_again = (int(value) for value in rows[0])
    return rides, distance_mm, seen_again


def batch(begin: int, end: int, *rides: Ride) -> Batch:
    """A batch of the log of us, whose positions are ``N-1``; 0 is no position."""
    places = [{"us": Position(n, f"{n}-1")} if n else {} for n in (begin, end)]
    return Batch(list(rides), places[0], places[1])


A, B, C = (Ride("us", n, n * 1000) for n in (1, 2, 3))


def test_batches_add_up(opened: Open) -> None:
    totals = Totals(opened("us"), "one")
    assert totals.add(batch(0, 2, A, B)) == 2
    assert totals.checkpoint() == {"us": Position(2, "2-1")}
    assert totals.add(batch(2, 3, C)) == 1
    assert state(opened("us")) == (3, 6000, 0)
    assert state(opened("us"), "two") == (0, 0, 0)


def test_a_crash_before_the_commit_changes_nothing(opened: Open) -> None:
    database = opened("us")
    totals = Totals(database, "one")
    totals.add(batch(0, 1, A))
    with pytest.raises(Crash):
        totals.add(batch(1, 3, B, C), crash)
    assert state(database) == (1, 1000, 0)
    assert totals.checkpoint() == {"us": Position(1, "1-1")}
    assert database.run(lambda each: tables.consumed(each, "one", "us", 0, 9)) == [A]
    # The next process reads the same batch again.
    assert Totals(opened("us"), "one").add(batch(1, 3, B, C)) == 2
    assert state(database) == (3, 6000, 0)


def test_a_ride_that_was_added_twice_counts_once(opened: Open) -> None:
    """In one batch, in a later one, and in the log of another region."""
    totals = Totals(opened("us"), "one")
    assert totals.add(batch(0, 3, A, B, A)) == 2
    assert totals.add(batch(3, 5, B, C)) == 1
    elsewhere = {"us": Position(5, "5-1"), "eu": Position(1, "6-2")}
    assert totals.add(Batch([C, A], {"us": Position(5, "5-1")}, elsewhere)) == 0
    assert state(opened("us")) == (3, 6000, 4)
    assert totals.checkpoint() == elsewhere


def test_equal_ids_of_two_origins_are_two_rides(opened: Open) -> None:
    """The article has one sequence of ride IDs. Each region's database has its own."""
    totals = Totals(opened("us"), "one")
    assert totals.add(batch(0, 2, A, A._replace(origin="eu", distance_mm=5))) == 2
    assert state(opened("us")) == (2, 1005, 0)


def test_lower_ride_ids_that_come_later_count(opened: Open) -> None:
    """After a fail-over, rides of one origin are in two logs. The article would skip these."""
    totals = Totals(opened("us"), "one")
    assert totals.add(batch(0, 1, C)) + totals.add(batch(1, 3, A, B)) == 3


def test_a_batch_that_begins_elsewhere_is_refused(opened: Open) -> None:
    """Two processes with the name of one consumer do not count a batch twice."""
    first, second = Totals(opened("us"), "one"), Totals(opened("us"), "one")
    first.add(batch(0, 1, A))
    with pytest.raises(StaleBatch):
        second.add(batch(0, 2, A, B))
    assert state(opened("us")) == (1, 1000, 0)


class Log(RideLog):
    """Takes the part of RideLog: records of region logs, of which some are merged later."""

    def __init__(self) -> None:
        self.regions = [Endpoint("us", "", 1), Endpoint("eu", "", 2)]
        self.logs: dict[str, list[Entry]] = {"us": [], "eu": []}

    def put(self, log: str, ride: Ride, entry: str) -> None:
        self.logs[log].append(Entry(entry, len(self.logs[log]) + 1, ride))

    def read_logs(self, after: dict[str, str], count: int) -> dict[str, list[Entry]]:
        return {
            name: [one for one in self.logs[name] if not last or _above(one, last)][:count]
            for name, last in after.items()
        }

    def read_stream(self, after: str, count: int, below: str = "") -> list[Entry]:
        assert not below, "a consumer reads without an upper bound"
        entries = sorted(
            (one for log in self.logs.values() for one in log),
            key=lambda one: entry_id(one.entry_id),
        )
        return [one for one in entries if not after or _above(one, after)][:count]


def _above(entry: Entry, other: str) -> bool:
    return entry_id(entry.entry_id) > entry_id(other)


def test_a_record_that_is_merged_late_is_skipped_with_one_id_only(opened: Open) -> None:
    """The finding of this example. `us` had read up to 30-1 when 20-2 arrived from `eu`."""
    database = opened("us")
    log = Log()
    ways: list[tuple[Reader, Totals]] = [
        (LogReader(log, 2), Totals(database, "one")),
        (OneIdReader(log, 2), Totals(database, "old")),
    ]
    log.put("us", A, "10-1")
    log.put("us", B, "30-1")
    assert [run_once(*way, NEVER) for way in ways] == [2, 2]
    log.put("eu", C._replace(origin="eu"), "20-2")
    assert [run_once(*way, NEVER) for way in ways] == [1, 0]
    log.put("eu", A._replace(origin="eu"), "40-2")
    assert [run_once(*way, NEVER) for way in ways] == [1, 1]
    assert [run_once(*way, NEVER) for way in ways] == [0, 0]
    assert [state(database, name)[0] for name in ("one", "old")] == [4, 3]
    assert ways[0][1].checkpoint() == {"us": Position(2, "30-1"), "eu": Position(2, "40-2")}
    assert ways[1][1].checkpoint() == {WHOLE_STREAM: Position(0, "40-2")}


def test_entry_ids_compare_as_numbers() -> None:
    assert entry_id("9-1") < entry_id("10-1") < entry_id("10-1001") < entry_id("11-0")
