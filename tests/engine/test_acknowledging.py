"""XACK, XDEL and XCLAIM of many IDs at once, in any order."""

from __future__ import annotations

import random

from anabranch.crdt.local import Claimed, Removed, read_records
from anabranch.region.engine.commands.claiming import AUTOCLAIM_MAX
from anabranch.region.engine.replies import Reply
from anabranch.region.engine.rows import RecordsRow
from tests.support.engine_cluster import Place, cluster, sync

ENTRIES = 300


def pending(regions: int = 1) -> tuple[list[Place], list[str]]:
    """Regions with a stream whose entries are all pending in us, and their IDs."""
    places = cluster(regions)
    us = places[0]
    for number in range(ENTRIES):
        places[number % regions].ok("XADD", "s", "*", "f", number)
    sync(*places)
    us.ok("XGROUP", "CREATE", "s", "g", "0")
    us.ok("XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">")
    us.commit()
    return places, us.ids("s")


def left(us: Place) -> Reply:
    reply = us("XPENDING", "s", "g")
    assert isinstance(reply, list)
    return reply[0]


def test_acknowledgements_in_any_order_are_those_in_the_order_of_the_ids() -> None:
    """One XACK of 80,000 IDs in random order took 2 s: each was searched for and cut out alone."""
    records = []
    for seed in range(4):
        (us, _), found = pending(2)
        some = [*found[::3], "9999999-5", *found[7:40]]
        random.Random(seed).shuffle(some)
        if seed == 0:
            some = sorted(set(some), key=[*found, "9999999-5"].index)
        count = len(set(some)) - 1
        assert us("XACK", "s", "g", *some) == count
        assert left(us) == ENTRIES - count
        commit = us.commit()
        assert commit is not None
        (row,) = [row for row in commit.rows if isinstance(row, RecordsRow)]
        (record,) = read_records(row.records)
        assert isinstance(record, Removed)
        records.append([(one.region_id, one.counter, one.entry_id) for one in record.entries])
    assert records[0] == records[1] == records[2] == records[3]


def test_entries_claimed_in_any_order_are_answered_in_that_order() -> None:
    """They are found and recorded in the order of their IDs, each once."""
    (us, _), found = pending(2)
    some = [*found[::3], "9999999-5", *found[7:40]]
    random.Random(1).shuffle(some)
    reply = us("XCLAIM", "s", "g", "d", "0", *some, "JUSTID")
    assert isinstance(reply, list)
    given = [one.encode() for one in dict.fromkeys(some) if one in found]
    assert reply == given
    commit = us.commit()
    assert commit is not None
    (row,) = [row for row in commit.rows if isinstance(row, RecordsRow)]
    (record,) = read_records(row.records)
    assert isinstance(record, Claimed)
    claimed = [claim.entry.entry_id for claim in record.claims]
    assert claimed == sorted(claimed) and len(claimed) == len(given)


def test_one_xautoclaim_claims_some_however_many_it_is_to_count() -> None:
    us = cluster(1)[0]
    for _ in range(AUTOCLAIM_MAX + 10):
        us.ok("XADD", "s", "*", "f", "v")
    us.ok("XGROUP", "CREATE", "s", "g", "0")
    us.ok("XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">")
    reply = us("XAUTOCLAIM", "s", "g", "d", "0", "0", "COUNT", "1000000", "JUSTID")
    assert isinstance(reply, list) and isinstance(reply[1], list)
    assert len(reply[1]) == AUTOCLAIM_MAX
    rest = us("XAUTOCLAIM", "s", "g", "d", "0", reply[0], "COUNT", "1000000", "JUSTID")
    assert isinstance(rest, list) and isinstance(rest[1], list)
    assert (rest[0], len(rest[1])) == (b"0-0", 10)
