"""The HTTP API of one region: POST /rides writes a ride and a staged record in one transaction.

The record is not sent to the stream here. If the transaction rolls back, neither the ride nor the
record exists; if it commits, both do, and the streamer finds the record.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from examples.rocket_rides.database import Conflict, Database, Transaction, open_database
from examples.rocket_rides.records import (
    ACTION_CREATE,
    OBJECT_RIDE,
    InvalidRide,
    Ride,
    distance_mm,
    encoded,
)

BODY_BYTES_MAX = 64 * 1024
HOST = "127.0.0.1"


def create_ride(database: Database, origin: str, distance: int) -> Ride:
    """Writes a ride and its staged record, both or neither.

    Arguments:
        database: That of the region.
        origin: The name of the region.
        distance: In millimetres.

    Raises:
        Conflict: The transaction could not be serialized. Nothing was written.
    """

    def work(transaction: Transaction) -> Ride:
        rows = transaction.rows(
            "INSERT INTO rides (distance_mm) VALUES (?) RETURNING id", (distance,)
        )
        ride = Ride(origin, int(rows[0][0]), distance)
        transaction.write(
            "INSERT INTO staged_log_records (action, object, data) VALUES (?, ?, ?)",
            (ACTION_CREATE, OBJECT_RIDE, encoded(ride)),
        )
        return ride

    return database.run(work)


def asked_distance(body: bytes) -> int:
    """The distance in millimetres that the body of a request asks for; InvalidRide if it is bad."""
    try:
        asked = json.loads(body)
    except ValueError:
        raise InvalidRide('the body must be JSON, such as {"distance": 456.7}') from None
    if not isinstance(asked, dict) or set(asked) != {"distance"}:
        raise InvalidRide('the body must be an object with one field, "distance"')
    return distance_mm(asked["distance"])


class Handler(BaseHTTPRequestHandler):
    """Answers the requests of one connection, with its own connection to the database."""

    protocol_version = "HTTP/1.1"
    # Headers and body leave together. Without a buffer the kernel would hold back the body until
    # the client has acknowledged the headers.
    wbufsize = -1
    timeout = 60
    server: RideServer

    def setup(self) -> None:
        """Opens the connection to the database."""
        super().setup()
        self.database = self.server.open()

    def finish(self) -> None:
        """Closes the connection to the database."""
        self.database.close()
        super().finish()

    def do_POST(self) -> None:
        """POST /rides: 201 with the ride, 400 for a bad request, 503 if nothing was written."""
        try:
            body = self._body()
            if self.path != "/rides":
                self._answer(404, {"error": "there is only /rides"})
                return
            distance = asked_distance(body)
            ride = create_ride(self.database, self.server.origin, distance)
        except InvalidRide as error:
            self._answer(400, {"error": str(error)})
        except Conflict:
            self._answer(503, {"error": "the database is busy; nothing was written, try again"})
        else:
            metres = ride.distance_mm / 1000
            self._answer(201, {"origin": ride.origin, "id": ride.ride_id, "distance": metres})

    def _body(self) -> bytes:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > BODY_BYTES_MAX:
            self.close_connection = True
            raise InvalidRide(f"Content-Length must be given, and at most {BODY_BYTES_MAX}")
        return self.rfile.read(int(length))

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
        self.wfile.flush()

    def log_message(self, format: str, *args: object) -> None:
        """Writes no line for each request."""


class RideServer(ThreadingHTTPServer):
    """The HTTP server of one region. `open` opens a connection to its database."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int, origin: str, open: Callable[[], Database]) -> None:
        super().__init__((HOST, port), Handler)
        self.origin = origin
        self.open = open


def serve(url: str, region: str, port: int) -> None:
    """Serves the API of one region until the process ends."""
    RideServer(port, region, lambda: open_database(url, region)).serve_forever()
