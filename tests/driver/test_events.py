"""The operator's log has a line for each event of the links, of the disk and of the lifecycle."""

from __future__ import annotations

import logging
import re

from anabranch.region.driver.work import DiskTransaction
from tests.driver.regions import Place, mesh
from tests.driver.test_links import pair


def events(place: Place) -> list[dict[str, str]]:
    """The fields of the events since the last call, without their texts."""
    lines = [note.text for note in place.notes]
    place.notes.clear()
    found = []
    for line in lines:
        pairs = re.findall(r'(\w+)=("(?:[^"\\]|\\.)*"|\S+)', line)
        found.append({key: value.strip('"') for key, value in pairs if key != "text"})
    return found


def test_a_link_comes_up_is_lost_cut_healed_and_slowed() -> None:
    net, (us, eu) = mesh("us", "eu")
    net.run(300)
    begun = events(us)
    assert [one["event"] for one in begun] == ["starting", "link_up", "link_accepted", "serving"]
    assert all(one["region"] == "us" and one["peer"] == "eu" for one in begun[1:3])
    events(eu)
    net.cut()
    net.run(1000)
    assert events(us) == [{"event": "link_lost", "region": "us", "peer": "eu", "reason": "cut"}], (
        "one line, however often it is dialled"
    )
    net.is_cut = False
    net.run(3000)
    assert [one["event"] for one in events(us)] == ["link_up", "link_accepted"]
    us.run("CRDT.LINK", "eu", "DOWN")
    net.run(100)
    us.run("CRDT.LINK", "eu", "UP")
    us.run("CRDT.LINK", "eu", "DELAY", "20")
    net.run(500)
    assert [one["event"] for one in events(us)] == [
        *("link_cut", "link_healed", "link_throttled", "link_up")
    ]


def test_a_region_that_stops_in_order_is_no_alarm() -> None:
    """It tells its peers, which end their links; a delay does not hold that word back."""
    net, (us, eu, ap) = mesh("us", "eu", "ap")
    net.run(300)
    ap.run("CRDT.LINK", "us", "DELAY", "60000")
    net.run(300)
    for place in (us, eu, ap):
        place.notes.clear()
    us.driver.leave()
    net.run(1000)
    for place in (eu, ap):
        assert [note.level for note in place.notes] == [logging.INFO]
        assert events(place) == [{"event": "link_ended", "region": place.engine.name, "peer": "us"}]
    assert not us.notes, "a region that stops tells nothing of its own links"
    # All links of us have ended, and it dials no more; the others go on.
    assert {(dialler, acceptor) for dialler, _, acceptor, _ in net.wires} == {(eu, ap), (ap, eu)}
    eu.driver.leave()
    net.run(300)
    assert [one["event"] for one in events(ap)] == ["link_ended"] and not net.wires


def test_two_processes_of_one_region_are_named() -> None:
    """Before, each made the other take a later life, and their links came and went for ever."""
    net, (us, eu) = mesh("us", "eu")
    for place, number in ((us, 11), (eu, 22)):
        place.engine.introduce(number, f"place {number}")
    net.cut()
    net.is_cut = False
    net.run(2000)
    events(us), events(eu)
    us.run("XADD", "x", "*", "f", "v")
    net.run(100)
    second = Place("us", {"us": 1, "eu": 2}, ["eu"], net.clock, crdt_heartbeat_interval_ms=50)
    second.engine.introduce(12, "place 12")
    net.places[101] = second  # It dials, and the address of us still leads to the first process.
    net.run(5000)
    told = events(eu)
    expected = {"event": "two_processes", "region": "eu", "peer": "us"}
    expected |= {"refused": "place 12", "connected": "place 11"}
    assert [one for one in told if one["event"] == "two_processes"] == [expected], "once"
    assert "link_lost" not in {one["event"] for one in told}, "the links are quiet"
    assert {"link_refused"} == {
        one["event"] for one in events(second) if one.get("reason") == "duplicate"
    }
    assert "two_processes" in {one["event"] for one in events(us)}
    detail = eu.engine.state.peers.by_id[1].detail
    assert "place 11" in detail and "place 12" in detail
    # The second one stops, and nothing tells of two any more.
    second.driver.leave()
    net.run(100)
    del net.places[101]
    net.run(40_000)
    assert eu.engine.state.peers.by_id[1].detail == ""
    # It ends, and another takes its place: one process at a time.
    net.cut()
    net.is_cut = False
    us.restart()
    us.engine.introduce(13, "place 13")
    net.run(5000)
    last = events(us) + events(eu)
    assert "link_up" in {one["event"] for one in last}
    assert not [one for one in last if one.get("reason") == "duplicate" or "refused" in one]


def test_a_link_that_falls_behind_is_said_to_be_slow_once() -> None:
    net, (us, eu) = mesh("us", "eu")
    us.run("CONFIG", "SET", "crdt-ready-lag-ms", "500")
    net.run(300)
    events(us)
    us.merges = False
    for _ in range(10):
        eu.run("XADD", "x", "*", "f", "v")
        net.run(200)
    (slow,) = events(us)
    assert slow["event"] == "link_slow" and slow["peer"] == "eu"
    assert int(slow["behind_ms"]) > 500 and int(slow["effects"]) >= 1
    us.merges = True
    us.merge()
    net.run(500)
    assert [one["event"] for one in events(us)] == ["link_level"]


def test_a_commit_that_fails_and_works_again() -> None:
    net, (us,) = mesh("us")
    net.run(50)
    events(us)
    us.run("XADD", "x", "*", "f", "v")
    us.engine.disk.want_commit()
    for _ in range(2):
        transaction = us.driver.step().transaction
        assert isinstance(transaction, DiskTransaction) and transaction.commit is not None
        us.driver.failed(transaction, "no space left")
        us.notes += us.driver.step().notes
        us.clock.now += 1000
        us.driver.tick()
    assert [one["event"] for one in events(us)] == ["commit_failed"]
    us.step()
    net.run(100)
    assert [one["event"] for one in events(us)] == ["commit_works"]


def test_a_divergence_is_said_each_time_it_is_found() -> None:
    """No region that follows the rules diverges, so the count is made up."""
    net, (us,) = mesh("us")
    net.run(50)
    events(us)
    for count in (1, 2):
        us.engine.state.replication.divergences = count
        net.run(100)
        assert events(us) == [{"event": "divergence", "region": "us", "count": str(count)}]


def test_a_snapshot_is_begun_and_joined() -> None:
    net, us, eu = pair(
        crdt_log_max_effects=1,
        crdt_log_tail_max_bytes=1,
        crdt_checkpoint_interval_ms=100,
        crdt_snapshot_patience_ms=500,
    )
    net.cut()
    for n in range(50):
        us.run("XADD", "x", "*", "f", str(n))
        net.run(50)
    us.engine.disk.want_commit()
    net.run(5000)
    events(us)
    events(eu)
    net.is_cut = False
    net.run(15_000)
    assert eu.engine.disk_vector == {1: 50}
    found = {one["event"]: one for one in events(eu)}
    assert {"link_up", "snapshot_begun", "snapshot_joined"} <= found.keys()
    assert found["snapshot_joined"]["peer"] == "us" and int(found["snapshot_joined"]["bytes"]) > 0
    assert "snapshot_asked" in {one["event"] for one in events(us)}
