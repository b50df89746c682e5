"""The faults: for each kind its name, its effect when it strikes, and its end.

`sim.draw` decides when a fault strikes, and which regions. A fault that is a state ends after its
duration, or when the run heals.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Any, Final, Optional

from anabranch.sim.draw import FORGOTTEN_RESTORE
from anabranch.sim.history import Checker
from anabranch.sim.plan import Fault, Plan
from anabranch.sim.world.disk import Disk
from anabranch.sim.world.region import SimulatedRegion
from anabranch.sim.world.world import World

PATIENCE_MS: Final = "60000"
ASKS_AGAIN_MS: Final = 20
# By how much later than the first region another one may be told that a region is lost.
_TOLD_LATER_MS: Final = (0, 0, 20, 200)

Strike = Callable[[World, Fault, Random], None]
KINDS: Final[dict[str, Strike]] = {}


def _kind(name: str) -> Callable[[Strike], Strike]:
    def register(strike: Strike) -> Strike:
        KINDS[name] = strike
        return strike

    return register


def new_world(
    plan: Plan,
    judges: Sequence[type[Checker]],
    tell: Optional[Callable[[tuple[Any, ...]], None]] = None,
    keys: tuple[bytes, ...] = (),
) -> World:
    """A world in which the faults of this module strike. For the arguments see `World`."""
    return World(plan, judges, strike, tell, keys)


def strike(world: World, fault: Fault) -> None:
    """Lets a fault happen now."""
    KINDS[fault.kind](world, fault, Random(fault.draw))


class _State:
    """A fault that is a state. A fault that acts repeatedly acts only until `is_over`."""

    def __init__(self, end: Callable[[], None]) -> None:
        self.is_over = False
        self._end = end

    def end(self) -> None:
        """Ends the fault; only the first call does anything."""
        if not self.is_over:
            self.is_over = True
            self._end()


def _ends(world: World, fault: Fault, end: Callable[[], None], later_ms: int = 0) -> _State:
    """Calls `end` once: `later_ms` after the fault's duration, or when the run heals."""
    state = _State(end)
    world.undo.append(state.end)
    world.scheduler.after(fault.duration_ms + later_ms, state.end)
    return state


def heal(world: World) -> None:
    """Ends all faults, and starts all regions that do not run and are not gone for good."""
    for region in world.regions.values():
        region.disk.failing = ""
        region.call_off()
    undo, world.undo = world.undo, []
    for end in undo:
        end()
    for region in world.regions.values():
        if not region.running and not region.is_gone:
            region.down_for = 0
            region.start_if_stopped()
    world.network.cuts.clear()
    world.network.slow_ms.clear()
    world.network.resume()


# -- network


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

    _ends(world, fault, heals)


def _both_ways(one: int, other: int) -> list[tuple[int, int]]:
    return [(one, other), (other, one)]


@_kind("cut")
def _cut_pair(world: World, fault: Fault, draw: Random) -> None:
    _cut(world, fault, _both_ways(*fault.regions[:2]), draw.random() < 0.5)


@_kind("one-way cut")
def _cut_one_way(world: World, fault: Fault, draw: Random) -> None:
    _cut(world, fault, [fault.regions[:2]], False)  # type: ignore[list-item]


@_kind("isolation")
def _isolate(world: World, fault: Fault, draw: Random) -> None:
    one = fault.regions[0]
    directions = [
        pair for other in world.regions if other != one for pair in _both_ways(one, other)
    ]
    _cut(world, fault, directions, draw.random() < 0.5)


@_kind("full partition")
def _partition(world: World, fault: Fault, draw: Random) -> None:
    regions = list(world.regions)
    _cut(
        world,
        fault,
        [(one, other) for one in regions for other in regions if one != other],
        draw.random() < 0.5,
    )


@_kind("ring")
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


