"""Two real drivers and the links between them: reads from the disk, merging, starts."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from anabranch.crdt.encoding import Reader
from anabranch.crdt.gossip import StartAnswer, StartQuestion
from anabranch.region.engine.lifecycle import SERVING, STARTING
from anabranch.region.engine.replies import ReplyLater
from anabranch.region.option_values import ConfigError
from tests.driver.regions import Net, Place, SetClock

PAIR = {"us": 1, "eu": 2}
FOREVER_MS = 1 << 40


def pair(**settings: Any) -> tuple[Net, Place, Place]:
    """us and eu, each of which receives from the other; both serve."""
    clock = SetClock(1_000_000)
    settings = {"crdt_heartbeat_interval_ms": 50, "appendfsync": "always", **settings}
    us = Place("us", PAIR, ["eu"], clock, **settings)
    eu = Place("eu", PAIR, ["us"], clock, **settings)
    net = Net(clock, us, eu)
    net.run(500)
    assert us.engine.state.lifecycle.state == eu.engine.state.lifecycle.state == SERVING
    return net, us, eu


def write(place: Place, size: int = 10) -> None:
    place.run("XADD", "x", "*", "f", "v" * size)


def test_a_peer_that_keeps_up_causes_no_read() -> None:
    net, us, eu = pair(crdt_log_tail_max_bytes=2000)
    for _ in range(100):
        write(us, 100)
        net.step()
    net.run(100)
    assert eu.engine.disk_vector == {1: 100}
    assert us.read_logs == 0


def test_a_peer_that_fell_behind_is_read_for_until_it_keeps_up_again() -> None:
    net, us, eu = pair(crdt_log_tail_max_bytes=2000)
    net.cut()
    for _ in range(100):
        write(us, 100)
        net.step()
    assert us.read_logs == 0
    net.is_cut = False
    net.run(3000)
    assert eu.engine.disk_vector == {1: 100}
    caught_up = us.read_logs
    assert caught_up > 0
    for _ in range(100):
        write(us, 100)
        net.step()
    net.run(100)
    assert eu.engine.disk_vector == {1: 200}
    assert us.read_logs == caught_up


def test_a_log_that_cannot_be_read_costs_the_connection_only() -> None:
    net, us, eu = pair(crdt_log_tail_max_bytes=1)
    net.cut()
    for _ in range(10):
        write(us)
        net.step()
    net.is_cut = False
    us.hang_ups.clear()
    us.fails = 2
    net.run(3000)
    assert us.fails == 0
    assert len(us.hang_ups) == 2
    told = [note for note in us.notes if "event=log_unreadable region=us" in note.text]
    assert len(told) == 2
    assert {note.level for note in told} == {logging.ERROR}
    assert eu.engine.disk_vector == {1: 10}


@pytest.mark.parametrize("missed", [0, 5])
def test_a_damaged_row_closes_no_link_for_good(missed: int) -> None:
    """The row at which a peer's vector ends is damaged: the link opens, and a snapshot follows.

    Each handshake reads that row to compare chains (S13.5). It failed every time, also after a
    restart, so the region was alone for ever.
    """
    net, us, eu = pair(crdt_log_tail_max_bytes=1, crdt_snapshot_patience_ms=200)
    for _ in range(3):
        write(us)
        net.step()
    net.run(1000)
    assert eu.engine.disk_vector == {1: 3}
    net.cut()
    for _ in range(missed):
        write(us)
        net.step()
    net.run(500)
    disk = us.database.disk
    disk.execute("UPDATE log SET body = cast(body || x'00' AS blob) WHERE last = 3")
    net.is_cut = False
    net.run(3000)
    assert eu.engine.disk_vector == {1: 3 + missed}
    assert bool(us.engine.state.disk.damage) == bool(missed)
    # A start must not ship from the damaged log either.
    floors = disk.execute("SELECT value FROM meta WHERE name = 'log_floor'").fetchall()
    assert [Reader(floor).vector() for (floor,) in floors] == ([{1: 3 + missed}] if missed else [])
    for one in (us, eu):
        (status,) = one.engine.state.peers.by_id.values()
        assert status.state == "up"


def test_clients_are_served_between_turns_of_merging() -> None:
    """A turn merges about 128 KiB and asks for the next one, so that others get their turn."""
    net, us, eu = pair()
    net.cut()
    for _ in range(100):
        write(us, 50_000)
        net.step()
    eu.merges = False
    net.is_cut = False
    sizes = []
    for _ in range(1000):
        net.step()
        if eu.merge_in_ms is not None:
            before = eu.driver.hub.counts["bytes_merged"]
            eu.merge()
            sizes.append(eu.driver.hub.counts["bytes_merged"] - before)
    assert eu.engine.vector == {1: 100}
    assert 50_000 <= max(sizes) <= 256 << 10
    assert len(sizes) >= 100 * 50_000 // (256 << 10)


def test_merging_rests_as_long_as_a_long_turn_took() -> None:
    """Clients keep half of the time while a region catches up. A short turn needs no rest."""
    net, us, eu = pair()
    eu.merges = False
    rests = []
    for cost_us in (500, 10_000, 900_000):
        eu.clock.cost_us = 0
        write(us)
        for _ in range(100):
            net.step()
            if eu.merge_in_ms is not None:
                break
        assert eu.merge_in_ms == 0
        eu.clock.cost_us = cost_us
        eu.merge()
        eu.step()
        rests.append(eu.merge_in_ms)
        eu.merge()
    assert rests == [0, 10, 50]


# -- the log's size


def test_checkpoints_keep_their_distance_when_retention_shortens_the_log() -> None:
    """S14: a checkpoint begins each time the log has grown by so much, whatever was dropped since.

    Retention is the end of a checkpoint. What it drops must not count as if the log had shrunk:
    each checkpoint would come later than the one before, and the log would grow beyond its limit.
    """
    clock = SetClock(1_000_000)
    alone = {"us": 1}
    us = Place(
        "us",
        alone,
        [],
        clock,
        crdt_log_max_bytes=20_000,
        crdt_checkpoint_max_bytes=5_000,
        crdt_checkpoint_interval_ms=1 << 40,
        appendfsync="always",
    )
    net = Net(clock, us)
    largest = 0
    for _ in range(400):
        write(us, 250)
        net.step()
        largest = max(largest, us.driver.log.size.bytes)
    assert 20_000 <= largest <= 20_000 + 2 * 5_000


# -- the start


def test_a_start_asks_on_both_directions_and_then_serves() -> None:
    clock = SetClock(1_000_000)
    patient = {"crdt_start_patience_ms": 60_000}
    us = Place("us", PAIR, ["eu"], clock, **patient)
    eu = Place("eu", PAIR, ["us"], clock, **patient)
    net = Net(clock, us, eu)
    assert isinstance(us.run("XADD", "x", "*", "f", "1"), ReplyLater)
    net.is_cut = True
    net.run(1000)
    assert us.engine.state.lifecycle.state == STARTING
    net.is_cut = False
    net.run(3000)
    assert us.engine.state.lifecycle.state == eu.engine.state.lifecycle.state == SERVING
    assert us.run("XLEN", "x") == 1
    questions = [message for message in net.said if isinstance(message, StartQuestion)]
    answers = [message for message in net.said if isinstance(message, StartAnswer)]
    lives = {1: us.engine.life, 2: eu.engine.life}
    assert questions and answers
    assert all(question.lives == lives for question in questions[-2:])
    assert {answer.life for answer in answers} == set(lives.values())


def test_one_region_may_start_while_the_other_serves() -> None:
    net, us, eu = pair()
    write(us)
    net.run(200)
    net.cut()
    again = Place("eu", PAIR, ["us"], net.clock, crdt_start_patience_ms=60_000)
    net.places[2] = again
    net.run(500)
    assert again.engine.state.lifecycle.state == STARTING
    net.is_cut = False
    net.run(3000)
    assert again.engine.state.lifecycle.state == SERVING
    assert again.engine.vector == us.engine.vector == eu.engine.vector == {1: 1}


def test_a_peer_that_is_no_member() -> None:
    with pytest.raises(ConfigError, match="nowhere"):
        Place("us", PAIR, ["nowhere"], SetClock(1000))
