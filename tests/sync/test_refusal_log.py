"""The log of refusals stays short whatever clients send; connections without a Hello are few."""

from __future__ import annotations

from anabranch.crdt.errors import PeerError
from anabranch.region.engine.clock import SteadyClock
from anabranch.region.engine.settings import Settings
from anabranch.sync.session import messages as m
from anabranch.sync.session.hub import Hub
from anabranch.sync.session.refusal_log import LINES_MAX, TEXT_MAX, WINDOW_MS, RefusalLog, Refused
from anabranch.sync.session.unnamed import UNNAMED_MAX
from tests.sync.fakes import NAMES, FakeEngine

TABLE = {1: NAMES[1], 2: NAMES[2]}


def refused(text: str, peer: int = 0, direction: str = "sending to") -> Refused:
    return Refused(peer, direction, "malformed", text)


def hub() -> Hub:
    engine = FakeEngine(1, TABLE)
    return Hub(engine, Settings(), [2], engine.log.tail, SteadyClock(0))


def refusals(one: Hub) -> list[str]:
    return [event.text for event in one.take_work().events if event.name == "link_refused"]


def test_the_same_refusal_is_one_line() -> None:
    log = RefusalLog()
    shown = [log.is_line(refused("no member", 2), now_ms) for now_ms in range(0, 100_000, 1000)]
    assert shown == [True] + 99 * [False]
    assert log.due(200_000) == []


def test_a_refusal_after_the_link_worked_is_a_line_again() -> None:
    log = RefusalLog()
    assert log.is_line(refused("no member", 2), 0)
    log.works(2)
    assert log.is_line(refused("no member", 2), 10)


def test_different_refusals_are_counted_and_told_at_the_end_of_the_window() -> None:
    log = RefusalLog()
    lines = sum(log.is_line(refused(f"byte {number}"), number) for number in range(100))
    assert lines == LINES_MAX
    assert log.due(WINDOW_MS - 1) == []
    [(newest, count)] = log.due(WINDOW_MS)
    assert (newest.text, count) == ("byte 99", 100 - LINES_MAX)
    assert log.due(WINDOW_MS) == []
    assert log.is_line(refused("another"), WINDOW_MS)


def test_peers_and_directions_have_windows_of_their_own() -> None:
    log = RefusalLog()
    for number in range(100):
        log.is_line(refused(f"byte {number}"), number)
    assert log.is_line(refused("other members", 2), 100)
    assert log.is_line(refused("other members", 2, "receiving from"), 100)


def test_a_flood_of_garbage_is_few_lines() -> None:
    """Each garbage connection was a line of the log, because each has another text."""
    one = hub()
    lines = []
    for now_ms in range(0, 60_000, 10):
        number = one.accepted(now_ms)
        one.malformed(number, PeerError(f"malformed: byte {now_ms}"), now_ms)
        one.closed(number, "closed by the peer", now_ms)
        one.tick(now_ms)
        lines += refusals(one)
    assert 6 * LINES_MAX <= len(lines) <= 6 * (LINES_MAX + 1)
    assert any("998 refusals since the last line" in line for line in lines), lines[:8]


def test_a_refusal_with_a_megabyte_of_members_is_a_short_line() -> None:
    """The refusal of other members names those of the peer, who may name a thousand."""
    one = hub()
    number = one.accepted(0)
    names = dict.fromkeys(range(1, 900), "x" * 1000) | TABLE
    hello = m.Hello(m.VERSION, "c", names, 2, "eu", 1, 1, {}, {}, frozenset(), 1000)
    one.received(number, hello, 0)
    [line] = refusals(one)
    assert "members" in line and len(line) < TEXT_MAX + 100


def test_connections_without_a_hello_are_few() -> None:
    """Each may hold a message of 32 MiB, and there was no limit to their number."""
    one = hub()
    numbers = [one.accepted(0) for _ in range(UNNAMED_MAX)]
    assert not any(one.finished(number) for number in numbers)
    newest = one.accepted(1)
    assert [one.finished(number) for number in (*numbers, newest)] == [True] + 64 * [False]
    hello = m.Hello(m.VERSION, "c", TABLE, 2, "eu", 1, 1, {}, {}, frozenset(), 1000)
    one.received(newest, hello, 1)
    for _ in range(3 * UNNAMED_MAX):
        one.accepted(2)
    assert not one.finished(newest), "a peer that has greeted stays"