@_kind("flapping")
def _flap(world: World, fault: Fault, draw: Random) -> None:
    beats = draw.randint(3, 6)
    state = _ends(world, fault, lambda: None)  # each cut ends by itself

    def cut(part: Fault) -> None:
        if not state.is_over:
            KINDS["cut"](world, part, Random(part.draw))

    for beat in range(beats):
        part = Fault(
            0, "cut", fault.regions, fault.duration_ms // (2 * beats) + 1, draw.getrandbits(32)
        )
        world.scheduler.after(beat * fault.duration_ms // beats, cut, part)


@_kind("slow link")
def _slow(world: World, fault: Fault, draw: Random) -> None:
    slow_ms = world.network.slow_ms
    pair = (fault.regions[0], fault.regions[1])
    slow_ms[pair] = draw.choice([20, 60, 200])
    _ends(world, fault, lambda: slow_ms.update({pair: 0}))


@_kind("reset")
def _reset(world: World, fault: Fault, draw: Random) -> None:
    for pipe in world.network.between(*fault.regions[:2]):
        world.network.drop(pipe, (True, True))


@_kind("half-open")
def _half_open(world: World, fault: Fault, draw: Random) -> None:
    """One end drops the connection; messages on their way to the other end still arrive.

    They may arrive beside those of a newer connection (S2.2).
    """
    for pipe in world.network.between(*fault.regions[:2]):
        world.network.closed(pipe, draw.choice([0, 1]), "reset")


@_kind("reset in a snapshot")
def _reset_in_snapshot(world: World, fault: Fault, draw: Random) -> None:
    """The connection breaks on which the next snapshot is sent, in the middle of that.

    It does not end when the run heals, because regions that were cut off ask for snapshots then.
    """
    world.network.snapshot_resets.append(draw.randrange(3))


@_kind("link down")
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
            world.scheduler.after(ASKS_AGAIN_MS, end)
        elif region.running:
            for words in ((b"UP",), (b"DELAY", b"0")):
                world.ask(region.region_id, (b"CRDT.LINK", peer.name.encode(), *words))
            region.stepped()

    _ends(world, fault, end)


# -- processes


def _down(world: World, region: SimulatedRegion, fault: Fault) -> None:
    """Keeps a region that has just stopped from starting, for the duration of the fault."""
    region.down_for += 1

    def end() -> None:
        region.down_for = max(0, region.down_for - 1)
        region.start_if_stopped()

    _ends(world, fault, end)


@_kind("kill")
@_kind("long absence")
def _kill(world: World, fault: Fault, draw: Random) -> None:
    region = world.regions[fault.regions[0]]
    if region.running:
        region.stop("kill")
        _down(world, region, fault)


@_kind("kill in a write")
def _kill_in_write(world: World, fault: Fault, draw: Random) -> None:
    region = world.regions[fault.regions[0]]
    if region.running:
        region.cut_disk(draw.randrange(40), "kill", fault.duration_ms, None)


def _power(draw: Random) -> Callable[[Disk], None]:
    survival = draw.choice([0.0, 0.0, 0.5, 0.9])
    return lambda disk: disk.power_cut(draw, survival)


@_kind("power cut")
def _power_cut(world: World, fault: Fault, draw: Random) -> None:
    region = world.regions[fault.regions[0]]
    if region.running:
        region.stop("power", silently=True, power=_power(draw))
        _down(world, region, fault)


@_kind("power cut in a write")
def _power_cut_in_write(world: World, fault: Fault, draw: Random) -> None:
    region = world.regions[fault.regions[0]]
    if region.running:
        region.cut_disk(draw.randrange(40), "power", fault.duration_ms, _power(draw))


@_kind("death in a checkpoint")
def _death_in_checkpoint(world: World, fault: Fault, draw: Random) -> None:
    """The region dies right after a part of a checkpoint has been written, or its machine does."""
    region = world.regions[fault.regions[0]]
    if region.running:
        how, power = draw.choice([("kill", None), ("power", _power(draw))])
        region.cut_checkpoint(draw.randrange(6), how, fault.duration_ms, power)


@_kind("blackout")
def _blackout(world: World, fault: Fault, draw: Random) -> None:
    """Every region loses power at once."""
    for region in world.regions.values():
        if region.running:
            region.stop("power", silently=True, power=_power(draw))
            _down(world, region, fault)


@_kind("clean restart")
def _clean_restart(world: World, fault: Fault, draw: Random) -> None:
    region = world.regions[fault.regions[0]]
    if region.running and not region.paused:
        region.stop_cleanly()
        _down(world, region, fault)


@_kind("gone for good")
def _gone(world: World, fault: Fault, draw: Random) -> None:
    """A region is lost with all effects that only it held.

    After the fault's duration every other region is told (S13.8), some of them later than others.
    A region is told again if it lost that in a restore.
    """
    region = world.regions[fault.regions[0]]
    if not region.running or world.gone or not world.is_connected_without(region.region_id):
        return
    region.is_gone = True
    region.stop("gone", silently=draw.random() < 0.5)
    for other in world.regions.values():
        if other is not region:
            later_ms = draw.choice(_TOLD_LATER_MS)
            _ends(world, fault, partial(_give_up, world, region, other), later_ms)


def _give_up(world: World, region: SimulatedRegion, other: SimulatedRegion) -> None:
    """Tells `other` that the region is lost. Their messages on the way are dropped before."""
    for pipe in world.network.between(region.region_id, other.region_id):
        for end in (0, 1):
            world.network.closed(pipe, end, "gone for good")
    world.gone.append((region, other))
    world.say_lost()


@_kind("old backup")
def _old_backup(world: World, fault: Fault, draw: Random) -> None:
    """A backup is taken now and restored after the fault's duration, with or without `--restored`.

    A forgotten restore is detected if the start hears of it from all other members, and waits long
    enough for that (S13.6). A start that waits less, or that never talks to some member, can fork;
    that is documented, and no invariant holds then. So the start after a forgotten restore has
    enough patience, and in a network that is no mesh the region is always told.
    """
    is_mesh = len(world.plan.links) == len(world.regions) * (len(world.regions) - 1)
    _restore(world, fault, draw, draw.random() < 0.5 or not is_mesh)


@_kind(FORGOTTEN_RESTORE)
def _forgotten_restore(world: World, fault: Fault, draw: Random) -> None:
    """A backup is restored without `--restored`."""
    _restore(world, fault, draw, False)


def _restore(world: World, fault: Fault, draw: Random, says: bool) -> None:
    region = world.regions[fault.regions[0]]
    if not region.running or region.disk.is_dead():
        return
    backup = region.disk.backup()
    restores = region.restores
    machine = Random(fault.draw ^ 0xC10C)

    def put_back() -> None:
        # Backups taken after a restored one must not be used later (S13.7).
        if region.restores != restores:
            return
        region.restores += 1
        region.stop("backup")
        region.disk.restore(backup)
        region.restart.how = "backup"
        region.restart.is_restored = says
        region.restart.patience_ms = "" if says else PATIENCE_MS
        if machine.random() < 0.3:  # the new machine's clock is behind
            region.clock.offset_ms -= machine.choice([50, 1000, 20_000])
        region.start_if_stopped()
        if draw.random() < 0.3:  # the region starts before its network is up
            KINDS["isolation"](
                world, Fault(0, "isolation", fault.regions, draw.randint(100, 800), 0), draw
            )

    _ends(world, fault, put_back)


@_kind("pause")
def _pause(world: World, fault: Fault, draw: Random) -> None:
    region = world.regions[fault.regions[0]]
    if not region.running or region.paused:
        return
    start = region.starts
    region.pause(True)

    def end() -> None:
        if region.is_running(start):
            region.pause(False)
            world.network.resume()

    _ends(world, fault, end)


# -- disk


def _failing(world: World, fault: Fault, how: str) -> None:
    disk = world.regions[fault.regions[0]].disk
    disk.failing = how

    def end() -> None:
        disk.failing = ""

    _ends(world, fault, end)


@_kind("I/O errors")
def _io_errors(world: World, fault: Fault, draw: Random) -> None:
    _failing(world, fault, "io")


@_kind("full disk")
def _full_disk(world: World, fault: Fault, draw: Random) -> None:
    _failing(world, fault, "full")


@_kind("read errors")
def _read_errors(world: World, fault: Fault, draw: Random) -> None:
    """The database cannot be read; writes succeed."""
    _failing(world, fault, "reads")


@_kind("slow disk")
def _slow_disk(world: World, fault: Fault, draw: Random) -> None:
    region = world.regions[fault.regions[0]]
    region.writes_take(draw.choice([(10, 30), (50, 150)]))

    def end() -> None:
        region.writes_take((0, 3))

    _ends(world, fault, end)


# -- clocks


@_kind("clock back")
def _clock_back(world: World, fault: Fault, draw: Random) -> None:
    world.regions[fault.regions[0]].clock.offset_ms -= draw.choice([1, 50, 1000, 20_000])


@_kind("clock forward")
def _clock_forward(world: World, fault: Fault, draw: Random) -> None:
    world.regions[fault.regions[0]].clock.offset_ms += draw.choice([1, 50, 500])


@_kind("strobing clock")
def _strobe(world: World, fault: Fault, draw: Random) -> None:
    clock = world.regions[fault.regions[0]].clock
    apart_ms = draw.choice([3, 100, 400])
    deviation_ms = 0

    def deviate(by_ms: int) -> None:
        # Other faults may move the clock meanwhile, so only the own deviation is replaced.
        nonlocal deviation_ms
        clock.offset_ms += by_ms - deviation_ms
        deviation_ms = by_ms

    state = _ends(world, fault, lambda: deviate(0))

    def strobe() -> None:
        if not state.is_over:
            deviate(draw.randint(-apart_ms, apart_ms))

    for beat in range(0, fault.duration_ms, max(20, fault.duration_ms // 20)):
        world.scheduler.after(beat, strobe)


# -- clients


@_kind("client crash")
def _client_crash(world: World, fault: Fault, draw: Random) -> None:
    number = draw.choice(list(world.clients))
    world.break_line(number)
    world.clients[number].crash()


@_kind("clients cut off")
def _clients_cut_off(world: World, fault: Fault, draw: Random) -> None:
    """All clients of a region lose their connections, and the answers on their way."""
    region = world.regions[fault.regions[0]]
    if region.process is not None:
        for line in list(region.lines.by_session.values()):
            region.lines.disconnect(line)
