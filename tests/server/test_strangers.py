"""Clients without the password: their bounds, their delays, and protected mode.

The rows of docs/security.md have the numbers of the names.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from anabranch.region.driver.client_connection import ABORTED, CLOSING, OPEN, ClientConnection
from anabranch.region.driver.clients import Clients
from anabranch.region.driver.command_execution import STRANGER_COMMANDS
from anabranch.region.driver.login_delays import (
    DELAY_MAX_MS,
    DELAY_MIN_MS,
    FORGET_MS,
    FREE_FAILURES,
    SOURCES_MAX,
    LoginDelays,
    source_of,
)
from anabranch.region.engine.setting import Value
from anabranch.region.engine.settings import Settings
from tests.resp.streams import multibulk
from tests.server.client import connect, until
from tests.server.conftest import Play
from tests.server.stub import StubEngine, StubRegion

SECRET: dict[str, Value] = {"requirepass": "secret"}


class HandClock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.ms = 1000

    def now_ms(self) -> int:
        return self.ms

    def steady_ms(self) -> int:
        return self.ms

    def steady_ns(self) -> int:
        return self.ms * 1_000_000


class Place:
    """The clients of a region that asks for a password, without sockets."""

    def __init__(self, values: dict[str, Value], password_needed: bool = True) -> None:
        self.clock = HandClock()
        self.engine = StubEngine()
        self.engine.password_needed = password_needed
        self.settings = Settings(values)
        self.clients = Clients(self.engine, self.clock, self.settings)

    def connect(self, address: str = "127.0.0.1:5") -> ClientConnection:
        return self.clients.connect(address, "127.0.0.1:7001")

    def tick(self, ms: int) -> list[ClientConnection]:
        """The time passes; returns the connections that have something to do."""
        self.clock.ms += ms
        self.clients.tick()
        return self.clients.take_touched()


def answers(connection: ClientConnection, data: bytes = b"") -> bytes:
    """What the client gets for its input, while turns can be had."""
    if data:
        connection.received(data)
    output = connection.take_output()
    while connection.wants_turn:
        connection.turn()
        output += connection.take_output()
    return output


# -- T9: what a client may hold before it gave the password


def test_t9_a_stranger_that_does_not_read_is_disconnected_at_one_kib(
    play: Play, caplog: pytest.LogCaptureFixture
) -> None:
    """20 clients that never read took 930 MB of a region that asks for a password."""

    async def story(region: StubRegion) -> None:
        region.engine.password_needed = True
        client = await connect(region)
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        limit = "client_output_buffer_limit_disconnections"

        def is_disconnected() -> bool:
            session = region.engine.sessions[0] if region.engine.sessions else None
            # More at once would be too much input.
            if session is not None and session.query_bytes == 0 and not region.engine.left:
                client.send(b"UNKNOWN-COMMAND-WITH-A-LONG-NAME\r\n" * 400)
            return region.clients.figures()[limit] == 1

        await until(is_disconnected)
        assert len(region.engine.left) == 1

    with caplog.at_level(logging.WARNING):
        play(story, SECRET)
    assert "its unsent replies exceed the limit before the password is given" in caplog.text


def test_t9_a_stranger_that_reads_may_send_many_commands(play: Play) -> None:
    async def story(region: StubRegion) -> None:
        region.engine.password_needed = True
        client = await connect(region)
        client.send(b"PING\r\n" * 2000 + b"AUTH secret\r\n" + b"BIG 100000\r\n")
        await client.expect(b"+PONG\r\n" * 2000 + b"+OK\r\n")
        await client.expect(b"$100000\r\n" + b"x" * 100_000 + b"\r\n")
        assert region.clients.figures()["client_output_buffer_limit_disconnections"] == 0

    play(story, SECRET)


def test_t9_a_turn_of_a_stranger_has_few_replies() -> None:
    place = Place(SECRET)
    connection = place.connect()
    connection.received(b"PING\r\n" * 1000)
    assert connection.take_output() == b"+PONG\r\n" * STRANGER_COMMANDS
    assert connection.measures_before, "the transport tells what is unsent before the next one"
    connection.unsent(1025)
    assert connection.ending == ABORTED


def test_t9_a_request_of_a_stranger_has_64_kib() -> None:
    place = Place(SECRET)
    connection = place.connect()
    request = multibulk([b"PING", *[b"x" * 15_000] * 6])
    connection.received(request[: 64 << 10])
    assert connection.ending == OPEN
    connection.received(request[64 << 10 : 80_000])
    assert connection.ending == CLOSING
    # One read may bring more than that. Only clients with the password are read from later.
    pipeline = place.connect()
    pipeline.received(b"PING\r\n" * 20_000)
    assert pipeline.ending == CLOSING
    assert place.clients.figures()["client_query_buffer_limit_disconnections"] == 2
    known = place.connect()
    assert answers(known, b"AUTH secret\r\n") == b"+OK\r\n"
    assert answers(known, request) == b"+PONG\r\n"
    # AUTH at the beginning of a large pipeline, with what libraries send before it.
    eager = place.connect()
    replies = answers(eager, b"HELLO 3\r\nAUTH secret\r\n" + b"PING\r\n" * 20_000)
    assert replies.endswith(b"+OK\r\n" + b"+PONG\r\n" * 20_000)


def test_t9_no_reply_to_a_stranger_waits_for_the_disk() -> None:
    place = Place({**SECRET, "appendfsync": "always"})
    writer = place.connect()
    assert answers(writer, b"AUTH secret\r\n") == b"+OK\r\n"
    assert answers(writer, b"WRITE\r\n") == b""
    assert answers(place.connect(), b"PING\r\n") == b"+PONG\r\n"


# -- T9: all clients together


def test_t9_above_maxmemory_clients_the_largest_client_goes_first(
    caplog: pytest.LogCaptureFixture,
) -> None:
    place = Place({"maxmemory-clients": "1mb"}, password_needed=False)
    small, large, spared = place.connect(), place.connect(), place.connect()
    begun = multibulk([b"ECHO", b"x" * 900_000])
    answers(small, begun[:300_000])
    answers(spared, begun[:700_000])
    place.engine.sessions[2].no_evict = True
    assert place.tick(5) == []
    answers(large, begun[:600_000])
    with caplog.at_level(logging.WARNING):
        assert place.tick(5) == [large]
    assert (large.ending, small.ending, spared.ending) == (ABORTED, OPEN, OPEN)
    assert place.clients.figures()["evicted_clients"] == 1
    assert "the clients hold more than maxmemory-clients" in caplog.text
    assert place.tick(5) == []
    answers(large, b"")
    # What the others hold is counted on: the rest of their requests frees it.
    answers(small, begun[300_000:])
    assert place.tick(5) == []


def test_t9_commands_that_multi_has_queued_count() -> None:
    place = Place({"maxmemory-clients": "0"}, password_needed=False)
    connection = place.connect()
    place.engine.sessions[0].transaction.queued_bytes = 200_000
    assert place.tick(2000) == []
    # As in Redis, a lower limit counts as 128 KiB.
    place.settings.set("maxmemory-clients", "1")
    assert place.tick(2000) == [connection]


# -- T10: wrong passwords


def guess(place: Place, address: str, count: int) -> None:
    for _ in range(count):
        assert answers(place.connect(address), b"AUTH wrong\r\n") == b"-WRONGPASS\r\n"


def test_t10_wrong_passwords_delay_the_next_ones_of_their_address(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A region answered 6,500 guesses a second, and no line of its log told of them."""
    place = Place(SECRET)
    with caplog.at_level(logging.WARNING):
        guess(place, "192.0.2.7:5", FREE_FAILURES + 1)
    assert "client 192.0.2.7:5 gave a wrong password or user" in caplog.text
    delay_ms = DELAY_MIN_MS
    while delay_ms < 2 * DELAY_MAX_MS:
        delayed = place.connect("192.0.2.7:6")
        assert answers(delayed, b"AUTH wrong\r\n") == b""
        waits_ms = min(delay_ms, DELAY_MAX_MS)
        assert place.tick(waits_ms - 1) == []
        assert place.tick(1) == [delayed]
        assert answers(delayed) == b"-WRONGPASS\r\n"
        delay_ms *= 2


