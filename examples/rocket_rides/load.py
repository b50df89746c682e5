"""The load: sends rides to the API of each region, in several connections at once."""

from __future__ import annotations

import http.client
import json
import random
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from examples.rocket_rides.api import HOST
from examples.rocket_rides.records import Ride

CONNECTIONS = 4
TIMEOUT_S = 30.0
BUSY_PAUSE_S = 0.05


class LoadError(Exception):
    """The API answered a ride with an error. The text has the answer."""


class WantedRide(NamedTuple):
    """A ride that a client will ask for, and the region whose API it asks."""

    origin: str
    distance_m: float


def wanted_rides(count: int, seed: int, origins: Sequence[str]) -> list[WantedRide]:
    """The rides of a run, a function of the arguments: 0.1 to 1,000 m, each in a drawn region."""
    draw = random.Random(f"{seed}/rides")
    return [
        WantedRide(draw.choice(origins), draw.randint(100, 1_000_000) / 1000) for _ in range(count)
    ]


def send(rides: Sequence[WantedRide], ports: dict[str, int]) -> int:
    """Sends rides to the APIs; returns how many were taken, which is all of them.

    Arguments:
        rides: In the order in which each connection sends its share.
        ports: Region → the port of its API.

    Raises:
        LoadError: An API refused a ride, or does not answer.
    """
    shares = []
    for origin, port in ports.items():
        own = [ride for ride in rides if ride.origin == origin]
        shares += [(port, own[n::CONNECTIONS]) for n in range(CONNECTIONS)]
    with ThreadPoolExecutor(len(shares)) as pool:
        return sum(pool.map(lambda share: len(send_share(*share)), shares))


def send_share(port: int, rides: Iterable[WantedRide]) -> list[Ride]:
    """Sends rides one after the other on one connection; returns them as the API took them."""
    connection = http.client.HTTPConnection(HOST, port, timeout=TIMEOUT_S)
    taken = []
    try:
        for ride in rides:
            taken.append(_send_one(connection, ride))
    except (OSError, http.client.HTTPException) as error:
        raise LoadError(f"the API on port {port} does not answer: {error!r}") from error
    finally:
        connection.close()
    return taken


def _send_one(connection: http.client.HTTPConnection, ride: WantedRide) -> Ride:
    body = json.dumps({"distance": ride.distance_m}).encode()
    while True:
        connection.request("POST", "/rides", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        answer = json.loads(response.read())
        if response.status == 201:
            return Ride(answer["origin"], answer["id"], round(answer["distance"] * 1000))
        if response.status != 503:
            raise LoadError(f"the API answered {response.status}: {answer['error']}")
        # Nothing was written, so the ride can be sent again.
        time.sleep(BUSY_PAUSE_S)
