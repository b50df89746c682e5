"""Conflicts are counted by rule where both sides of them are seen."""

from __future__ import annotations

from anabranch.region.engine.commands.info import info_text
from tests.support.engine_cluster import Place, cluster, sync


def conflicts(place: Place) -> dict[str, int]:
    """The conflicts that a region has counted, without those that are 0, from INFO."""
    text = info_text(place.engine.state, ["crdt"]).decode()
    (line,) = [one for one in text.split("\r\n") if one.startswith("crdt_conflicts:")]
    pairs = [part.split("=") for part in line.partition(":")[2].split(",")]
    return {rule: int(count) for rule, count in pairs if count != "0"}


def test_no_conflict_without_concurrency() -> None:
    us, eu = cluster(2)
    for place in (us, eu, us):
        place.ok("XADD", "s", "IDMP", "p", "i", "*", "f", "1")
        place.ok("XADD", "s", "*", "f", "1")
        place.ok("PEXPIRE", "s", "100000")
        place.ok("XGROUP", "CREATE", "s", "g", "0")
        place.ok("XCFGSET", "s", "IDMP-DURATION", "111")
        sync(us, eu)
        place.ok("XGROUP", "DESTROY", "s", "g")
        place.ok("XDEL", "s", "1-1")
        place.ok("DEL", "s")
        place.ok("FLUSHALL")
        sync(us, eu)
    assert conflicts(us) == conflicts(eu) == {}


def test_entries_that_a_removal_had_not_observed() -> None:
    us, eu = cluster(2)
    for key in ("s", "t"):
        us.ok("XADD", key, "*", "f", "1")
    sync(us, eu)
    for key in ("s", "t"):
        us.ok("XADD", key, "*", "f", "2")
        us.ok("XADD", key, "*", "f", "3")
    eu.ok("DEL", "s")
    sync(us, eu)
    assert conflicts(us) == {"add-and-delete": 2} and conflicts(eu) == {}
    us.ok("XADD", "t", "*", "f", "4")
    eu.ok("FLUSHALL")
    sync(us, eu)
    assert conflicts(us) == {"add-and-delete": 3}
    us.ok("CONFIG", "RESETSTAT")
    assert conflicts(us) == {}


def test_entries_that_an_expiry_had_not_observed() -> None:
    us, eu = cluster(2)
    eu.ok("XADD", "s", "*", "f", "1")
    eu.ok("PEXPIRE", "s", "50")
    sync(us, eu)
    us.ok("XADD", "s", "*", "f", "2")
    eu.now_ms += 100
    eu.ok("XADD", "s", "*", "f", "3")
    sync(us, eu)
    assert conflicts(us) == {"add-and-expiry": 1}


def test_an_entry_removed_in_two_regions() -> None:
    us, eu = cluster(2)
    entry = us.ok("XADD", "s", "*", "f", "1")
    assert isinstance(entry, bytes)
    sync(us, eu)
    for place in (us, eu):
        place.ok("XDEL", "s", entry.decode())
    sync(us, eu)
    assert conflicts(us) == conflicts(eu) == {"two-removals": 1}


def test_a_group_created_while_it_is_destroyed() -> None:
    us, eu = cluster(2)
    us.ok("XADD", "s", "*", "f", "1")
    us.ok("XGROUP", "CREATE", "s", "g", "0")
    sync(us, eu)
    us.ok("XGROUP", "DESTROY", "s", "g")
    for _ in range(2):
        eu.ok("XGROUP", "DESTROY", "s", "g")
        eu.ok("XGROUP", "CREATE", "s", "g", "0")
    sync(us, eu)
    assert conflicts(us) == {"group-create-and-destroy": 2}


def test_deadlines_and_configurations_set_at_the_same_time() -> None:
    us, eu = cluster(2)
    us.ok("XADD", "s", "*", "f", "1")
    sync(us, eu)
    us.ok("PEXPIRE", "s", "100000")
    eu.ok("PEXPIRE", "s", "200000")
    us.ok("XCFGSET", "s", "IDMP-DURATION", "111")
    eu.ok("XCFGSET", "s", "IDMP-DURATION", "222")
    sync(us, eu)
    expected = {"two-deadlines": 1, "two-idmp-configurations": 1}
    assert conflicts(us) == conflicts(eu) == expected


def test_two_adds_of_one_pair() -> None:
    us, eu = cluster(2)
    for place in (us, eu):
        place.ok("XADD", "s", "IDMP", "p", "i", "*", "f", "1")
    sync(us, eu)
    sync(us, eu)
    assert sorted([conflicts(us), conflicts(eu)], key=len) == [{}, {"idempotent-add": 1}]
