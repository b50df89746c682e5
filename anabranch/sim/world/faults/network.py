"""Faults of the network between regions."""

from __future__ import annotations

from random import Random
from typing import Final

from anabranch.sim.plan import Fault
from anabranch.sim.world.faults.kinds import KINDS, ends, kind
from anabranch.sim.world.world import World

_ASKS_AGAIN_MS: Final = 20


def _cut(world: World, fault: Fault, directions: list[tuple[int, int]], breaks: bool) -> None:
    """Holds back messages in these directions.

    `breaks`: connections between these regions also break at once at both ends, as when a firewall
    resets them.
    """
    cuts = world.network.cuts
    for pair in directions:
        cuts[pair] = cuts.get(pair, 0) + 1
    if breaks:
        for one, other in directions:
            for pipe in world.network.between(one, other):
                for end in (0, 1):
                    world.network.closed(pipe, end, "reset")

    def heals() -> None:
        for pair in directions:
            cuts[pair] = max(0, cuts.get(pair, 0) - 1)
        world.network.resume()

    ends(world, fault, heals)


def _both_ways(one: int, other: int) -> list[tuple[int, int]]:
    return [(one, other), (other, one)]


@kind("cut")
def _cut_pair(world: World, fault: Fault, draw: Random) -> None:
    _cut(world, fault, _both_ways(*fault.regions[:2]), draw.random() < 0.5)


@kind("one-way cut")
def _cut_one_way(world: World, fault: Fault, draw: Random) -> None:
    _cut(world, fault, [fault.regions[:2]], False)  # type: ignore[list-item]


@kind("isolation")
def _isolate(world: World, fault: Fault, draw: Random) -> None:
    one = fault.regions[0]
    directions = [
        pair for other in world.regions if other != one for pair in _both_ways(one, other)
    ]
    _cut(world, fault, directions, draw.random() < 0.5)


@kind("full partition")
def _partition(world: World, fault: Fault, draw: Random) -> None:
    regions = list(world.regions)
    _cut(
        world,
        fault,
        [(one, other) for one in regions for other in regions if one != other],
        draw.random() < 0.5,
    )


@kind("ring")
def _ring(world: World, fault: Fault, draw: Random) -> None:
    """Cuts all pairs that are not neighbours in a ring; of three regions, a line is left."""
    regions = list(world.regions)
    ring = {frozenset((one, regions[place - 1])) for place, one in enumerate(regions)}
    if len(regions) <= 3:
        # A ring of three is a mesh: cut it to a line.
        ring.discard(frozenset((regions[0], regions[-1])))
    _cut(
        world,
        fault,
        [(a, b) for a in regions for b in regions if a != b and frozenset((a, b)) not in ring],
        draw.random() < 0.5,
    )


@kind("flapping")
def _flap(world: World, fault: Fault, draw: Random) -> None:
    beats = draw.randint(3, 6)
    state = ends(world, fault, lambda: None)  # each cut ends by itself

    def cut(part: Fault) -> None:
        if not state.is_over:
            KINDS["cut"](world, part, Random(part.draw))

    for beat in range(beats):
        part = Fault(
            0, "cut", fault.regions, fault.duration_ms // (2 * beats) + 1, draw.getrandbits(32)
        )
        world.scheduler.after(beat * fault.duration_ms // beats, cut, part)


@kind("slow link")
def _slow(world: World, fault: Fault, draw: Random) -> None:
    slow_ms = world.network.slow_ms
    pair = (fault.regions[0], fault.regions[1])
    slow_ms[pair] = draw.choice([20, 60, 200])
    ends(world, fault, lambda: slow_ms.update({pair: 0}))


@kind("reset")
def _reset(world: World, fault: Fault, draw: Random) -> None:
    for pipe in world.network.between(*fault.regions[:2]):
        world.network.drop(pipe, (True, True))


@kind("half-open")
def _half_open(world: World, fault: Fault, draw: Random) -> None:
    """One end drops the connection; messages on their way to the other end still arrive.

    They may arrive beside those of a newer connection (S2.2).
    """
    for pipe in world.network.between(*fault.regions[:2]):
        world.network.closed(pipe, draw.choice([0, 1]), "reset")


@kind("reset in a snapshot")
def _reset_in_snapshot(world: World, fault: Fault, draw: Random) -> None:
    """The connection breaks on which the next snapshot is sent, in the middle of that.

    It does not end when the run heals, because regions that were cut off ask for snapshots then.
    """
    world.network.snapshot_resets.append(draw.randrange(3))


@kind("link down")
def _link_down(world: World, fault: Fault, draw: Random) -> None:
    """An operator closes a link with CRDT.LINK, or delays it, and later undoes that."""
    region, peer = world.regions[fault.regions[0]], world.regions[fault.regions[1]]
    if not region.running or region.paused or peer.region_id not in region.peers:
        return
    words = (b"DOWN",) if draw.random() < 0.7 else (b"DELAY", b"%d" % draw.choice([5, 30, 100]))
    world.ask(region.region_id, (b"CRDT.LINK", peer.name.encode(), *words))
    region.stepped()

    def end() -> None:
        if region.paused:
            world.scheduler.after(_ASKS_AGAIN_MS, end)
        elif region.running:
            for words in ((b"UP",), (b"DELAY", b"0")):
                world.ask(region.region_id, (b"CRDT.LINK", peer.name.encode(), *words))
            region.stepped()

    ends(world, fault, end)
