"""The quiet spell at the end of a run reports each thing that must not be so."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from anabranch.region.engine.replies import Reply, VerbatimText
from anabranch.sim.draw import draw_plan
from anabranch.sim.history import Words
from anabranch.sim.run import _converge
from anabranch.sim.world import faults, quiet
from anabranch.sim.world.faults import new_world
from anabranch.sim.world.world import World
from tests.support.engines import execute


@pytest.fixture
def level() -> Iterator[World]:
    """A world of three regions after load, faults and convergence."""
    world = new_world(draw_plan(7, 3, 60), [], None)
    world.begin()
    world.scheduler.run_until(world.scheduler.now_ms + world.plan.load_ms)
    faults.heal(world)
    assert _converge(world) is not None and len(world.remaining()) == 3
    yield world
    world.close()


def test_a_sound_world_becomes_quiet(level: World) -> None:
    assert quiet.wrong(level) == []


@pytest.mark.parametrize(
    "figure, value, text",
    [
        (b"crdt_receivers", b"7", "us counts 7 receivers; there are 2"),
        (b"crdt_tombstones", b"1", "us has crdt_tombstones 1"),
        (b"crdt_clears", b"2", "us has crdt_clears 2"),
        (b"crdt_idmp_retired", b"4", "us has crdt_idmp_retired 4"),
        (b"crdt_absent_keys", b"3", "us has crdt_absent_keys 3"),
        (b"crdt_stable_vector", b"1=1", "us knows 1=1 to be stable, and not all that it has"),
        (b"crdt_link2", b"name=eu,state=connecting,lag=0", "the link of us is not up: name=eu"),
    ],
)
def test_a_figure_that_stays_wrong(level: World, figure: bytes, value: bytes, text: str) -> None:
    found = quiet.wrong_by(level, _changed(level.ask, figure, value), 0)
    assert len(found) == 1 and found[0].startswith(text)


def test_a_key_that_another_clock_does_not_hide_yet(level: World) -> None:
    """S10.3: the region whose deadline won waits for the last clock. From seed 95102862."""
    for region in level.remaining():
        level.ask(region.region_id, (b"CONFIG", b"SET", b"crdt-expiry-grace-ms", b"3600000"))
    at_ms = max(region.now_ms() for region in level.remaining()) + 100
    level.regions[2].clock.offset_ms -= 30_000
    level.ask(1, (b"XADD", b"k", b"*", b"a", b"b"))
    level.ask(1, (b"PEXPIREAT", b"k", b"%d" % at_ms))
    began_ms = level.scheduler.now_ms
    assert quiet.wrong(level) == []
    assert level.scheduler.now_ms > began_ms + 20_000


def test_a_smaller_bound_shortens_the_log_of_an_idle_region(level: World) -> None:
    """Only checkpoints shorten it, and there were none without changes. From seed 95401754."""
    level.ask(1, (b"CONFIG", b"SET", b"crdt-checkpoint-interval-ms", b"100"))
    level.ask(1, (b"CONFIG", b"SET", b"crdt-log-max-effects", b"0"))
    for _ in range(3):
        level.ask(1, (b"XADD", b"k", b"*", b"a", b"b"))
    assert quiet.wrong(level) == []
    log = level.regions[1].driver.log
    assert log.size.effects > 1
    level.ask(1, (b"CONFIG", b"SET", b"crdt-log-max-effects", b"1"))
    level.scheduler.run_until(level.scheduler.now_ms + 1000)
    assert log.size.effects <= 1 and not log.is_too_large()


def test_a_checkpoint_that_rests(level: World) -> None:
    """The log is too large until it ends, a tick for each entry. From seed 347073828188."""
    for name in (b"crdt-log-max-effects", b"crdt-checkpoint-interval-ms"):
        level.ask(1, (b"CONFIG", b"SET", name, b"1"))
    level.ask(1, (b"CONFIG", b"SET", b"crdt-uncommitted-max-bytes", b"1000000"))
    level.regions[1].driver._disk._checkpoints._checkpointer.stretch = 1
    pending = len(level.plan.intents())
    for _ in range(pending):
        level.ask(1, (b"XADD", b"many", b"*", b"a", b"b"))
    level.ask(1, (b"XGROUP", b"CREATE", b"many", b"g", b"0"))
    level.ask(1, (b"XREADGROUP", b"GROUP", b"g", b"c", b"STREAMS", b"many", b">"))
    level.scheduler.run_until(level.scheduler.now_ms + 100)
    began_ms = level.scheduler.now_ms
    bound_ms = quiet._checkpoint_ms(level)
    assert quiet._wrong_after(level, bound_ms, lambda: quiet._logs_now(level, 100)) == []
    assert level.scheduler.now_ms - began_ms > (pending - 5) * level.plan.tick_ms


def test_a_log_that_stays_too_large(level: World) -> None:
    level.regions[1].driver.log.size.bytes += 1 << 40
    (text,) = quiet.wrong_by(level, level.ask, 10_000)
    assert text.startswith("us has {") and text.endswith("in spite of its bounds")


def test_a_round_that_nobody_acknowledges(level: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages to us are held back. So it knows of no acknowledgement, and CRDT.SYNC answers 0."""
    level.network.cuts[2, 1] = level.network.cuts[3, 1] = 1
    region = level.regions[1]
    session = region.engine.clients.connect("test", "test", region.now_ms())
    execute(region.engine, session, [b"XADD", b"k", b"*", b"t", b"a"], region.now_ms())
    try:
        assert quiet._not_synchronous(level, region) == ["us answers CRDT.SYNC with 0"]
    finally:
        level.network.cuts.clear()
        level.network.resume()


def _changed(ask: quiet.Ask, figure: bytes, value: bytes) -> quiet.Ask:
    """`ask` with one figure of region 1 changed."""

    def changed(region: int, argv: Words) -> Reply:
        reply = ask(region, argv)
        if region != 1 or not isinstance(reply, VerbatimText):
            return reply
        lines = [
            figure + b":" + value if line.startswith(figure + b":") else line
            for line in reply.text.split(b"\r\n")
        ]
        return VerbatimText(b"\r\n".join(lines))

    return changed
