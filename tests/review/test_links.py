"""CRDT.LINK … DOWN: what holds once it has replied (DESIGN, contracts; S2.3)."""

from __future__ import annotations

from anabranch.sync.messages import VectorAcknowledgement
from tests.sync.fakes import World, mesh


def test_nothing_said_after_down_calls_the_peer_direct() -> None:
    """Once DOWN has replied, the peer is no longer said to be received directly.

    us takes its link from eu down while an acknowledgement to ap waits to be sent. That one was
    made before DOWN, and must not go out as it is. ap would send eu's blocks as headers, and us
    would wait for their bodies in vain.
    """
    world = World(mesh(1, 2, 3))
    world.run(500)
    hub, engine = world.hubs[1], world.engines[1]
    link = hub.links[3]
    assert link.connection is not None
    receiver = link.connection.receiver
    assert receiver is not None
    receiver.acknowledge(engine.disk_vector, frozenset({2, 3}), None)
    engine.link(2, "DOWN")
    message = hub.next_message(link.connection.number, world.now_ms)
    assert isinstance(message, VectorAcknowledgement)
    assert message.direct == frozenset({3})


def test_down_and_up_between_two_ticks_loses_nothing() -> None:
    """After UP, blocks that DOWN dropped are asked for again, without a gap (S2.2).

    DOWN, a merge that drops the blocks at hand, and UP happen before the hub's next tick. If the
    connection were still the former one, its next block would not follow: a gap, counted as the
    peer's fault.
    """
    world = World(mesh(1, 2))
    world.run(500)
    hub, engine = world.hubs[1], world.engines[1]
    connection = hub.links[2].connection
    assert connection is not None
    assert connection.receiver is not None
    world.engines[2].write("a")
    while not connection.receiver.ready:
        world.now_ms += 5
        world.hubs[2].tick(world.now_ms)
        world.work(2)
        for pipe in world.pipes:
            world.carry(pipe)
    engine.link(2, "DOWN")
    hub.merge_some(1 << 20, world.now_ms)
    engine.link(2, "UP")
    world.engines[2].write("b")
    world.settle()
    assert engine.held == world.engines[2].held
    assert not world.notes
