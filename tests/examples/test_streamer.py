"""The streamer deletes staged records only once a region has confirmed them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from examples.rocket_rides import tables
from examples.rocket_rides.api import create_ride
from examples.rocket_rides.database import Database
from examples.rocket_rides.mishaps import Mishaps
from examples.rocket_rides.records import StagedRecord
from examples.rocket_rides.ride_log import NoRegionAnswers, RideLog
from examples.rocket_rides.streamer import Streamer
from tests.examples.conftest import Open


class Log(RideLog):
    """Takes the part of RideLog: notes what is added, as (producer, record ID)."""

    def __init__(self) -> None:
        self.adds: list[list[tuple[str, int]]] = []
        # The number of coming adds that a region takes without the answer arriving.
        self.answers_lost = 0

    def add(self, producer: str, records: Sequence[StagedRecord]) -> str:
        self.adds.append([(producer, record.record_id) for record in records])
        if self.answers_lost:
            self.answers_lost -= 1
            raise NoRegionAnswers("us: the connection is closed")
        return "us"


class Draws(Mishaps):
    """Takes the part of Mishaps, with choices that the test gives."""

    def __init__(self, *strikes: bool, is_elsewhere: bool = False) -> None:
        self._strikes = list(strikes)
        self._is_elsewhere = is_elsewhere

    def strikes(self) -> bool:
        return bool(self._strikes) and self._strikes.pop(0)

    def is_elsewhere(self) -> bool:
        return self._is_elsewhere


def staged_count(database: Database) -> int:
    return database.run(tables.staged_count)


@pytest.fixture
def database(opened: Open) -> Database:
    """A database with five staged records."""
    one = opened("us")
    for _ in range(5):
        create_ride(one, "us", 1000)
    return one


def test_batches_in_order_until_nothing_is_staged(database: Database) -> None:
    log = Log()
    streamer = Streamer(database, log, Log(), Draws(), batch_records=2)
    assert [streamer.run_once() for _ in range(4)] == [2, 2, 1, 0]
    producer = tables.producer_id(database)
    assert log.adds == [
        [(producer, 1), (producer, 2)],
        [(producer, 3), (producer, 4)],
        [(producer, 5)],
    ]
    assert staged_count(database) == 0


def test_without_an_answer_the_records_stay_and_go_out_under_the_same_ids(
    database: Database,
) -> None:
    log = Log()
    log.answers_lost = 2
    streamer = Streamer(database, log, Log(), Draws())
    for _ in range(2):
        with pytest.raises(NoRegionAnswers):
            streamer.run_once()
        assert staged_count(database) == 5
    assert streamer.run_once() == 5
    assert log.adds[0] == log.adds[1] == log.adds[2]
    assert staged_count(database) == 0


def test_after_a_crash_between_add_and_delete_the_same_ids_go_out_again(
    database: Database, opened: Open
) -> None:
    """The next process has the producer ID from the database."""

    class Crash(Exception):
        pass

    class Crashing(Draws):
        def strikes(self) -> bool:
            raise Crash

    log = Log()
    with pytest.raises(Crash):
        Streamer(database, log, Log(), Crashing()).run_once()
    assert staged_count(database) == 5
    assert Streamer(opened("us"), log, Log(), Draws()).run_once() == 5
    assert log.adds[0] == log.adds[1] and len(log.adds) == 2


def test_a_record_that_is_staged_meanwhile_is_not_deleted(database: Database, opened: Open) -> None:
    other = opened("us")

    class Slow(Log):
        def add(self, producer: str, records: Sequence[StagedRecord]) -> str:
            create_ride(other, "us", 2000)
            return super().add(producer, records)

    log = Slow()
    assert Streamer(database, log, Log(), Draws()).run_once() == 5
    assert staged_count(database) == 1


@pytest.mark.parametrize("is_elsewhere", [False, True])
def test_double_sends_have_the_same_ids(database: Database, is_elsewhere: bool) -> None:
    log, other = Log(), Log()
    draws = Draws(True, False, is_elsewhere=is_elsewhere)
    streamer = Streamer(database, log, other, draws, batch_records=3)
    assert [streamer.run_once(), streamer.run_once()] == [3, 2]
    first, second = log.adds[0], (other if is_elsewhere else log).adds[0 if is_elsewhere else 1]
    assert first == second and len(log.adds) + len(other.adds) == 3
    counts = database.run(
        lambda each: each.rows("SELECT double_sends, sent_elsewhere FROM producers")
    )
    assert [tuple(row) for row in counts] == [(1, int(is_elsewhere))]


def test_two_databases_never_share_a_producer(opened: Open) -> None:
    """The record IDs of a new database begin at 1 again, and regions remember the former ones."""
    assert tables.producer_id(opened("us")) != tables.producer_id(opened("eu"))


def test_mishaps_are_a_function_of_seed_name_and_life() -> None:
    def strikes(mishaps: Mishaps) -> list[bool]:
        return [mishaps.strikes() for _ in range(1000)]

    first = strikes(Mishaps(7, "us-0", 1))
    assert strikes(Mishaps(7, "us-0", 1)) == first
    others = [Mishaps(8, "us-0", 1), Mishaps(7, "us-1", 1), Mishaps(7, "us-0", 2)]
    assert all(strikes(one) != first for one in others)
    assert 70 <= sum(first) <= 130
    assert not any(strikes(Mishaps(7, "us-0", 1, 0.0)))
