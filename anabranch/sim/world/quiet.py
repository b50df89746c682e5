"""The quiet spell at the end of a run, without clients and faults: what must be so before long.

Every link that is dialled comes up, and counts as a receiver at its other end. What all regions
have becomes stable, so nothing is kept for the sake of stability (S14). CRDT.SYNC answers 1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from anabranch.region.engine.replies import Reply
from anabranch.sim.history import Words
from anabranch.sim.replies import figures_of, time_ms
from anabranch.sim.world.draining import Drainer
from anabranch.sim.world.region import SimulatedRegion
from anabranch.sim.world.world import World

FIRST_NUMBER: Final = 950
_SYNC_MS: Final = 1000
_LOOK_MS: Final = 50
# A half-open connection is taken for dead after this number of heartbeats (`sync.session.hub`).
# Further ones tell every region what the others have.
_HEARTBEATS: Final = 50 + 8
# Where checkpoints are made so often, the log is within its bounds soon.
_SOON_MS: Final = 500
# Figures that must be 0 when everything is stable (S6.2, S9.2).
_KEPT: Final = (b"crdt_tombstones", b"crdt_clears", b"crdt_idmp_retired")
# Keys that only some clocks hide yet keep this figure above 0 (S11.3).
_HIDDEN: Final = b"crdt_absent_keys"

# Asks a region, of this region_id, a command.
Ask = Callable[[int, Words], Reply]


def wrong(world: World) -> list[str]:
    """Lets a level world be quiet until nothing is wrong; returns what is wrong at the bound."""
    return wrong_by(world, world.ask, _SOON_MS)


def wrong_by(world: World, ask: Ask, soon_ms: int) -> list[str]:
    """As `wrong`, with the figures that `ask` answers.

    `soon_ms`: the log must be within its bounds where checkpoints are at most so far apart.
    """
    bound_ms = _bound_ms(world)
    log_ms = bound_ms + _checkpoint_ms(world)

    def looked() -> list[str]:
        return _wrong_now(world, ask)

    # A key that one region hides is removed once the last one's clock is past the deadline. Its
    # removal becomes stable, too.
    hidden_ms = bound_ms + _clocks_apart_ms(world, ask)
    return (
        _wrong_after(world, bound_ms, looked)
        or _wrong_after(world, hidden_ms, lambda: _hidden_now(world, ask))
        or _wrong_after(world, bound_ms, looked)
        or _wrong_after(world, log_ms, lambda: _logs_now(world, soon_ms))
        or [text for region in world.remaining() for text in _not_synchronous(world, region)]
    )


def _wrong_after(world: World, bound_ms: int, looked: Callable[[], list[str]]) -> list[str]:
    """Waits until a look finds nothing wrong; returns what is wrong at the bound."""
    until_ms = world.scheduler.now_ms + bound_ms
    found = looked()
    while found and world.scheduler.now_ms < until_ms:
        world.scheduler.run_until(world.scheduler.now_ms + _LOOK_MS)
        found = looked()
    return found


def _bound_ms(world: World) -> int:
    """How long that may take where clocks agree."""

    def most(name: str) -> int:
        return max(region.engine.settings.integer(name) for region in world.remaining())

    silence_ms = max(most("crdt-link-silence-ms"), _HEARTBEATS * most("crdt-heartbeat-interval-ms"))
    return silence_ms + 2 * (most("crdt-reconnect-max-ms") + most("crdt-collect-interval-ms"))


def _checkpoint_ms(world: World) -> int:
    """How long the checkpoint under way and the next may rest, one tick after the other.

    A checkpoint encodes pending entries and pairs, at least two in a tick. A step of the plan makes
    a few of them at most.
    """
    return 2 * len(world.plan.intents()) * world.plan.tick_ms


def _clocks_apart_ms(world: World, ask: Ask) -> int:
    """How far the slowest clock lags behind the time at which the fastest region hides keys."""
    hides_ms = max(time_ms(ask(region.region_id, (b"TIME",))) for region in world.remaining())
    return hides_ms - min(region.clock.now_ms() for region in world.remaining())


def _wrong_now(world: World, ask: Ask) -> list[str]:
    remaining = world.remaining()
    is_complete = len(remaining) == len(world.regions)
    texts: list[str] = []
    for region in remaining:
        figures = _figures(ask, region)
        texts += _of_links(world, region, figures)
        if is_complete:
            texts += [text for name in _KEPT for text in _kept(region, figures, name)]
        if is_complete and figures[b"crdt_stable_vector"] != figures[b"crdt_vector"]:
            stable = figures[b"crdt_stable_vector"].decode()
            texts.append(f"{region.name} knows {stable} to be stable, and not all that it has")
    return texts


def _logs_now(world: World, soon_ms: int) -> list[str]:
    """The logs that are too large where checkpoints are at most `soon_ms` apart (S14)."""
    return [
        f"{region.name} has {region.driver.log.figures()} in spite of its bounds"
        for region in world.remaining()
        if region.engine.settings.integer("crdt-checkpoint-interval-ms") <= soon_ms
        and region.driver.log.is_too_large()
    ]


def _hidden_now(world: World, ask: Ask) -> list[str]:
    """The regions that still keep keys which they hide. Where one is gone, they may."""
    remaining = world.remaining()
    if len(remaining) < len(world.regions):
        return []
    return [text for region in remaining for text in _kept(region, _figures(ask, region), _HIDDEN)]


def _figures(ask: Ask, region: SimulatedRegion) -> dict[bytes, bytes]:
    return figures_of(ask(region.region_id, (b"INFO", b"crdt")))


def _kept(region: SimulatedRegion, figures: dict[bytes, bytes], name: bytes) -> list[str]:
    if figures[name] == b"0":
        return []
    return [f"{region.name} has {name.decode()} {figures[name].decode()}"]


def _of_links(world: World, region: SimulatedRegion, figures: dict[bytes, bytes]) -> list[str]:
    """What is wrong with the links of a region."""
    gone = {one.region_id for one, _ in world.gone}
    links = [pair for pair in world.plan.links if not gone & set(pair)]
    texts: list[str] = []
    for dialler, peer in links:
        text = figures.get(b"crdt_link%d" % peer, b"")
        if dialler == region.region_id and b",state=up," not in text:
            texts.append(f"the link of {region.name} is not up: {text.decode()}")
    receivers = _receivers(world, region)
    if figures[b"crdt_receivers"] != b"%d" % receivers:
        shown = figures[b"crdt_receivers"].decode()
        texts.append(f"{region.name} counts {shown} receivers; there are {receivers}")
    return texts


def _receivers(world: World, region: SimulatedRegion) -> int:
    """How many regions dial this one."""
    here = {one.region_id for one in world.remaining()}
    return sum(peer == region.region_id and dialler in here for dialler, peer in world.plan.links)


def _not_synchronous(world: World, region: SimulatedRegion) -> list[str]:
    """Asks CRDT.SYNC; empty unless the region answers 0. The answer may be lost on its way.

    A region from which nobody receives waits until somebody does.
    """
    if not _receivers(world, region):
        return []
    client = Drainer(FIRST_NUMBER + region.region_id, region.region_id)
    world.clients[client.number] = client
    world.send(client, [(b"CRDT.SYNC", b"%d" % _SYNC_MS)])
    until_ms = world.scheduler.now_ms + 2 * _SYNC_MS
    while world.unanswered(client) and world.scheduler.now_ms < until_ms:
        world.scheduler.run_until(world.scheduler.now_ms + 5)
    return [f"{region.name} answers CRDT.SYNC with 0"] if client.reply == 0 else []
