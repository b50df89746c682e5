"""The reconciliation: compares consumers and stream with the rides of the API, and names each
difference.

The databases of the APIs are the canonical source. For every consumer and every ride, the total of
all rides up to that one (of its origin) must be the same as in the API's database. In the stream,
each ride must stand once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import accumulate
from typing import NamedTuple

from examples.rocket_rides import tables
from examples.rocket_rides.database import Database, Transaction
from examples.rocket_rides.records import Ride
from examples.rocket_rides.ride_log import Endpoint, Entry, RideLog

PAGE_RECORDS = 1000
RIDE_ID_MAX = 2**63 - 1

RideKey = tuple[str, int]


class Account(NamedTuple):
    """One consumer: its rides by origin, in order of ID, and the sums that it keeps."""

    name: str
    rides: dict[str, list[Ride]]
    ride_count: int
    distance_mm: int
    seen_again: int
    uses_one_id: bool


class Sends(NamedTuple):
    """The double sends of one streamer, and how many of them went to another region."""

    origin: str
    twice: int
    elsewhere: int


class StreamContents(NamedTuple):
    """The records that were in the stream: those that were trimmed, and those that each region has.

    Both map the ID of an entry to its ride.
    """

    trimmed: dict[str, RideKey]
    present: dict[str, dict[str, RideKey]]


class Reconciliation(NamedTuple):
    """The outcome. It agrees if `differences` is empty; each is one sentence.

    `equal_totals` counts the running totals that were compared and equal: one for each consumer and
    ride. `skipped` are the rides that consumers with one ID for the stream lack, by consumer; these
    are no differences.
    """

    api: dict[str, list[Ride]]
    accounts: list[Account]
    sends: list[Sends]
    stream: StreamContents
    equal_totals: int
    skipped: dict[str, int]
    differences: list[str]


def reconcile(databases: Mapping[str, Database], regions: Sequence[Endpoint]) -> Reconciliation:
    """Compares everything, once.

    Arguments:
        databases: Region → its database.
        regions: The regions whose stream is read.

    Raises:
        NoRegionAnswers: A region does not answer.
    """
    api = {
        origin: database.run(partial(tables.rides, origin=origin))
        for origin, database in databases.items()
    }
    accounts = [
        account
        for database in databases.values()
        for account in database.run(partial(_accounts, origins=list(databases)))
    ]
    sends = [
        Sends(origin, *map(int, database.run(_double_sends)))
        for origin, database in databases.items()
    ]
    # In this order, a record that the trimmer removes meanwhile is found at least once.
    present = {region.name: _present(RideLog([region])) for region in regions}
    trimmed: dict[str, RideKey] = {}
    for database in databases.values():
        trimmed |= database.run(_trimmed)
    stream = StreamContents(trimmed, present)
    skipped = {}
    equal = 0
    differences = [
        text for origin, database in databases.items() for text in _staged(origin, database)
    ]
    for account in accounts:
        if account.uses_one_id:
            skipped[account.name] = sum(
                len(set(api[origin]) - set(account.rides[origin])) for origin in api
            )
        else:
            equal += _equal_totals(api, account)
            differences += account_differences(api, account)
    differences += stream_differences(api, stream)
    return Reconciliation(api, accounts, sends, stream, equal, skipped, differences)


def account_differences(api: Mapping[str, list[Ride]], account: Account) -> list[str]:
    """Where a consumer differs from the API: a sentence for each ride, and one for wrong sums."""
    found = []
    for origin, rides in api.items():
        theirs = {ride.ride_id: ride for ride in account.rides[origin]}
        for ride in rides:
            other = theirs.pop(ride.ride_id, None)
            what = f"ride {ride.ride_id} of {origin}"
            if other is None:
                found.append(f"{account.name} lacks {what}")
            elif other != ride:
                found.append(
                    f"{account.name} has {what} with {other.distance_mm} mm instead of"
                    f" {ride.distance_mm} mm"
                )
        found += [
            f"{account.name} has ride {ride} of {origin}, which the API does not have"
            for ride in theirs
        ]
    listed = [ride for rides in account.rides.values() for ride in rides]
    sums = (len(listed), sum(ride.distance_mm for ride in listed))
    if sums != (account.ride_count, account.distance_mm):
        found.append(
            f"{account.name} keeps a total of {account.ride_count} rides and"
            f" {account.distance_mm} mm, and its rides make {sums[0]} and {sums[1]} mm"
        )
    return found


def stream_differences(api: Mapping[str, list[Ride]], stream: StreamContents) -> list[str]:
    """Rides that stand in the stream not once, and regions whose streams differ."""
    found = []
    expected = {(ride.origin, ride.ride_id) for rides in api.values() for ride in rides}
    for region, present in stream.present.items():
        uses = Counter((stream.trimmed | present).values())
        for (origin, ride), count in sorted(uses.items()):
            if count > 1:
                found.append(
                    f"ride {ride} of {origin} stands {count} times in the stream of {region}"
                )
        found += [
            f"ride {ride} of {origin} is not in the stream of {region}"
            for origin, ride in sorted(expected - set(uses))
        ]
        found += [
            f"ride {ride} of {origin} is in the stream of {region}, and the API does not have it"
            for origin, ride in sorted(set(uses) - expected)
        ]
    (first, reference), *others = stream.present.items()
    for region, present in others:
        found += [
            f"entry {entry} is in the stream of only one of {first} and {region}"
            for entry in sorted(set(reference) ^ set(present))
        ]
    return found


def _equal_totals(api: Mapping[str, list[Ride]], account: Account) -> int:
    """The number of rides at which the running total of their origin equals that of the API."""
    return sum(
        len(set(_running(rides)) & set(_running(account.rides[origin])))
        for origin, rides in api.items()
    )


def _running(rides: Iterable[Ride]) -> list[tuple[int, int]]:
    """(ride ID, total distance of the rides up to it) for each ride, in order of ID."""
    rides = list(rides)
    sums = accumulate(ride.distance_mm for ride in rides)
    return [(ride.ride_id, total) for ride, total in zip(rides, sums, strict=True)]


def _accounts(transaction: Transaction, origins: list[str]) -> list[Account]:
    rows = transaction.rows(
        "SELECT name, rides, distance_mm, seen_again, way FROM consumers ORDER BY name"
    )
    return [
        Account(
            str(name),
            {
                origin: tables.consumed(transaction, name, origin, 0, RIDE_ID_MAX)
                for origin in origins
            },
            int(rides),
            int(distance),
            int(again),
            way == tables.ONE_ID_WAY,
        )
        for name, rides, distance, again, way in rows
    ]


def _double_sends(transaction: Transaction) -> tuple[int, int]:
    row = transaction.rows("SELECT double_sends, sent_elsewhere FROM producers")[0]
    return row[0], row[1]


def _trimmed(transaction: Transaction) -> dict[str, RideKey]:
    rows = transaction.rows("SELECT entry_id, origin, ride_id FROM trimmed_records")
    return {str(entry): (str(origin), int(ride)) for entry, origin, ride in rows}


def _present(log: RideLog) -> dict[str, RideKey]:
    found: list[Entry] = []
    while page := log.read_stream(found[-1].entry_id if found else "", PAGE_RECORDS):
        found += page
    return {entry.entry_id: (entry.ride.origin, entry.ride.ride_id) for entry in found}


def _staged(origin: str, database: Database) -> list[str]:
    count = database.run(tables.staged_count)
    return [f"{count} staged records of {origin} are not in the stream"] if count else []
