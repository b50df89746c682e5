"""No object of the data refers back to its owner, so nothing needs the search for cycles."""

from __future__ import annotations

import gc
from random import Random

from anabranch import build
from tests.engine.test_random_histories import World


def test_a_keyspace_is_freed_without_the_search_for_cycles() -> None:
    """Objects of a compiled class are not even tracked; of an interpreted one, none is in a cycle.

    A cycle would stay in memory for ever in the compiled build.
    """
    world = World(3)
    world.chance = Random(3)
    for _ in range(400):
        world.step()
    streams = [stream for place in world.places for stream in place.engine.keyspace.keys.values()]
    assert streams
    if build.kind() == "compiled":
        held = [*streams, *(log for stream in streams for log in stream.logs.values())]
        held += [group.delivery for stream in streams for group in stream.groups.values()]
        assert not any(map(gc.is_tracked, held))
    del streams
    keyspaces = [place.engine.keyspace for place in world.places]
    gc.collect()
    gc.disable()
    try:
        for keyspace in keyspaces:
            keyspace.keys.clear()
            keyspace.free_some(1 << 30)
        assert gc.collect() == 0
    finally:
        gc.enable()
