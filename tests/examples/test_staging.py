"""POST /rides: a ride and its staged record are written together, or not at all."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from examples.rocket_rides import tables
from examples.rocket_rides.__main__ import main
from examples.rocket_rides.api import RideServer, asked_distance, create_ride
from examples.rocket_rides.database import Database, DatabaseError, Transaction, open_database
from examples.rocket_rides.records import InvalidRide, Ride, decoded
from tests.examples.conftest import Open


def staged(database: Database) -> list[Ride]:
    rows = database.run(lambda each: each.rows("SELECT data FROM staged_log_records ORDER BY id"))
    return [decoded(data) for (data,) in rows]


def test_a_ride_comes_with_its_staged_record(opened: Open) -> None:
    database = opened("us")
    taken = [create_ride(database, "us", distance) for distance in (456_700, 89_000)]
    assert [ride.distance_mm for ride in taken] == [456_700, 89_000]
    assert staged(database) == taken == database.run(lambda each: tables.rides(each, "us"))


def test_if_the_record_cannot_be_staged_there_is_no_ride(opened: Open) -> None:
    database = opened("us")
    database.run(lambda each: each.write("ALTER TABLE staged_log_records RENAME TO away"))
    with pytest.raises(Exception, match="staged_log_records"):
        create_ride(database, "us", 1000)
    assert database.run(lambda each: tables.rides(each, "us")) == []
    database.run(lambda each: each.write("ALTER TABLE away RENAME TO staged_log_records"))
    assert create_ride(database, "us", 1000) in staged(database)


def test_a_transaction_that_raises_leaves_nothing(opened: Open) -> None:
    database = opened("us")

    def work(transaction: Transaction) -> None:
        transaction.write("INSERT INTO rides (distance_mm) VALUES (?)", (1,))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        database.run(work)
    assert database.run(lambda each: tables.rides(each, "us")) == []


def test_clients_at_once_are_serialized(opened: Open, database_url: str) -> None:
    """Each adds the number of the rides that it sees: in any serial order that gives 0, 1, 2, …"""
    database = opened("us")

    def count_and_insert(transaction: Transaction) -> None:
        count = transaction.rows("SELECT count(*) FROM rides")[0][0]
        transaction.write("INSERT INTO rides (distance_mm) VALUES (?)", (count,))

    def client() -> None:
        database = open_database(database_url, "us")
        for _ in range(10):
            database.run(count_and_insert)
        database.close()

    threads = [threading.Thread(target=client) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    distances = [ride.distance_mm for ride in database.run(lambda each: tables.rides(each, "us"))]
    assert sorted(distances) == list(range(40))


def test_a_database_of_a_former_run_is_refused(opened: Open, database_url: str) -> None:
    database = opened("us")
    ride = create_ride(database, "us", 1000)
    with pytest.raises(DatabaseError, match="holds a former run"):
        tables.create(database_url, "us", [])
    assert staged(database) == [ride]


def test_a_wrong_url_is_told() -> None:
    with pytest.raises(DatabaseError, match=r"no such database: mysql://x; give sqlite:DIRECTORY"):
        open_database("mysql://x", "us")


@pytest.mark.parametrize("part", ["reconcile", "trimmer"])
def test_a_directory_without_a_run_is_told_and_stays_empty(
    part: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`reconcile` in a wrong directory made an empty database there for each region."""
    file = tmp_path / "cluster.toml"
    file.write_text('[[regions]]\nname = "us"\nresp = "127.0.0.1:1"\n')
    empty = tmp_path / "empty"
    empty.mkdir()
    assert main([part, "--cluster", str(file), "--database", f"sqlite:{empty}"]) == 1
    assert f"there is no {empty}/us.sqlite: give the --database" in capsys.readouterr().err
    assert list(empty.iterdir()) == []


@pytest.mark.parametrize(
    ("body", "distance_mm"),
    [
        ('{"distance": 456.7}', 456_700),
        ('{"distance": 1}', 1000),
        ('{"distance": 0.001}', 1),
        ('{"distance": 40075017}', 40_075_017_000),
    ],
)
def test_good_requests(body: str, distance_mm: int) -> None:
    assert asked_distance(body.encode()) == distance_mm


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "must be JSON"),
        (b"\xff\xfe", "must be JSON"),
        (b"distance=1", "must be JSON"),
        (b"[1]", "must be an object"),
        (b"{}", "must be an object"),
        (b'{"distance": 1, "id": 7}', "must be an object"),
        (b'{"distance": "1"}', "must be a number"),
        (b'{"distance": true}', "must be a number"),
        (b'{"distance": null}', "must be a number"),
        (b'{"distance": NaN}', "must be between"),
        (b'{"distance": Infinity}', "must be between"),
        (b'{"distance": 0}', "must be between"),
        (b'{"distance": -5}', "must be between"),
        (b'{"distance": 0.0004}', "must be between"),
        (b'{"distance": 1e99}', "must be between"),
        (b'{"distance": ' + b"9" * 400 + b"}", "must be between"),
    ],
)
def test_bad_requests(body: bytes, reason: str) -> None:
    with pytest.raises(InvalidRide, match=reason):
        asked_distance(body)


class Api:
    """A served API, and requests to it."""

    def __init__(self, database_url: str) -> None:
        self.server = RideServer(0, "us", lambda: open_database(database_url, "us"))
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,))
        self.thread.start()
        self.connection = http.client.HTTPConnection("127.0.0.1", self.server.server_port)

    def post(self, path: str, body: bytes, **headers: str) -> tuple[int, dict[str, object]]:
        self.connection.request("POST", path, body, headers)
        response = self.connection.getresponse()
        return response.status, json.loads(response.read())

    def close(self) -> None:
        self.connection.close()
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def api(database_url: str, opened: Open) -> Iterator[Api]:
    opened("us")
    one = Api(database_url)
    try:
        yield one
    finally:
        one.close()


def test_the_api_takes_rides_and_refuses_others(api: Api, opened: Open) -> None:
    body = b'{"distance": 456.7}'
    assert api.post("/rides", body) == (201, {"origin": "us", "id": 1, "distance": 456.7})
    assert api.post("/rides", b'{"distance": -1}')[0] == 400
    # Before, the body of this request was taken for the beginning of the next one.
    assert api.post("/other", body)[0] == 404
    assert api.post("/rides", body) == (201, {"origin": "us", "id": 2, "distance": 456.7})
    assert staged(opened("us")) == [Ride("us", 1, 456_700), Ride("us", 2, 456_700)]


@pytest.mark.parametrize("length", ["x", "-1", "99999999", "٣"])
def test_a_wrong_length_is_refused(api: Api, length: str) -> None:
    api.connection.putrequest("POST", "/rides")
    api.connection.putheader("Content-Length", length.encode())
    api.connection.endheaders()
    response = api.connection.getresponse()
    assert response.status == 400 and "Content-Length" in json.loads(response.read())["error"]