def test_t10_a_right_password_of_another_address_does_not_wait() -> None:
    place = Place(SECRET)
    guess(place, "192.0.2.7:5", FREE_FAILURES + 1)
    assert answers(place.connect("192.0.2.7:6"), b"AUTH secret\r\n") == b""
    assert answers(place.connect("192.0.2.8:5"), b"AUTH secret\r\nPING\r\n") == b"+OK\r\n+PONG\r\n"


def test_t10_a_client_that_has_given_the_password_does_not_wait() -> None:
    place = Place(SECRET)
    known = place.connect("192.0.2.7:4")
    assert answers(known, b"AUTH secret\r\n") == b"+OK\r\n"
    guess(place, "192.0.2.7:5", FREE_FAILURES + 1)
    assert answers(known, b"PING\r\n") == b"+PONG\r\n"


def test_t10_those_who_wait_are_served_in_order_and_a_right_password_frees_them() -> None:
    place = Place(SECRET)
    guess(place, "192.0.2.7:5", FREE_FAILURES + 1)
    waiting = [place.connect(f"192.0.2.7:{port}") for port in range(6, 9)]
    passwords = [b"wrong", b"secret", b"secret"]
    for connection, password in zip(waiting, passwords, strict=True):
        assert answers(connection, b"AUTH " + password + b"\r\nPING\r\n") == b""
    assert place.tick(DELAY_MIN_MS) == waiting[:1]
    assert answers(waiting[0]) == b"-WRONGPASS\r\n", "its next command waits again"
    assert place.tick(2 * DELAY_MIN_MS) == waiting[1:2]
    assert answers(waiting[1]) == b"+OK\r\n+PONG\r\n"
    assert place.tick(1) == [waiting[2], waiting[0]]
    assert answers(waiting[2]) == b"+OK\r\n+PONG\r\n"
    assert answers(waiting[0]) == b"+PONG\r\n"


