"""Rides, entry IDs and checkpoints, as values.

Distances are whole millimetres. Sums of floats would depend on the order of the rides, and two
consumers may read the logs of two regions in different orders.
"""

from __future__ import annotations

import json
from typing import NamedTuple, Union

STREAM = "rocket-rides-log"
ACTION_CREATE = "create"
OBJECT_RIDE = "ride"
# Once around the Earth.
DISTANCE_MAX_M = 40_075_017


class InvalidRide(Exception):
    """A client asked for a ride that cannot exist. The text says what is wrong with it."""


class Ride(NamedTuple):
    """One ride. Each region numbers its own rides, so only (origin, ride_id) identifies one.

    `origin` is the region whose API took the ride.
    """

    origin: str
    ride_id: int
    distance_mm: int


class StagedRecord(NamedTuple):
    """A record that waits in the database for the streamer. `data` is `encoded(ride)`."""

    record_id: int
    data: str


class Position(NamedTuple):
    """A place in a log: the counter and the ID of the last record that was processed.

    A consumer with one ID for the stream has one position, and no counter (0).
    """

    counter: int
    entry_id: str


# Log → the position up to which a consumer has processed it. A log is the name of a region, or
# `WHOLE_STREAM`.
Checkpoint = dict[str, Position]
WHOLE_STREAM = "*"

EntryId = tuple[int, int]


def entry_id(text: str) -> EntryId:
    """The two numbers of an entry ID such as ``1790000000000-1``; they compare as the IDs do."""
    ms, _, seq = text.partition("-")
    return int(ms), int(seq)


def encoded(ride: Ride) -> str:
    """The ride as the JSON of a log record."""
    return json.dumps(
        {"origin": ride.origin, "id": ride.ride_id, "distance_mm": ride.distance_mm},
        separators=(",", ":"),
    )


def decoded(data: str) -> Ride:
    """The ride of a log record; ValueError or KeyError if the record is not one of ours."""
    fields = json.loads(data)
    return Ride(str(fields["origin"]), int(fields["id"]), int(fields["distance_mm"]))


def distance_mm(metres: object) -> int:
    """The distance of a request in whole millimetres; `metres` is a value from JSON.

    InvalidRide if it is no number, or not between 1 mm and once around the Earth.
    """
    if isinstance(metres, bool) or not isinstance(metres, (int, float)):
        raise InvalidRide("distance must be a number of metres")
    number: Union[int, float] = metres
    if not 0.001 <= number <= DISTANCE_MAX_M:
        raise InvalidRide(f"distance must be between 0.001 and {DISTANCE_MAX_M} metres")
    return round(number * 1000)
