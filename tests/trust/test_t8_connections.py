"""T8: who connects to the port of the other regions takes no place, and no link, of others."""

from __future__ import annotations

import contextlib
import resource
import socket
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from anabranch.region.engine.clock import SteadyClock
from anabranch.region.engine.settings import Settings
from anabranch.sync.session import messages as m
from anabranch.sync.session.hub import Hub
from anabranch.sync.session.links import OtherEnd
from anabranch.sync.session.unnamed import HELLO_PATIENCE_MS, UNNAMED_MAX, Unnamed, host_of
from tests.support.cluster import LiveCluster
from tests.support.processes import eventually
from tests.sync.fakes import NAMES, FakeEngine, World

PATIENCE_S = 30.0
TABLE = {1: NAMES[1], 2: NAMES[2]}


def hello(life: int = 1, region_id: int = 2) -> m.Hello:
    name = NAMES[region_id]
    return m.Hello(m.VERSION, "c", TABLE, region_id, name, 1, life, {}, {}, frozenset(), 1 << 20)


def hub() -> Hub:
    engine = FakeEngine(1, TABLE)
    return Hub(engine, Settings(), [2], engine.log.tail, SteadyClock(0))


def said(one: Hub, number: int) -> list[Any]:
    """What the hub sends on a connection."""
    found = []
    while (message := one.next_message(number)) is not None:
        found.append(message)
    return found


# -- places


def test_t8_connections_without_a_hello_are_few() -> None:
    unnamed = Unnamed()
    closed = [unnamed.add(number, f"10.0.0.{number}:5", 0) for number in range(UNNAMED_MAX + 2)]
    assert closed == [None] * UNNAMED_MAX + [0, 1], "the oldest ones go"
    assert len(unnamed) == UNNAMED_MAX


def test_t8_an_address_with_many_connections_keeps_out_none_but_itself() -> None:
    """A stranger opened so many connections that a peer's was closed before it had said Hello."""
    unnamed = Unnamed()
    assert unnamed.add(1, "[fd00::2]:7000", 0) is None
    closed = [unnamed.add(number, "[fd00::66]:7000", 0) for number in range(2, 500)]
    assert 1 in unnamed and 1 not in closed
    assert len(unnamed) == UNNAMED_MAX


def test_t8_host_of_an_address() -> None:
    assert [host_of(one) for one in ("10.0.0.1:7", "[fd00::2]:7", "")] == [
        "10.0.0.1",
        "[fd00::2]",
        "",
    ]


def test_t8_a_connection_without_a_hello_is_closed_after_some_seconds() -> None:
    """It was kept until it had been silent for as long as a peer may be: settings may say a day."""
    one = hub()
    number = one.accepted(0, OtherEnd("10.9.9.9:5000"))
    one.tick(HELLO_PATIENCE_MS - 1)
    assert not one.finished(number)
    one.take_work()
    one.tick(HELLO_PATIENCE_MS)
    assert one.finished(number)
    (event,) = one.take_work().events
    assert event.name == "link_refused" and event.fields["address"] == "10.9.9.9:5000"


def test_t8_a_peer_that_has_greeted_stays() -> None:
    one = hub()
    number = one.accepted(0, OtherEnd("10.0.0.2:5000"))
    one.received(number, hello(), 0)
    for now_ms in range(0, 2 * HELLO_PATIENCE_MS, 1000):
        one.received(number, m.VectorAcknowledgement({}, frozenset()), now_ms)
        one.tick(now_ms)
    assert not one.finished(number)


