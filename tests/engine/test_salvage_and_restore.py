"""us is repaired and has a salvage, and eu is put back to a backup at the same time (S13.6, S13.7).

us answered eu although its salvage, which held an effect that eu had lost, was not merged yet. eu
served and gave the counter to another effect: a fork. It was found by thought, and by a simulated
run with damaged rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from anabranch.crdt.block import Block
from anabranch.region.engine.lifecycle import RECOVERY, SERVING
from anabranch.region.storage import salvage
from tests.support.engine_cluster import Place, ask_start, carry, cluster, greet, sync, tell


def meet(places: Sequence[Place], from_ms: int, to_ms: int, said: bool) -> None:
    """All tell each other what they know for a while. A start that was not `said` asks again."""
    _us, eu, _ap = places
    for now_ms in range(from_ms, to_ms, 250):
        for place in places:
            place.at(now_ms)
        for one in places:
            for other in places:
                if one is not other:
                    tell(one, other)
                    if one is eu and not said:
                        ask_start(eu, other)


def put_back_both(places: Sequence[Place], said: bool) -> list[Block]:
    """us waits with its salvage, and eu was put back; returns the items of the salvage."""
    us, eu, ap = places
    eu.ok("XADD", "x", "*", "f", "1")
    eu.commit()
    sync(us, eu, ap)
    backup = len(eu.rows)
    eu.ok("XADD", "x", "*", "f", "2")
    carry(eu, us, gossip=False)  # only us gets it
    assert us.engine.vector[2] == 2 and ap.engine.vector[2] == 1
    # The damaged log had been cut off at the front, so its salvage begins with a gap.
    items = [salvage.gap(2, 1), *us.lacking({2: 1})]
    us.restart(5000, 0, restored=True)
    us.engine.state.disk.note_salvage(True)
    us.at(5000)
    assert us.engine.state.lifecycle.state == RECOVERY and us.engine.salvage.is_wanted()
    assert us.engine.salvage.merge(items, 5000) == 0, "it waits for a peer"
    eu.patience_ms = 0 if said else 1 << 40
    eu.restart(5000, backup, restored=said)
    eu.at(5000)
    if not said:
        greet(eu, us)
        greet(eu, ap)
    return items


@pytest.mark.parametrize("said", [True, False])
def test_a_region_that_was_put_back_waits_for_the_salvage_of_another(said: bool) -> None:
    us, eu, ap = places = cluster(3)
    items = put_back_both(places, said)
    meet(places, 5100, 7000, said)
    assert us.engine.state.lifecycle.state == RECOVERY, "its salvage is not merged yet"
    assert eu.engine.state.lifecycle.state != SERVING, "us may hold more of it than eu has"
    # What us lacked comes from ap, so its salvage follows: it has eu's second effect again.
    carry(ap, us)
    assert us.engine.salvage.merge(items, 7000) == len(items)
    us.engine.salvage.end()
    us.commit()
    carry(us, eu)
    meet(places, 7100, 9000, said)
    assert {place.engine.state.lifecycle.state for place in places} == {SERVING}
    assert eu.engine.vector[2] == 2, "it has its second effect back"


def test_two_salvages_do_not_wait_for_each_other() -> None:
    """Each region merges its own salvage with the other's answer, and leaves with a later one."""
    us, eu, ap = places = cluster(3)
    for place in places:
        place.ok("XADD", "x", "*", "f", place.region_id)
    sync(us, eu, ap)
    for place in (us, eu):
        place.restart(5000, 0, restored=True)
        place.engine.state.disk.note_salvage(True)
        place.at(5000)
    for _ in range(2):
        carry(ap, us)
        carry(ap, eu)
    meet(places, 5100, 7000, True)
    assert us.engine.salvage.is_final() and eu.engine.salvage.is_final()
    us.engine.salvage.end()
    meet(places, 7000, 8000, True)
    assert us.engine.state.lifecycle.state == RECOVERY, "eu may still bring more"
    assert us.engine.state.lifecycle.waited_for([2, 3], us.engine.disk_vector) == [2]
    eu.engine.salvage.end()
    meet(places, 8000, 9000, True)
    assert {place.engine.state.lifecycle.state for place in places} == {SERVING}
