"""Whole networks of hubs, driven step by step (S2).

Every region gets what one region writes, in causal order.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from anabranch.crdt.errors import PeerError
from anabranch.sync.session.messages import (
    Batch,
    BlockPart,
    BodyRequest,
    Header,
    Heartbeat,
    Hello,
    HoldingBack,
    Refusal,
    SnapshotBegin,
    SnapshotRequest,
    Welcome,
)
from tests.sync.fakes import SHORT_TAIL, WHOLE_TAIL, FakeDriver, FakeEngine, World, line, mesh, ring

TOPOLOGIES = {
    "mesh": mesh(1, 2, 3),
    "line": line(1, 2, 3, 4),
    "ring": ring(1, 2, 3, 4, 5),
    "pair": mesh(1, 2),
}


@pytest.mark.parametrize("tail_bytes", [SHORT_TAIL, WHOLE_TAIL])
@pytest.mark.parametrize("name", TOPOLOGIES)
def test_everything_reaches_everybody(name: str, tail_bytes: int) -> None:
    world = World(TOPOLOGIES[name], tail_bytes=tail_bytes)
    for round_number in range(30):
        for rid, engine in world.engines.items():
            engine.write(f"{rid}/{round_number}", count=1 + round_number % 3)
            engine.local_record()
        world.step()
    world.settle()
    assert all(
        state == ("up", "") for engine in world.engines.values() for state in engine.states.values()
    )
    assert not world.notes


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("name", ["mesh", "line", "ring"])
def test_faults_then_healing_converge(name: str, seed: int) -> None:
    """Faults, then healing and convergence.

    The faults are cuts, broken connections, pauses, delays, links taken down and truncated logs.
    """
    chance = random.Random(seed)
    tiny: dict[str, Any] = {
        "crdt-batch-max-bytes": chance.choice([64, 300, 4096]),
        "crdt-window-max-bytes": chance.choice([200, 2000, 1 << 20]),
    }
    tail_bytes = [SHORT_TAIL, 2000, WHOLE_TAIL][seed % 3]
    world = World(TOPOLOGIES[name], seed=seed, settings=tiny, tail_bytes=tail_bytes)
    for _ in range(250):
        _fault(world, chance)
        for engine in world.engines.values():
            if chance.random() < 0.4:
                engine.write("x" * chance.choice([1, 50, 700]), count=chance.randint(1, 4))
        world.step(chance.choice([1, 5, 5, 40]))
    world.cut_links.clear()
    world.paused.clear()
    for one, other in world.topology:
        world.engines[one].link(other, "UP")
        world.engines[one].link(other, "DELAY", 0)
    world.settle()
    world.run(500)
    assert all(equal for engine in world.engines.values() for equal in engine.compared)
    assert not world.notes or all("joined" in note for note in world.notes)


def _fault(world: World, chance: random.Random) -> None:
    one, other = chance.choice(world.topology)
    kind = chance.random()
    if kind < 0.03:
        world.cut(one, other)
    elif kind < 0.09:
        world.heal(one, other)
    elif kind < 0.12:
        world.drop(one, other)
    elif kind < 0.15:
        world.lose_silently(one, other)
    elif kind < 0.18:
        world.paused ^= {one}
    elif kind < 0.21:
        world.engines[one].link(other, chance.choice(["UP", "UP", "DOWN"]))
    elif kind < 0.24:
        world.engines[one].link(other, "DELAY", chance.choice([0, 20, 300]))
    elif kind < 0.27:
        world.engines[one].log.truncate(chance.randint(0, 30))


def test_a_cut_region_is_reached_by_the_way_round() -> None:
    """us → eu → ap while us–ap is cut (S2.1)."""
    world = World(mesh(1, 2, 3))
    world.run(200)
    world.cut(1, 3)
    world.engines[1].write("round")
    world.settle()
    assert world.engines[3].merged == [(2, 1, 1)]
    world.heal(1, 3)
    world.until(lambda: world.engines[3].states[1][0] == "up")
    world.engines[1].write("direct")
    world.settle()
    # Both us and eu offer it; whichever comes first is applied, once.
    assert [dot[1:] for dot in world.engines[3].merged] == [(1, 1), (1, 2)]


def test_relayed_blocks_travel_as_headers_never_our_own() -> None:
    world = World(mesh(1, 2, 3))
    world.run(300)
    for _ in range(40):
        world.engines[1].write("w")
        world.engines[2].write("w")
        world.step()
    world.settle()
    for source, _target, message in world.said:
        for item in message.items if isinstance(message, Batch) else []:
            assert isinstance(item, Header) == (item.origin != source)
    assert not any(isinstance(message, BodyRequest) for _, _, message in world.said)


def test_a_header_that_nobody_covers_is_asked_for() -> None:
    """S2.3: reading stops at a header, and the body is asked for after a while.

    ap's own link still counts as direct, but brings nothing.
    """
    world = World([(1, 2), (2, 1), (1, 3), (2, 3), (3, 2)])
    world.until(lambda: world.engines[1].states == {2: ("up", ""), 3: ("up", "")})
    world.run(100)
    # From here on us hears nothing of ap, and does not know it.
    stuck = next(pipe for pipe in world.pipes if (pipe.dialler, pipe.acceptor) == (1, 3))
    world.pipes.remove(stuck)
    world.said.clear()
    world.engines[3].write("late")
    world.until(lambda: world.engines[2].vector == {3: 1})
    world.engines[2].write("behind")
    began_ms = world.now_ms
    world.until(lambda: world.engines[1].vector == {3: 1, 2: 1})
    assert [message.dots for _, _, message in world.said if isinstance(message, BodyRequest)] == [
        [(3, 1)]
    ]
    assert world.now_ms - began_ms >= world.settings.integer("crdt-body-patience-ms") - 20
    assert world.engines[1].merged == [(2, 3, 1), (2, 2, 1)]


def test_bodies_larger_than_a_message_come_in_parts_too() -> None:
    world = World([(1, 2), (2, 1), (1, 3), (2, 3), (3, 2)], settings={"crdt-batch-max-bytes": 100})
    world.run(200)
    stuck = next(pipe for pipe in world.pipes if (pipe.dialler, pipe.acceptor) == (1, 3))
    world.pipes.remove(stuck)
    world.engines[3].write("y" * 1000)
    world.until(lambda: world.engines[1].vector == {3: 1})
    assert any(isinstance(message, BlockPart) and message.asked for _, _, message in world.said)


def test_a_link_that_goes_down_is_no_longer_direct_and_bodies_follow_without_patience() -> None:
    world = World(mesh(1, 2, 3), settings={"crdt-body-patience-ms": 1 << 30})
    world.run(300)
    world.cut(1, 3)
    for _ in range(20):
        world.engines[3].write("z")
        world.step()
    world.settle()
    assert world.engines[1].vector == {3: 20}


def test_a_large_block_is_staged() -> None:
    world = World(
        mesh(1, 2), settings={"crdt-batch-max-bytes": 1000, "crdt-window-max-bytes": 1500}
    )
    world.engines[1].write("small")
    world.engines[1].write("L" * 20_000)
    world.engines[1].write("small")
    world.settle()
    parts = [message for _, _, message in world.said if isinstance(message, BlockPart)]
    assert len(parts) >= 20 and not any(part.asked for part in parts)


def test_a_broken_staging_leaves_nothing_behind() -> None:
    """The connection breaks amid the parts of a block: the next one begins anew (S2.2)."""
    world = World(mesh(1, 2), settings={"crdt-batch-max-bytes": 500, "crdt-window-max-bytes": 1500})
    world.run(200)
    world.engines[1].write("L" * 20_000)
    world.until(
        lambda: any(
            isinstance(message, BlockPart) and message.offset > 2000 for _, _, message in world.said
        )
    )
    assert world.engines[2].vector == {}
    world.drop(1, 2)
    world.settle()
    assert world.engines[2].vector == {1: 1}


def test_the_window_bounds_what_a_slow_peer_is_sent() -> None:
    world = World(
        [(2, 1)], settings={"crdt-window-max-bytes": 10_000, "crdt-batch-max-bytes": 2000}
    )
    world.run(200)
    world.paused.add(2)
    for _ in range(200):
        world.engines[1].write("w" * 500)
        world.step()
    sender = world.sender(1, 2)
    assert sender.unacknowledged.bytes <= 10_000
    assert len(sender.log._rows) * 500 <= 10_000
    world.paused.clear()
    world.settle()
    assert sender.unacknowledged.bytes == 0


def test_a_log_too_short_holds_back_and_a_snapshot_is_pulled() -> None:
    world = World(mesh(1, 2))
    world.settle()
    world.engines[2].write("own")
    world.settle()
    world.cut(1, 2)
    for _ in range(20):
        world.engines[1].write("w")
        world.step()
    world.engines[1].log.truncate(5)
    world.said.clear()
    world.heal(1, 2)
    healed_ms = world.now_ms
    world.until(lambda: world.engines[2].joins == 1)
    assert world.now_ms - healed_ms >= world.settings.integer("crdt-snapshot-patience-ms")
    world.engines[1].write("afterwards")
    world.settle()
    kinds = [
        message
        for source, _, message in world.said
        if source == 1 and not isinstance(message, Heartbeat)
    ]
    held = [message.holding for message in kinds if isinstance(message, HoldingBack)]
    assert held == [True, False]
    # eu's own log counts as truncated up to the snapshot (S11.2).
    assert not world.engines[2].log.tail.reaches_back({2: 1})


def test_a_new_region_pulls_at_once_and_one_peer_at_a_time() -> None:
    world = World(mesh(1, 2, 3), settings={"crdt-snapshot-patience-ms": 1 << 30})
    world.cut(1, 3)
    world.cut(2, 3)
    for _ in range(20):
        world.engines[1].write("w")
        world.step()
    world.until(lambda: world.engines[2].disk_vector == {1: 20})
    world.engines[1].log.truncate(0)
    world.engines[2].log.truncate(0)
    world.said.clear()
    world.heal(1, 3)
    world.heal(2, 3)
    world.settle()
    assert world.engines[3].joins == 1
    assert sum(isinstance(message, SnapshotBegin) for _, _, message in world.said) == 1


def test_a_pull_that_breaks_goes_on_with_another_peer() -> None:
    world = World(mesh(1, 2, 3), settings={"crdt-batch-max-bytes": 16})
    world.cut(1, 3)
    world.cut(2, 3)
    for _ in range(20):
        world.engines[1].write("w")
        world.step()
    world.until(lambda: world.engines[2].disk_vector == {1: 20})
    world.engines[1].log.truncate(0)
    world.engines[2].log.truncate(0)
    world.heal(1, 3)
    world.heal(2, 3)
    world.said.clear()

    def begun() -> list[int]:
        return [
            source
            for source, target, message in world.said
            if target == 3 and isinstance(message, SnapshotBegin)
        ]

    world.until(lambda: bool(begun()))
    first = begun()[0]
    world.cut(first, 3)
    world.until(lambda: world.engines[3].joins == 1)
    assert begun() == [first, 3 - first]


def fallen_behind() -> World:
    """A world in which the log of us no longer reaches back to eu, which dials it again."""
    world = World(mesh(1, 2), settings={"crdt-batch-max-bytes": 16})
    world.cut(1, 2)
    for _ in range(20):
        world.engines[1].write("w")
        world.step()
    world.engines[1].log.truncate(0)
    world.heal(1, 2)
    return world


def test_after_a_snapshot_that_broke_the_same_peer_gets_another() -> None:
    """S11.1: a link that breaks while its snapshot is sent ends the serving of that snapshot.

    Snapshots are served one at a time. If the broken one counted as under way, us would give no
    snapshot to anybody any more, and eu, which has no other peer, could never catch up.
    """
    world = fallen_behind()
    world.until(lambda: any(isinstance(message, SnapshotBegin) for _, _, message in world.said))
    assert world.sender(1, 2).sending_snapshot
    world.drop(1, 2)
    world.settle()
    assert world.engines[2].joins == 1


def pulling() -> World:
    """A world in which eu has got some chunks of a snapshot, and more are to come."""
    world = fallen_behind()
    world.until(lambda: len(world.engines[2].ahead or []) > 2)
    return world


def test_the_chunks_of_a_snapshot_are_read_as_they_come() -> None:
    world = pulling()
    assert world.engines[2].joins == 0
    world.until(lambda: world.engines[2].joins == 1)
    assert world.engines[2].ahead is None, "nothing is held after the join"


def test_a_lost_link_frees_the_chunks_that_were_read() -> None:
    world = pulling()
    world.drop(1, 2)
    assert world.engines[2].ahead is None
    world = pulling()
    world.cut(1, 2)
    world.run(1000)
    assert world.engines[2].ahead is None and world.engines[2].joins == 0


def test_a_snapshot_that_is_not_needed_any_more_is_freed() -> None:
    world = pulling()
    world.engines[2].vector = dict(world.engines[1].vector)
    world.until(lambda: world.engines[2].ahead is None)
    assert world.engines[2].joins == 0


def test_a_chunk_that_is_malformed_breaks_the_link(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read when it comes, so nothing more of that snapshot is taken in."""
    world = pulling()

    def read_ahead(chunks: list[bytes]) -> None:
        raise PeerError("the snapshot is malformed")

    with monkeypatch.context() as broken:
        broken.setattr(world.engines[2], "read_ahead", read_ahead)
        world.until(lambda: "malformed" in world.engines[2].refusals)
    assert world.engines[2].ahead is None and world.engines[2].joins == 0
    world.settle()
    assert world.engines[2].joins == 1