@contextlib.contextmanager
def idle_connections(port: int, count: int, data: bytes = b"") -> Iterator[None]:
    """So many connections that say `data` and nothing more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(count + 1000, hard), hard))
    with contextlib.ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        for _ in range(count):
            one = stack.enter_context(socket.socket())
            one.settimeout(PATIENCE_S)
            with contextlib.suppress(OSError):
                one.connect(("127.0.0.1", port))
                one.sendall(data)
        yield


@pytest.mark.live
@pytest.mark.parametrize("data", [b"", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"])
def test_t8_idle_sync_connections_take_no_descriptors(
    new_cluster: Callable[..., LiveCluster], data: bytes
) -> None:
    """1,500 idle connections took all descriptors: no client and no probe was answered any more.

    Neither could another region connect.
    """
    cluster = new_cluster(["us", "eu"])
    us = cluster.start("us")
    assert us.process is not None
    _, hard = resource.prlimit(us.process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(us.process.pid, resource.RLIMIT_NOFILE, (500, hard))
    with idle_connections(us.sync_port, 1500, data):
        for _ in range(20):
            with us.client(socket_timeout=PATIENCE_S) as client:
                assert client.ping()
        health = f"http://127.0.0.1:{us.http_port}/health"
        with urllib.request.urlopen(health, timeout=PATIENCE_S) as answer:
            assert answer.status == 200
        cluster.start("eu")
        eventually(lambda: cluster.links("eu") == {"us": "up"}, PATIENCE_S, "eu receiving from us")
        files = len(list(Path(f"/proc/{us.process.pid}/fd").iterdir()))
        assert files < 64 * 3 + 100, "three descriptors for each connection without a Hello"
    log = Path(us.log).read_text()
    assert "event=link_accepted region=us peer=eu" in log and "address=127.0.0.1:" in log
    assert "Traceback" not in log


# -- links


def mesh() -> World:
    world = World([(1, 2), (2, 1)])
    world.run(500)
    assert world.engines[1].receivers == {2}
    return world


def stranger(world: World, greeting: m.Hello) -> int:
    """Somebody else dials us and says that greeting. Returns the connection's number at us."""
    number = world.hubs[1].accepted(world.now_ms, OtherEnd("10.9.9.9:5000"))
    world.hubs[1].received(number, greeting, world.now_ms)
    return number


@pytest.mark.parametrize("life", [1, 2, 1000])
def test_t8_a_stranger_does_not_cut_a_living_link(life: int) -> None:
    """Whoever said Hello as eu ended the link of the real eu, as often as it liked."""
    world = mesh()
    us, before = world.hubs[1], world.hubs[1].sending[2].number
    number = stranger(world, hello(life))
    assert us.sending[2].number == before and said(us, number) == []
    world.run(1000)
    assert us.sending[2].number == before
    assert world.engines[1].lives.get(2) == 1, "what the stranger said of eu's life does not count"
    (refusal,) = said(us, number)
    assert (refusal.reason, refusal.life) == ("superseded", 0) and us.finished(number)
    assert any("another connection of eu is alive" in note for note in world.notes)
    world.engines[1].write("goes on")
    world.settle()


def test_t8_nothing_is_said_to_a_newcomer_before_the_former_link_is_closed() -> None:
    """S2.2, and what the former connection still says counts until then."""
    world = mesh()
    us = world.hubs[1]
    world.lose_silently(2, 1)
    number = stranger(world, hello())
    assert said(us, number) == [] and us.sending[2].number != number


@pytest.mark.parametrize("life", [1, 7])
def test_t8_a_peer_whose_link_is_dead_gets_in(life: int) -> None:
    """It lost its connection, or its machine died: nothing says so here but its next Hello."""
    world = mesh()
    us, before = world.hubs[1], world.hubs[1].sending[2].number
    if life == 1:
        world.lose_silently(2, 1)
    else:
        world.put_back(2, life)
    world.until(lambda: 2 in us.sending and us.sending[2].number != before, 5000)
    world.until(lambda: world.engines[2].states.get(1, ("",))[0] == "up", 1000)
    assert us.finished(before) and world.engines[1].receivers == {2}
    world.engines[1].write("for the newcomer")
    world.settle()


def test_t8_a_peer_gets_in_at_once_when_its_former_link_closes() -> None:
    world = mesh()
    us, before = world.hubs[1], world.hubs[1].sending[2].number
    number = stranger(world, hello())
    us.closed(before, "reset", world.now_ms)
    us.tick(world.now_ms + 5)
    assert us.sending[2].number == number


def test_t8_a_peer_gets_in_where_a_stranger_was_first() -> None:
    """A stranger that never leaves would keep the peer out.

    But the peer has the number of the process that answers at its own address.
    """
    world = World([(1, 2), (2, 1)])
    world.engines[2].process = 22
    world.cut(1, 2)
    us, number = world.hubs[1], stranger(world, hello())
    assert us.sending[2].number == number
    world.heal(1, 2)
    for _ in range(200):
        us.received(number, m.VectorAcknowledgement({}, frozenset()), world.now_ms)
        world.step()
    assert us.finished(number) and us.sending[2].process == 22


def test_t8_the_same_process_does_not_wait_for_its_former_connection() -> None:
    """It has lost that one, whatever still comes from there."""
    world = World([(1, 2), (2, 1)])
    world.engines[2].process = 22
    world.run(500)
    us, before = world.hubs[1], world.hubs[1].sending[2].number
    greeting = hello()
    greeting.process = 22
    number = stranger(world, greeting)
    assert us.sending[2].number == number and us.finished(before)


