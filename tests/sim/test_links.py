"""A process that works dials its peers when their pauses are over, and goes on with what it has."""

from __future__ import annotations

from anabranch.region.engine.settings import Settings
from anabranch.sim.world.links import TICKS_MAX, Dials, held_up
from anabranch.sync.session.handshake import LinkLimits
from anabranch.sync.session.links import Link, PeerConnection
from anabranch.sync.session.receiver import Receiver

TICK_MS = 5
MIN_MS, MAX_MS = 50, 200


def ticks_until_overdue(dials: Dials, now_ms: int) -> int:
    """Ticks of a working process up to the first that finds a dial overdue."""
    for number in range(1, 1000):
        if dials.overdue(now_ms + number * TICK_MS, now_ms + number * TICK_MS):
            return number
    raise AssertionError("no dial is ever overdue")


def after(pause_ms: int) -> int:
    return pause_ms // TICK_MS + TICKS_MAX + 1


def new() -> tuple[Link, Dials]:
    link = Link(2, MIN_MS, MAX_MS, 0)
    return link, Dials({2: link}, 0)


def test_a_first_dial_is_due_at_once() -> None:
    _, dials = new()
    assert ticks_until_overdue(dials, 0) == after(0)


def test_after_a_clock_ran_back_a_pause_may_begin_anew() -> None:
    """The time of links stood still meanwhile. From seeds 26001451 and 27002072."""
    _, dials = new()
    assert dials.overdue(TICK_MS, 1000) == []
    assert dials.overdue(2 * TICK_MS, 0) == []
    for at_ms in range(3 * TICK_MS, 2 * TICK_MS + MAX_MS + 1, TICK_MS):
        assert dials.overdue(at_ms, at_ms) == []
    assert ticks_until_overdue(dials, 2 * TICK_MS + MAX_MS) == TICKS_MAX + 1


def test_a_dial_under_way_is_not_overdue() -> None:
    _, dials = new()
    dials.dialled(2)
    assert all(dials.overdue(at_ms, at_ms) == [] for at_ms in range(0, 10_000, TICK_MS))


def test_pauses_double_up_to_the_longest() -> None:
    for failures, pause_ms in ((1, 50), (2, 100), (3, 200), (4, 200)):
        _, dials = new()
        for _ in range(failures):
            dials.dialled(2)
            dials.failed(2, 0)
        assert ticks_until_overdue(dials, 0) == after(pause_ms)


def test_a_link_that_was_up_begins_with_the_shortest_pause() -> None:
    link, dials = new()
    for number in range(1, 4):
        dials.dialled(2)
        dials.opened(2, number, 0)
        dials.closed(number, 0)
    dials.dialled(2)
    dials.opened(2, 7, 0)
    link.state = "up"
    assert dials.overdue(0, 0) == []
    link.state = "connecting"
    dials.closed(7, 0)
    assert ticks_until_overdue(dials, 0) == after(MIN_MS)


def test_a_refused_link_waits_for_the_longest_pause() -> None:
    link, dials = new()
    dials.dialled(2)
    dials.opened(2, 1, 0)
    link.state = "refused"
    dials.closed(1, 0)
    assert ticks_until_overdue(dials, 0) == after(MAX_MS)


def test_the_end_of_a_former_connection_does_not_count() -> None:
    _, dials = new()
    dials.dialled(2)
    dials.opened(2, 1, 0)
    dials.dialled(2)
    dials.closed(1, 0)
    assert all(dials.overdue(at_ms, at_ms) == [] for at_ms in range(0, 10_000, TICK_MS))


def test_a_connection_that_is_not_wanted_is_no_connection() -> None:
    _, dials = new()
    dials.dialled(2)
    dials.opened(2, None, 0)
    assert ticks_until_overdue(dials, 0) == after(MIN_MS)


def test_a_link_that_is_down_or_forked_is_not_dialled_and_then_at_once() -> None:
    link, dials = new()
    link.wanted = False
    assert all(dials.overdue(at_ms, at_ms) == [] for at_ms in range(0, 1000, TICK_MS))
    link.wanted = True
    assert ticks_until_overdue(dials, 1000) == after(0)
    link.state = "forked"
    assert dials.overdue(5000, 5000) == []


def test_a_link_that_waits_for_a_block_which_is_there() -> None:
    link, _ = new()
    links = {2: link}
    assert held_up(links, {1: 9}) == []
    receiver = Receiver(2, LinkLimits(Settings()))
    link.connection = PeerConnection(1, 0, receiver=receiver)
    assert held_up(links, {1: 9}) == []
    receiver.stuck_at = (3, 5)
    assert held_up(links, {1: 9, 3: 4}) == []
    [text] = held_up(links, {3: 5})
    assert text == "has block (3, 5), and the link from region 2 still waits for it"
