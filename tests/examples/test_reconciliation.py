"""The reconciliation names every kind of difference, and the report shows them."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from examples.rocket_rides.progress import ConsumerProgress, Observer, Progress
from examples.rocket_rides.reconciliation import (
    Account,
    StreamContents,
    account_differences,
    stream_differences,
)
from examples.rocket_rides.records import Ride
from examples.rocket_rides.report import WIDTH, kilometres, totals_table
from tests.examples.conftest import Open

US = [Ride("us", n, 1000 * n) for n in (1, 2, 3)]
EU = [Ride("eu", 1, 7)]
API = {"us": US, "eu": EU}


def account(us: list[Ride], eu: list[Ride], count: int = 4, distance: int = 6007) -> Account:
    return Account("one", {"us": us, "eu": eu}, count, distance, 0, False)


@pytest.mark.parametrize(
    ("given", "differences"),
    [
        (account(US, EU), []),
        (account(US[::2], EU, 3, 4007), ["one lacks ride 2 of us"]),
        (
            account([*US[:2], US[2]._replace(distance_mm=5)], EU, 4, 3012),
            ["one has ride 3 of us with 5 mm instead of 3000 mm"],
        ),
        (
            account(US, [*EU, Ride("eu", 2, 0)], 5),
            ["one has ride 2 of eu, which the API does not have"],
        ),
        (
            account(US, EU, 5, 6008),
            ["one keeps a total of 5 rides and 6008 mm, and its rides make 4 and 6007 mm"],
        ),
    ],
)
def test_differences_of_a_consumer(given: Account, differences: list[str]) -> None:
    assert account_differences(API, given) == differences


FULL = {"1-1": ("us", 1), "2-1": ("us", 2), "3-2": ("eu", 1), "4-1": ("us", 3)}


def without(*entries: str) -> dict[str, tuple[str, int]]:
    return {entry: key for entry, key in FULL.items() if entry not in entries}


@pytest.mark.parametrize(
    ("trimmed", "us", "eu", "differences"),
    [
        ({}, FULL, FULL, []),
        ({"1-1": ("us", 1), "2-1": ("us", 2)}, without("1-1", "2-1"), without("1-1", "2-1"), []),
        # Noted by the trimmer, and not removed yet.
        ({"1-1": ("us", 1)}, FULL, FULL, []),
        (
            {},
            FULL | {"5-2": ("us", 2)},
            FULL | {"5-2": ("us", 2)},
            [f"ride 2 of us stands 2 times in the stream of {region}" for region in ("us", "eu")],
        ),
        (
            {"0-2": ("us", 2)},
            FULL,
            FULL,
            [f"ride 2 of us stands 2 times in the stream of {region}" for region in ("us", "eu")],
        ),
        (
            {},
            FULL,
            without("3-2"),
            [
                "ride 1 of eu is not in the stream of eu",
                "entry 3-2 is in the stream of only one of us and eu",
            ],
        ),
        (
            {"0-2": ("us", 9)},
            FULL,
            FULL,
            [
                f"ride 9 of us is in the stream of {region}, and the API does not have it"
                for region in ("us", "eu")
            ],
        ),
    ],
)
def test_differences_of_the_stream(
    trimmed: dict[str, tuple[str, int]],
    us: dict[str, tuple[str, int]],
    eu: dict[str, tuple[str, int]],
    differences: list[str],
) -> None:
    contents = StreamContents(trimmed, {"us": us, "eu": eu})
    assert stream_differences(API, contents) == differences


def test_totals_are_compared_up_to_the_ride_that_every_consumer_has(opened: Open) -> None:
    """A consumer that has ride 3 and not ride 2 does not raise the level, and one ID counts not."""
    database = opened("us")

    def ride(distance: int) -> None:
        database.run(
            lambda each: each.write("INSERT INTO rides (distance_mm) VALUES (?)", (distance,))
        )

    for distance in (1000, 2000, 3000):
        ride(distance)
    observer = Observer({"us": database})

    def consume(name: str, *rides: int) -> Progress:
        rows = [(name, "us", ride, ride * 1000) for ride in rides]
        database.run(
            lambda each: each.write_many("INSERT INTO consumed_rides VALUES (?, ?, ?, ?)", rows)
        )
        return observer.look()

    assert consume("one", 1, 2, 3).level == {"us": 0}
    assert consume("two", 1, 3).level == {"us": 1}
    last = consume("two", 2)
    assert (last.level, last.totals_mm) == ({"us": 3}, {"us": 6000})
    assert {each.name: each.totals_mm["us"] for each in last.consumers} == {
        "one": 6000,
        "two": 6000,
        "old": 0,
    }


def test_the_table_fits_into_80_columns_and_shows_who_differs() -> None:
    origins = {"us": 1_234_567, "eu": 1_234_568}
    totals = {"us": 617_283_945_678, "eu": 1}
    wrong = totals | {"eu": 2}
    consumers = [
        ConsumerProgress("us-0", "us", 2_469_135, 12_345, False, totals),
        ConsumerProgress("us-1", "us", 2_469_135, 0, False, wrong),
        ConsumerProgress("eu-one-id", "eu", 1_000_000, 0, True, wrong),
    ]
    progress = Progress(origins, origins, totals, 0, 0, consumers)
    file = io.StringIO()
    console = Console(width=WIDTH, file=file)
    console.print(totals_table(progress, {"us-0": 1234}))
    lines = file.getvalue().splitlines()
    assert "…" not in file.getvalue()
    verdicts = {line.split()[0]: line.split()[-1] for line in lines[2:]}
    assert verdicts == {"API": "0.000001", "us-0": "agree", "us-1": "DIFFER", "eu-one-id": "skips"}
    assert kilometres(totals["us"]) == "617,283.945678" and "617,283.945678" in lines[2]