def test_t10_a_client_that_waits_holds_little() -> None:
    place = Place(SECRET)
    guess(place, "192.0.2.7:5", FREE_FAILURES + 1)
    delayed, gone = place.connect("192.0.2.7:6"), place.connect("192.0.2.7:7")
    for connection in (delayed, gone):
        assert answers(connection, b"AUTH wrong\r\n" * 1000) == b""
    assert delayed.ending == OPEN
    delayed.received(b"AUTH wrong\r\n" * 10_000)
    assert delayed.ending == CLOSING
    gone.lost()
    assert place.tick(DELAY_MAX_MS) == []


def test_t10_a_guess_ends_a_turn(play: Play) -> None:
    """A pipeline of guesses is no way around the delay."""

    async def story(region: StubRegion) -> None:
        region.engine.password_needed = True
        client = await connect(region)
        client.send(b"AUTH wrong\r\n" * (FREE_FAILURES + 4) + b"AUTH right\r\n")
        await client.expect(b"-WRONGPASS\r\n" * (FREE_FAILURES + 4) + b"+OK\r\n")

    play(story, SECRET)


@pytest.fixture
def delays() -> Iterator[LoginDelays[str]]:
    yield LoginDelays()


def test_t10_addresses_that_are_remembered_are_bounded(delays: LoginDelays[str]) -> None:
    for _ in range(FREE_FAILURES + 1):
        delays.failed("192.0.2.7:5", 0)
    assert delays.must_wait("192.0.2.7:6", "waits", 0)
    for number in range(SOURCES_MAX - 1):
        delays.failed(f"10.0.{number // 256}.{number % 256}:5", 1)
    assert delays.due(1) == []
    delays.failed("192.0.2.8:5", 1)
    assert delays.due(1) == ["waits"], "its address was forgotten, so it need not wait"
    assert not delays.waits()


def test_t10_an_address_is_forgotten_after_a_while(delays: LoginDelays[str]) -> None:
    for _ in range(FREE_FAILURES + 9):
        delays.failed("192.0.2.7:5", 0)
    delays.failed("192.0.2.7:5", FORGET_MS + 1)
    assert not delays.must_wait("192.0.2.7:6", "comes later", FORGET_MS + 1)


@pytest.mark.parametrize(
    ("address", "source"),
    [
        ("192.0.2.7:5", "192.0.2.7"),
        ("[::1]:5", "::/64"),
        ("[2001:db8:0:1:2:3:4:5]:5", "2001:db8:0:1::/64"),
        ("[2001:db8:0:1:ffff::]:5", "2001:db8:0:1::/64"),
        ("[::ffff:192.0.2.7]:5", "192.0.2.7"),
        ("[fe80::1%eth0]:5", "fe80::/64"),
        ("", ""),
    ],
)
def test_t10_an_ipv6_network_is_one_address(address: str, source: str) -> None:
    assert source_of(address) == source


# -- T12: protected mode


@pytest.mark.parametrize("address", ["192.0.2.7:5", "[2001:db8::1]:5", "[::ffff:192.0.2.7]:5", ""])
def test_t12_without_a_password_other_machines_are_denied(address: str) -> None:
    """A region on all addresses served everybody who could reach it."""
    place = Place({}, password_needed=False)
    denied = place.connect(address)
    text = denied.take_output()
    assert text.startswith(b"-DENIED anabranch is running in protected mode")
    assert b"CONFIG SET protected-mode no" in text and text.endswith(b"\r\n")
    assert denied.ending == CLOSING and denied.session is None
    figures = place.clients.figures()
    assert (figures["rejected_connections"], figures["connected_clients"]) == (1, 0)


@pytest.mark.parametrize(
    "address", ["127.0.0.1:5", "127.8.9.1:5", "[::1]:5", "[::ffff:127.0.0.1]:5"]
)
def test_t12_clients_of_the_machine_are_served(address: str) -> None:
    place = Place({}, password_needed=False)
    assert answers(place.connect(address), b"PING\r\n") == b"+PONG\r\n"


@pytest.mark.parametrize("values", [{"protected-mode": "no"}, SECRET])
def test_t12_a_password_or_the_setting_ends_protected_mode(values: dict[str, Value]) -> None:
    place = Place(values, password_needed=False)
    assert answers(place.connect("192.0.2.7:5"), b"PING\r\n") == b"+PONG\r\n"


def test_t12_the_lines_of_the_log_are_few(caplog: pytest.LogCaptureFixture) -> None:
    place = Place({}, password_needed=False)
    with caplog.at_level(logging.WARNING):
        for _ in range(100):
            place.connect("192.0.2.7:5")
    assert 1 <= len([one for one in caplog.messages if "protected mode" in one]) <= 10
