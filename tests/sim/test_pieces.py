"""What clients send arrives in pieces, in order."""

from __future__ import annotations

from dataclasses import replace

from anabranch.sim.draw import draw_plan
from anabranch.sim.world.environment import EPOCH_MS
from anabranch.sim.world.faults import new_world


def test_pieces_of_a_client_pass_no_piece_that_waits_for_a_paused_process() -> None:
    """Each piece that came while a process was paused was tried again after a tick of its own.

    So the pieces behind it, which came after the pause, went first (seed 5000387).
    """
    plan = replace(
        draw_plan(1, 2, 60, faults=()), steps=(), tick_ms=20, traits=frozenset({"pieces"})
    )
    world = new_world(plan, [])
    try:
        world.begin()
        client = next(iter(world.clients.values()))
        region = world.regions[client.region]
        now_ms = EPOCH_MS + 400
        world.scheduler.run_until(now_ms)
        for number in range(40):
            world.send(client, [(b"XADD", b"pieces", b"*", b"number", b"%d" % number)])
            region.pause(True)
            now_ms += 5
            world.scheduler.run_until(now_ms)
            region.pause(False)
            now_ms += 200
            world.scheduler.run_until(now_ms)
        assert world.ask(client.region, (b"XLEN", b"pieces")) == 40
        assert world.found == []
    finally:
        world.close()
