"""The salvage of a damaged log (`region.storage.salvage`): what a rebuilt region gets back.

Random histories of three regions (`histories`), after which rows of one region's log are damaged
and the region is rebuilt. A naive walk over the log says how far its effects must come back.
"""

from __future__ import annotations

import sqlite3
from random import Random

import pytest

from anabranch.crdt.block import NO_CHAIN, Block, chain_after
from anabranch.crdt.encoding import Reader
from anabranch.crdt.errors import ChainForked, NotAMember
from anabranch.crdt.vector import Vector, includes, joined
from anabranch.region.engine.lifecycle import RECOVERY, SERVING
from anabranch.region.engine.replies import NULL_ARRAY
from anabranch.region.engine.rows import BlockRow, RecordsRow
from anabranch.region.live.damaged_log import DamagedLog
from anabranch.region.storage import salvage, schema
from anabranch.sim.world.vfs import run
from tests.storage.direct import copy_of, new_disk
from tests.storage.histories import Cluster
from tests.storage.region import Region
from tests.support.engine_cluster import carry, cluster, sync

WHOLE: dict[str, int | str] = {"crdt-log-max-bytes": 1 << 20}


def damage(disk: sqlite3.Connection, chance: Random) -> set[int]:
    """Changes the bodies of some rows near the end of the log; returns their positions."""
    positions = [row[0] for row in disk.execute("SELECT position FROM log ORDER BY position")]
    damaged = set(chance.sample(positions[-12:], min(len(positions), chance.choice([0, 0, 1, 2]))))
    for position in damaged:
        disk.execute("UPDATE log SET body = body || x'00' WHERE position = ?", (position,))
    return damaged


def expected_own(disk: sqlite3.Connection, damaged: set[int], held: Vector, own: int) -> int:
    """The own counter that must come back, by a walk over the log, given what the peers hold."""
    meta = dict(disk.execute("SELECT name, value FROM meta"))
    vector = dict(held)
    if not includes(vector, Reader(meta["log_floor"]).vector() if "log_floor" in meta else {}):
        return held.get(own, 0)
    rows = disk.execute("SELECT position, origin, last FROM log WHERE origin > 0 ORDER BY position")
    for position, origin, last in rows.fetchall():
        if last > vector.get(origin, 0):
            if position in damaged:
                break
            vector[origin] = last
    return vector.get(own, 0)


def rebuild(region: Region, damaged: sqlite3.Connection) -> None:
    """Gives the region the database that `anabranch repair` makes, and starts it."""
    disk = new_disk()
    kept = dict(damaged.execute("SELECT name, value FROM meta"))
    for name in schema.IDENTITY_ROWS:
        disk.execute(*schema.meta(name, kept[name]))
    disk.execute(*schema.meta("restored", b"1"))
    DamagedLog(damaged, region.region_id).copy_to(disk)
    region.disk = disk
    region.begin()


def recover(cluster: Cluster, region: Region) -> None:
    """Runs the recovery to its end, with crashes of the region in between."""
    others = [one for one in cluster.regions if one is not region]
    for _ in range(200):
        assert not region.engine.state.writer.may_issue()
        for other in others:
            region.pull(other)
            other.engine.peers.hear(region.engine.peers.gossip(), cluster.clock.wall_ms)
            other.commit_all()
            region.engine.peers.hear(other.engine.peers.gossip(), cluster.clock.wall_ms)
        if cluster.rng.random() < 0.3:
            region.step()
            region.write()
        if cluster.rng.random() < 0.2:
            region.begin()
        cluster.clock.wall_ms += 10
        cluster.clock.elapsed_ms += 250
        region.driver.tick()
        region.step()
        if region.engine.state.lifecycle.state == SERVING:
            return
        region.commit_all()
    raise AssertionError(f"{cluster}: the recovery does not end")