def test_t8_another_process_is_refused_and_told_of() -> None:
    """Two processes of one region, or a stranger: the operator has to look."""
    world = World([(1, 2), (2, 1)])
    world.engines[2].process = 22
    world.engines[2].place = "10.0.0.2:7002"
    world.run(500)
    greeting = hello(1000)
    greeting.process, greeting.place = 99, "10.9.9.9:7002"
    number = stranger(world, greeting)
    world.run(1000)
    (refusal,) = said(world.hubs[1], number)
    assert refusal.reason == "duplicate" and world.hubs[1].sending[2].process == 22
    text = "two processes run as region eu: the one at 10.0.0.2:7002, and the one at 10.9.9.9:7002"
    assert text in refusal.text


def welcome(process: int, life: int = 1) -> m.Welcome:
    return m.Welcome(
        m.VERSION, "c", TABLE, 2, "eu", life, {}, {}, process, f"10.0.0.{process}:7002"
    )


def test_t8_a_former_process_that_answers_is_refused_while_the_newer_one_is_connected() -> None:
    """Two processes of eu run: us dials the one, and the other dials us."""
    one = hub()
    dialled = one.dial_opened(2, 0)
    assert dialled is not None
    one.received(dialled, welcome(22), 0)
    greeting = hello()
    greeting.process, greeting.place = 99, "10.0.0.99:7002"
    number = one.accepted(0)
    one.received(number, greeting, 0)
    assert one.sending[2].process == 99, "it may have restarted"
    one.closed(dialled, "reset", 0)
    dialled = one.dial_opened(2, 0)
    assert dialled is not None
    one.received(dialled, welcome(22), 0)
    refusal = said(one, dialled)[-1]
    assert refusal.reason == "duplicate"
    assert "the one at 10.0.0.99:7002, and the one at 10.0.0.22:7002" in refusal.text
    told = [message.double for message in said(one, number) if isinstance(message, m.Heartbeat)]
    assert told == [refusal.text] and not one.finished(number)
    # The newer one goes, so the former one is the only one, and is taken.
    one.closed(number, "reset", 0)
    dialled = one.dial_opened(2, 0)
    assert dialled is not None
    one.received(dialled, welcome(22), 0)
    assert one.links[2].state == "up" and not one.finished(dialled)


def test_t8_a_second_process_is_refused_where_the_first_receives_nothing() -> None:
    """us dials eu, and eu has not dialled us: there is no connection to tell the first one on."""
    one = hub()
    dialled = one.dial_opened(2, 0)
    assert dialled is not None
    one.received(dialled, welcome(22), 0)
    greeting = hello(life=2)
    greeting.process, greeting.place = 99, "10.0.0.99:7002"
    number = one.accepted(0)
    one.received(number, greeting, 0)
    for now_ms in range(0, 2000, 50):
        one.received(dialled, m.Heartbeat({}, b""), now_ms)
        one.tick(now_ms)
    (refusal,) = said(one, number)
    assert refusal.reason == "duplicate" and one.links[2].state == "up" and not one.sending
    text = (
        "two processes run as region eu: the one at 10.0.0.22:7002, and the one at 10.0.0.99:7002"
    )
    (event,) = [event for event in one.take_work().events if event.name == "two_processes"]
    assert text in refusal.text and event.text == refusal.text


def test_t8_links_and_refusals_are_told_with_their_addresses() -> None:
    one = hub()
    number = one.accepted(0, OtherEnd("10.0.0.2:5000"))
    one.received(number, hello(), 0)
    wrong = one.accepted(0, OtherEnd("10.9.9.9:5001"))
    one.received(wrong, m.Hello(m.VERSION, "x", {}, 2, "eu", 1, 1, {}, {}, frozenset(), 1), 0)
    dialled = one.dial_opened(2, 0, OtherEnd("eu.example:7102"))
    assert dialled is not None
    one.received(dialled, m.Welcome(m.VERSION, "c", TABLE, 2, "eu", 1, {}, {}), 0)
    told = [
        (event.name, event.fields["address"])
        for event in one.take_work().events
        if event.name in ("link_accepted", "link_refused", "link_up")
    ]
    assert told == [
        ("link_accepted", "10.0.0.2:5000"),
        ("link_refused", "10.9.9.9:5001"),
        ("link_up", "eu.example:7102"),
    ]


def test_t8_the_same_refusal_from_another_address_is_news() -> None:
    one = hub()
    for host in ("10.9.9.9", "10.9.9.9", "10.8.8.8"):
        number = one.accepted(0, OtherEnd(f"{host}:5001"))
        one.received(number, m.Hello(m.VERSION, "x", {}, 2, "eu", 1, 1, {}, {}, frozenset(), 1), 0)
    told = [event.fields["address"] for event in one.take_work().events]
    assert told == ["10.9.9.9:5001", "10.8.8.8:5001"]