def test_a_snapshot_leaves_once_its_cut_is_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A crash can still take back what is not on disk, so nobody is told of it (S2.4, S11.2)."""
    world = World(mesh(1, 2))
    world.settle()
    world.cut(1, 2)
    for _ in range(20):
        world.engines[1].write("w")
        world.step()
    world.engines[1].log.truncate(5)
    world.heal(1, 2)
    world.said.clear()
    with monkeypatch.context() as slow_disk:
        slow_disk.setattr(world.engines[1], "commit", list)
        world.engines[1].write("not on disk")
        world.run(3000)
        kinds = {type(message) for _, _, message in world.said}
        assert SnapshotRequest in kinds and SnapshotBegin not in kinds
    world.until(lambda: world.engines[2].joins == 1)
    world.settle()


def test_the_way_round_makes_a_snapshot_unnecessary() -> None:
    world = World(mesh(1, 2, 3))
    world.engines[3].write("not new")
    world.settle()
    world.cut(1, 3)
    world.cut(2, 3)
    for _ in range(10):
        world.engines[1].write("w")
        world.step()
    world.until(lambda: world.engines[2].disk_vector == {1: 10, 3: 1})
    world.engines[1].log.truncate(0)
    world.heal(1, 3)
    world.run(100)
    world.heal(2, 3)
    world.settle()
    world.run(2000)
    assert world.engines[3].joins == 0


def test_steady_writes_of_a_third_region_do_not_put_a_snapshot_off() -> None:
    """eu writes on and on, and reaches ap; what us holds back comes nearer by none of that."""
    world = World([(3, 1), (3, 2)])
    world.run(100)
    world.cut(1, 3)
    for _ in range(10):
        world.engines[1].write("w")
        world.step()
    world.engines[1].log.truncate(0)
    world.engines[3].write("not new")
    world.heal(1, 3)

    def busy() -> bool:
        world.engines[2].write("busy")
        return world.engines[3].joins == 1

    world.until(busy, ms_max=3000)


def test_a_sender_that_joins_a_snapshot_holds_its_own_receivers_back() -> None:
    """S11.2: us → eu → ap, and eu learns by snapshot.

    eu's log does not have what ap lacks. Shipping on would break causality.
    """
    for tail_bytes in (SHORT_TAIL, WHOLE_TAIL):
        world = World([(2, 1), (3, 2)], tail_bytes=tail_bytes)
        world.engines[1].write("first")
        world.until(lambda world=world: world.engines[3].disk_vector == {1: 1})
        world.cut(1, 2)
        for _ in range(10):
            world.engines[1].write("w")
            world.step()
        world.engines[1].log.truncate(0)
        world.heal(1, 2)
        world.until(lambda world=world: world.engines[2].joins == 1)
        world.engines[2].write("builds on it")
        world.until(lambda world=world: world.engines[3].vector == {1: 11, 2: 1})
        assert world.engines[3].joins == 1


def test_rows_that_every_sender_has_read_are_released() -> None:
    """A region once kept 16 MB of blocks in memory which nobody was going to ask for."""
    world = World(mesh(1, 2, 3), tail_bytes=16 << 20)
    log = world.engines[1].log
    tail, kept = log.tail, (16 << 20) // 64
    world.engines[1].write("one")
    world.settle()
    # A peer that reads nothing has its rows kept, until it is gone.
    world.paused.add(3)
    for _ in range(30):
        world.engines[1].write(bytes(100_000).hex())
        world.run(20)
    assert world.engines[2].vector == world.engines[1].vector
    assert tail.bytes > 1_000_000 > 2 * kept
    world.cut(1, 3)
    world.cut(2, 3)
    world.step()
    assert tail.bytes <= kept
    # It gets what it lacks from the disk.
    world.paused.clear()
    reads = log.reads
    world.heal(1, 3)
    world.settle()
    assert log.reads > reads


def test_a_fork_is_refused_by_both_and_stays_closed() -> None:
    """S13.5: a region restored without saying so reused its counters for another history."""
    world = World(mesh(1, 2))
    world.engines[1].write("one")
    world.settle()
    world.cut(1, 2)
    forked = world.engines[1] = FakeEngine(1, world.members, life=2)
    world.start(1)
    forked.write("another")
    world.heal(1, 2)
    world.run(5000)
    assert world.engines[1].states[2][0] == "forked" and world.engines[2].states[1][0] == "forked"
    assert "two different histories" in world.engines[1].states[2][1]
    assert any(note.startswith("us:") and "forked" in note for note in world.notes)
    assert any(note.startswith("eu:") and "forked" in note for note in world.notes)
    assert world.engines[1].peers_hold == {} and world.engines[1].receivers == set()
    assert not world.pipes
    world.engines[1].link(2, "UP")
    world.step()
    assert world.engines[1].states[2][0] != "forked"


@pytest.mark.parametrize(
    "reason, intruder",
    [
        ("cluster", FakeEngine(2, {1: "us", 2: "eu"}, cluster="another")),
        ("members", FakeEngine(2, {1: "us", 2: "eu", 3: "ap"})),
        ("not-a-member", FakeEngine(2, {1: "us", 2: "elsewhere"})),
        ("not-a-member", FakeEngine(4, {1: "us", 2: "eu"})),
        ("duplicate", FakeEngine(1, {1: "us", 2: "eu"})),
    ],
)
def test_refusals_show_on_both_sides(reason: str, intruder: FakeEngine) -> None:
    world = World(mesh(1, 2))
    world.pipes.clear()
    world.engines[2] = intruder
    world.start(1)
    peers = [1] if intruder.region_id != 1 else []
    world.take_over(2, FakeDriver(intruder, world.settings, peers, lambda: world.now_ms))
    world.run(300)
    assert world.engines[1].states[2][0] == "refused"
    assert any(
        isinstance(message, Refusal) and message.reason == reason for _, _, message in world.said
    ), world.notes
    for name in ("us", intruder.name):
        assert any(note.startswith(f"{name}:") and reason in note for note in world.notes), (
            world.notes
        )
    assert world.engines[1].receivers == set() and intruder.receivers == set()


def test_not_the_region_that_was_dialled() -> None:
    """The address of eu leads to ap."""
    world = World(mesh(1, 2, 3))
    world.pipes.clear()
    for rid in (1, 2, 3):
        world.start(rid)
    world.take_over(2, world.drivers[3])
    world.hubs[1].links.pop(3)
    world.run(100)
    assert world.engines[1].states[2][0] == "refused"
    assert "region 2 was dialled, this is region 3 (ap)" in world.engines[1].states[2][1]


def test_an_effect_of_no_member_closes_the_link() -> None:
    world = World(mesh(1, 2))
    world.run(100)
    del world.engines[1].members[2]
    world.engines[2].write("who?")
    world.run(100)
    assert (
        world.engines[1].states[2][0] == "refused"
        and "not-a-member" in world.engines[1].states[2][1]
    )


def test_a_gap_in_the_log_leads_to_a_snapshot() -> None:
    """The sender used to refuse the link, and so it did at each dial that followed, for ever.

    An exception between two effects of a commit had left effects in the vector that were in no row.
    A restart kept the gap.
    """
    world = World(mesh(1, 2))
    world.run(100)
    world.engines[1].write("one")
    world.settle()
    # A log that lost a row without knowing it.
    world.cut(1, 2)
    world.engines[1].write("lost")
    world.engines[1].write("found")
    world.step()
    world.engines[1].log.rows.pop(-2)
    world.heal(1, 2)
    world.run(2000)
    assert world.engines[2].vector == world.engines[1].vector == {1: 3}
    assert world.engines[2].states[1][0] == "up"
    assert not world.engines[1].refusals and not world.engines[2].refusals
    assert world.engines[1].gaps == 1
    world.engines[1].write("later")
    world.settle()
    assert world.engines[2].vector == {1: 4} and world.engines[1].gaps == 1


def test_a_new_connection_closes_the_former_at_the_acceptor() -> None:
    world = World(mesh(1, 2))
    world.run(100)
    before = world.hubs[1].sending[2].number
    world.lose_silently(2, 1)
    assert world.hubs[1].sending[2].number == before
    world.until(lambda: world.engines[2].states[1][0] == "up")
    assert world.hubs[1].sending[2].number != before
    assert world.engines[1].receivers == {2}
    world.engines[1].write("w")
    world.settle()


def test_an_earlier_life_does_not_take_over() -> None:
    world = World(mesh(1, 2))
    world.engines[2].life = 5
    world.drop(1, 2)
    world.run(500)
    number = world.hubs[1].sending[2].number
    world.engines[2].life = 4
    world.lose_silently(2, 1)
    world.run(100)
    assert world.hubs[1].sending[2].number == number
    assert any("later life" in note for note in world.notes)


def _holding_back(*rids: int) -> World:
    """eu has received what us wrote, and not applied it; nobody else has received it."""
    world = World(mesh(*rids))
    world.run(100)
    for rid in rids[2:]:
        world.cut(1, rid)
    world.engines[2].link(1, "DELAY", 60_000)
    world.engines[1].write("lost")
    world.run(200)
    assert world.hubs[2].links[1].held and not world.engines[2].vector
    return world


def test_what_an_earlier_life_sent_is_dropped_when_a_later_one_says_hello() -> None:
    """S13.6, seed 1810804: eu applied an effect of a life of us that was over.

    us was put back to a backup. eu told it that no region held its effects, and us went on. Then
    eu applied one that it had received before.
    """
    world = _holding_back(1, 2)
    world.put_back(1, life=2)
    world.until(lambda: 2 in world.engines[1].peers_hold)
    world.engines[2].link(1, "DELAY", 0)
    world.engines[1].write("new")
    world.settle()
    assert world.engines[2].held == {(1, 1, "new")}
    assert world.engines[2].states[1][0] == "up"


def test_what_an_earlier_life_sent_is_dropped_when_others_tell_of_a_later_one() -> None:
    """S13.7: the same where eu hears by ap alone that us lives again, and what it asks."""
    world = _holding_back(1, 2, 3)
    world.put_back(1, life=2)
    world.cut_links = {(1, 2), (2, 1)}
    world.until(lambda: 1 in world.engines[2].heard and world.engines[2].heard[1].life == 2)
    world.engines[2].link(1, "DELAY", 0)
    world.engines[1].write("new")
    world.settle()
    assert world.engines[2].held == {(1, 1, "new")}


def test_a_welcome_of_a_life_that_is_over() -> None:
    """S1.3: nothing is taken from a Welcome of a life that is over.

    A region that does not know of its own later life is told, and takes a higher number.
    """
    world = World(mesh(1, 2))
    world.engines[1].life = 5
    world.run(200)
    world.put_back(1, life=4)
    connection = world.hubs[2].links[1].connection
    assert connection is not None
    world.hubs[2].closed(connection.number, "reset", world.now_ms)
    world.until(lambda: 1 in world.engines[1].heard)
    assert world.engines[1].heard[1].life == 5
    world.engines[1].write("new")
    world.run(500)
    assert not world.engines[2].vector
    world.engines[1].life = 6
    world.settle()


def test_silence_is_taken_for_death() -> None:
    world = World(mesh(1, 2))
    world.run(100)
    world.pipes.clear()
    world.run(9000)
    assert world.engines[1].states[2][0] == "up"
    world.run(2000)
    world.engines[1].write("again")
    world.settle()


def test_link_down_ends_receiving_up_resumes() -> None:
    world = World(mesh(1, 2, 3))
    world.run(200)
    world.engines[1].link(2, "DOWN")
    world.engines[2].write("w")
    world.settle()
    assert world.engines[1].states[2] == ("down", "CRDT.LINK DOWN")
    assert world.engines[1].merged == [(3, 2, 1)]
    assert 2 in world.engines[1].receivers  # the other direction stays
    world.engines[1].link(2, "UP")
    world.step()
    world.until(lambda: world.engines[1].states[2][0] == "up")


def test_a_limit_paces_messages_and_ends_at_once() -> None:
    world = World([(2, 1)])
    world.run(200)
    world.engines[2].link(1, "LIMIT", 2000)
    world.step()
    began_ms = world.now_ms
    world.engines[1].write("x" * 4000)
    world.until(lambda: world.engines[2].vector == {1: 1})
    assert world.now_ms - began_ms >= 2000
    world.engines[1].write("y" * 4000)
    world.run(200)
    assert world.engines[2].vector == {1: 1}
    world.engines[2].link(1, "LIMIT", 0)
    world.run(30)
    assert world.engines[2].vector == {1: 2}


def test_a_limited_link_that_reads_no_further_is_not_silent() -> None:
    """A full link reads nothing, so no message comes. It must not count as dead (S2.2)."""
    world = World([(2, 1)])
    world.run(200)
    world.engines[2].link(1, "LIMIT", 1)
    world.engines[1].write("w")
    world.run(500)
    connection = world.hubs[2].links[1].connection
    world.pipes.clear()
    world.run(30_000)
    assert world.hubs[2].links[1].connection is connection is not None


def test_a_delay_holds_messages_in_order_and_ends_at_once() -> None:
    world = World([(2, 1)])
    world.run(200)
    world.engines[2].link(1, "DELAY", 500)
    world.step()
    began_ms = world.now_ms
    for number in range(5):
        world.engines[1].write(str(number))
        world.step()
    world.until(lambda: world.engines[2].vector == {1: 5})
    assert world.now_ms - began_ms >= 500
    world.engines[1].write("slow")
    world.run(200)
    assert world.engines[2].vector == {1: 5}
    world.engines[2].link(1, "DELAY", 0)
    world.run(30)
    assert world.engines[2].vector == {1: 6}


def test_heartbeats_pass_on_what_was_heard_along_a_line() -> None:
    world = World(line(1, 2, 3, 4))
    world.engines[1].write("w")
    world.settle()

    def everybody_of_everybody() -> bool:
        pairs = [(engine, rid) for engine in world.engines.values() for rid in world.members]
        return all(
            rid in engine.heard and engine.heard[rid].vector == {1: 1} for engine, rid in pairs
        )

    world.until(everybody_of_everybody)


def test_everything_said_is_on_disk() -> None:
    """S2.4: a region whose commits stand still says nothing new of itself."""
    world = World(mesh(1, 2))
    world.run(100)
    engine = world.engines[2]
    real_commit, engine.commit = engine.commit, list  # type: ignore[method-assign]
    world.engines[1].write("w")
    world.until(lambda: engine.vector == {1: 1})
    engine.write("mine")
    world.run(1000)
    assert world.engines[1].vector == {1: 1} and world.engines[1].peer_acks.get(2, {}) == {}
    assert world.engines[1].heard[2].vector == {}
    engine.commit = real_commit  # type: ignore[method-assign]
    world.settle()


def test_a_handshake_speaks_of_the_disk() -> None:
    """S2.4: Hello and Welcome name what is on disk by then, and wait for nothing.

    Answers to a start do wait: see test_start.
    """
    world = World(mesh(1, 2))
    world.cut(1, 2)
    engine = world.engines[2]
    engine.write("on disk")
    engine.commit()
    engine.write("applied, not on disk")
    real_commit, engine.commit = engine.commit, list  # type: ignore[method-assign]
    world.said.clear()
    world.heal(1, 2)
    world.until(lambda: world.engines[1].states[2][0] == "up")
    world.until(lambda: world.engines[2].states[1][0] == "up")
    greetings = [message for _, _, message in world.said if isinstance(message, (Hello, Welcome))]
    said_by_eu = [message.vector for message in greetings if message.region_id == 2]
    assert said_by_eu == [{2: 1}, {2: 1}]
    assert world.engines[1].peers_hold[2] == {2: 1}
    engine.commit = real_commit  # type: ignore[method-assign]
    world.settle()


def test_both_sides_learn_what_the_other_holds_in_the_handshake() -> None:
    world = World([(2, 1)])
    world.engines[1].write("w")
    world.engines[1].commit()
    world.run(100)
    assert world.engines[2].peers_hold[1] == {1: 1}
    assert world.engines[1].peers_hold[2] == {}


def test_a_heartbeat_waits_for_a_commit_that_brings_the_clock_forward(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """S10.2: an idle region tells a clock that is on disk, and commits its clock before."""
    world = World(mesh(1, 2))
    world.run(200)
    asked: list[int] = []

    def refreshes_clock(now_ms: int) -> bool:
        asked.append(now_ms)
        return True

    with monkeypatch.context() as commits:
        commits.setattr(world.engines[1], "refreshes_clock", refreshes_clock)
        world.said.clear()
        world.run(500)
        beats = [source for source, _, one in world.said if isinstance(one, Heartbeat)]
        assert asked and 2 in beats and 1 not in beats
    world.run(20)
    assert any(source == 1 and isinstance(one, Heartbeat) for source, _, one in world.said)


def test_a_clock_that_runs_back_stops_nothing() -> None:
    world = World(mesh(1, 2))
    world.run(200)
    world.now_ms -= 3_600_000
    world.said.clear()
    world.run(500)
    assert sum(isinstance(message, Heartbeat) for _, _, message in world.said) >= 10
    world.drop(1, 2)
    world.engines[1].write("w")
    world.settle()