def play(seed: int, has_index: bool = True) -> tuple[int, int, int]:
    """One history with damage, repair and recovery, judged.

    Returns us's own counter as the peers held it, as it came back, and as it was.
    """
    values = WHOLE if seed % 3 else None
    place = Cluster(seed, regions=3, looks=0.0, collects=seed % 2 == 0, values=values)
    place.play(150)
    us = place.regions[0]
    for _ in range(place.rng.randrange(12)):
        place.command(us)
        if place.rng.random() < 0.3:
            us.pull(place.rng.choice(place.regions[1:]))
    us.commit_all()
    held: Vector = {}
    for other in place.regions[1:]:
        held = joined(held, other.engine.disk_vector)
    broken = copy_of(us.disk)
    damaged = damage(broken, place.rng)
    expected = expected_own(us.disk, damaged, held, us.region_id)
    before = us.engine.disk_vector.get(us.region_id, 0)
    if not has_index:
        broken.execute("DROP INDEX log_by_origin")
    rebuild(us, broken)
    assert us.engine.state.lifecycle.state == RECOVERY
    recover(place, us)
    back = us.engine.disk_vector.get(us.region_id, 0)
    if has_index:
        assert back == expected, f"{place}: {back} instead of {expected}; damaged {damaged}"
    else:
        assert held.get(us.region_id, 0) <= back <= expected, f"{place}: {back}"
    place.pull_all(60)
    assert len({str(sorted(one.engine.vector.items())) for one in place.regions}) == 1
    assert len({one.engine.keyspace.digest() for one in place.regions}) == 1, place
    assert us.disk.execute("SELECT COUNT(*) FROM salvage").fetchone() == (0,)
    return held.get(us.region_id, 0), back, before


@pytest.mark.parametrize("first", range(0, 200, 40))
def test_what_is_sound_and_contiguous_comes_back(first: int) -> None:
    found = [play(seed) for seed in range(first, first + 40)]
    assert any(held < back == before for held, back, before in found), "all came back"
    assert any(back < before for _, back, before in found), "a part is lost"


def test_without_its_index_a_log_gives_what_is_contiguous() -> None:
    """A damaged row may then be anything, so nothing after it is used."""
    found = [play(seed, has_index=False) for seed in range(1000, 1040)]
    assert any(held < back for held, back, _ in found)


def test_a_salvage_waits_while_too_much_waits_for_the_disk() -> None:
    """The sound part of the log was given up where more bytes waited than the limit allows (S14).

    The engine merges no further block then, which was taken for a block that does not follow. So a
    repaired region whose disk was slow or full lost effects, with a reason such as "effects 3 to 2
    of us are damaged".
    """
    place = Cluster(1, values={"crdt-log-max-bytes": 4 << 20, "crdt-uncommitted-max-bytes": 1})
    us = place.regions[0]
    for _ in range(12):
        # Two of these blocks are more than `Salvaging` reads at once.
        us.say("XADD", "k1", "*", "f", b"x" * 100_000)
        us.commit_all()
    assert us.engine.disk_vector == {1: 12}
    rebuild(us, copy_of(us.disk))
    recover(place, us)
    assert us.engine.disk_vector == {1: 12}


def test_links_go_on_after_a_salvage() -> None:
    """A turn of merging follows, because the salvage may cover a header at which a link waits.

    Such a link waited until another link merged something: with no other traffic for ever (S2.3).
    """
    place = Cluster(1)
    us = place.regions[0]
    us.say("XADD", "k1", "*", "f", "v")
    us.commit_all()
    rebuild(us, copy_of(us.disk))
    us.driver.merge()
    assert not us.driver.hub.wants_merge
    (read,) = us.driver.step().reads
    us.driver.read(read, run(us.database.answer(read.request)))
    assert us.engine.vector == {1: 1} and us.driver.hub.wants_merge
    assert us.driver.step().merge_in_ms is not None


def test_the_loss_after_a_damaged_row_of_the_salvage_is_not_called_none() -> None:
    """A row of the salvage itself is damaged, so nobody can say what follows it.

    The region's log said that no sound effect follows and is lost.
    """
    place = Cluster(1)
    us = place.regions[0]
    us.say("XADD", "k1", "*", "f", "v")
    us.commit_all()
    rebuild(us, copy_of(us.disk))
    (read,) = us.driver.step().reads
    us.driver.cannot_read(read, "row 1 of the salvage is damaged", is_damaged=True)
    (loss,) = [one.text for one in us.driver.step().notes if "event=salvage_loss" in one.text]
    assert 'unused="all that follows"' in loss


def test_a_gap_that_hides_another_region_stops_what_builds_on_it() -> None:
    """us removed an entry of eu, and eu lost that entry with its disk: no peer has it.

    The row with the entry is damaged in us. The removal must not come back alone: eu may issue
    another effect with the same dot, and the removal would take that one.
    """
    block = Block(1, 1, 1, b"removal", chain_after(NO_CHAIN, b"removal"))
    us, _eu = cluster(2)
    engine = us.engine
    assert engine.salvage.merge([salvage.gap(2, 1), block], us.now_ms) == 0
    assert engine.vector == {}


def test_a_fork_ends_the_salvage() -> None:
    """A block of eu in the old log is not the one that eu has now under the same counters."""
    us, eu = cluster(2)
    eu.ok("XADD", "x", "*", "f", "now")
    carry(eu, us)
    other = Block(2, 1, 1, b"another", chain_after(NO_CHAIN, b"another"))
    with pytest.raises(ChainForked):
        us.engine.salvage.merge([other], us.now_ms)
    follower = Block(2, 2, 2, b"next", bytes(16))
    with pytest.raises(ChainForked):
        us.engine.salvage.merge([follower], us.now_ms)


def test_a_stranger_ends_the_salvage() -> None:
    us, _eu = cluster(2)
    with pytest.raises(NotAMember):
        us.engine.salvage.merge([Block(9, 1, 1, b"x", chain_after(NO_CHAIN, b"x"))], us.now_ms)


def test_own_blocks_come_back_as_from_a_peer() -> None:
    """What us acknowledged in a group is replayed as an announcement of another region (S8.2)."""
    us, eu = cluster(2)
    us.ok("XGROUP", "CREATE", "x", "g", "$", "MKSTREAM")
    us.ok("XADD", "x", "*", "f", "1")
    us.ok("XREADGROUP", "GROUP", "g", "c", "STREAMS", "x", ">")
    us.ok("XACK", "x", "g", us.ids("x")[0])
    us.round()
    blocks = us.lacking({})
    us.restart(5000, 0, restored=True)
    assert us.engine.salvage.merge(blocks, 5000) == len(blocks)
    for _ in range(2):
        reply = us.ok("XREADGROUP", "GROUP", "g", "c", "STREAMS", "x", ">")
        assert reply is NULL_ARRAY, "it was acknowledged"
        us.commit()
        us.restart(6000)
    sync(us, eu)


def test_an_index_that_contradicts_a_row_is_not_used() -> None:
    row = BlockRow(3, 0, Block(1, 1, 4, b"x", bytes(16)), 0)
    assert salvage.fits([row], [(2, 2, 9), (3, 1, 4), (4, 2, 10)])
    assert not salvage.fits([row], [(2, 2, 9)])
    assert not salvage.fits([row], [(3, 1, 5)])
    assert not salvage.fits([RecordsRow(3, 0, b"x")], [(3, 1, 5)])


def test_a_log_without_its_index_has_a_gap_where_a_row_is_missing() -> None:
    def row(position: int) -> BlockRow:
        return BlockRow(position, 0, Block(1, position, position, b"body", NO_CHAIN), 0)

    def items(*positions: int) -> list[int]:
        """The first counter of each block, and 0 for a gap."""
        found = salvage.items_without_index([row(one) for one in positions], 1)
        return [block.first if block.body else 0 for block in found]

    assert items(1, 2, 3) == [1, 2, 3]
    assert items(2, 3, 5) == [0, 2, 3, 0, 5]
