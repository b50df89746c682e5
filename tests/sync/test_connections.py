"""The connections of one hub, message by message: refused, closed, and no longer wanted (S2.2)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Optional

import pytest

from anabranch.crdt.block import NO_CHAIN, Block, chain_after
from anabranch.crdt.errors import PeerError
from anabranch.crdt.gossip import Gossip, RecoveryQuestion
from anabranch.region.engine.clock import SteadyClock
from anabranch.region.engine.settings import Settings
from anabranch.sync.session import messages as m
from anabranch.sync.session.hub import Hub
from tests.sync.fakes import NAMES, FakeEngine

TABLE = {1: NAMES[1], 2: NAMES[2], 3: NAMES[3]}
NOW_MS = 1000


class Us:
    """The hub of us, which dials eu. Effects of us are written as `blocks`: counts of effects."""

    def __init__(self, blocks: tuple[int, ...] = ()) -> None:
        self.engine = FakeEngine(1, TABLE)
        for count in blocks:
            self.engine.write("mine", count)
        self.engine.commit()
        self.hub = Hub(self.engine, Settings(), [2], self.engine.log.tail, SteadyClock(NOW_MS))

    def dial(self) -> int:
        number = self.hub.dial_opened(2, NOW_MS)
        assert number is not None
        assert isinstance(self.hub.next_message(number), m.Hello)
        return number

    def open(self, vector: Optional[dict[int, int]] = None) -> int:
        """A dialled connection that eu has taken."""
        number = self.dial()
        self.hears(number, welcome(vector))
        assert self.hub.links[2].state == "up"
        return number

    def hears(self, number: int, message: Any) -> None:
        self.hub.received(number, message, NOW_MS)

    def says(self, number: int) -> Iterator[Any]:
        while (message := self.hub.next_message(number)) is not None:
            yield message

    def refusal(self, number: int) -> m.Refusal:
        """The last message of a connection that this region closes."""
        *_, last = self.says(number)
        assert isinstance(last, m.Refusal) and self.hub.finished(number)
        return last


def welcome(
    vector: Optional[dict[int, int]] = None,
    chains: Optional[dict[int, bytes]] = None,
    region_id: int = 2,
) -> m.Welcome:
    name = NAMES[region_id]
    return m.Welcome(m.VERSION, "c", TABLE, region_id, name, 1, vector or {}, chains or {})


def hello(vector: Optional[dict[int, int]] = None, version: int = m.VERSION) -> m.Hello:
    return m.Hello(version, "c", TABLE, 2, "eu", 1, 1, vector or {}, {}, frozenset(), 1 << 20)


def block(counter: int, after: bytes = NO_CHAIN) -> Block:
    """An effect of eu, which follows the chain value `after`."""
    body = json.dumps({"deps": {}, "payload": "theirs"}).encode()
    return Block(2, counter, counter, body, chain_after(after, body))


# -- dials


def test_a_dial_that_succeeds_after_the_link_was_cut_is_not_wanted() -> None:
    """CRDT.LINK eu DOWN, while the dial is under way."""
    us = Us()
    us.engine.link(2, "DOWN")
    us.hub.apply_link_requests(NOW_MS)
    assert us.hub.dial_opened(2, NOW_MS) is None
    assert us.hub.links[2].connection is None and us.hub.links[2].state == "down"


def test_a_second_dial_leaves_the_first_connection_as_it_is() -> None:
    us = Us()
    number = us.open()
    assert us.hub.dial_opened(2, NOW_MS) is None
    connection = us.hub.links[2].connection
    assert connection is not None and connection.number == number and not us.hub.finished(number)


def test_a_cut_of_a_link_that_this_region_does_not_have_changes_nothing() -> None:
    """This region dials eu alone. ap receives from it, or the members have changed."""
    us = Us()
    number = us.open()
    us.hub.take_work()
    us.engine.link(3, "DOWN")
    us.hub.apply_link_requests(NOW_MS)
    assert not us.hub.take_work().events and not us.hub.finished(number)
    assert us.engine.states == {2: ("up", "")}


# -- refusals


def test_another_region_than_the_dialled_one_answers() -> None:
    us = Us()
    number = us.dial()
    us.hears(number, welcome(region_id=3))
    refusal = us.refusal(number)
    assert refusal.reason == "region"
    assert refusal.text == "region 2 was dialled, region 3 (ap) answered"
    assert us.engine.states[2][0] == "refused" and not us.engine.peers_hold


def test_a_hello_of_another_protocol_version_is_refused() -> None:
    us = Us()
    number = us.hub.accepted(NOW_MS)
    us.hears(number, hello(version=m.VERSION + 1))
    refusal = us.refusal(number)
    assert refusal.reason == "version"
    assert f"version {m.VERSION + 1}, us speaks {m.VERSION}" in refusal.text


@pytest.mark.parametrize("reason", ["gap", "forked"])
def test_a_block_that_does_not_follow_closes_the_link(reason: str) -> None:
    """A gap may end with the next dial. A fork needs the operator, so its link is not dialled."""
    us = Us()
    number = us.open()
    wrong = block(2) if reason == "gap" else block(1, after=b"x" * 16)
    us.hears(number, m.Batch([wrong]))
    us.hub.merge_some(1000, NOW_MS)
    assert us.refusal(number).reason == reason
    assert us.engine.states[2][0] == {"gap": "refused", "forked": "forked"}[reason]
    assert us.engine.vector == {} and us.hub.links[2].dial_due(1 << 40) == (reason == "gap")


def test_a_snapshot_of_another_history_is_not_joined() -> None:
    """S13.5: it has other effects of eu up to the counter that this region has on disk."""
    us = Us()
    number = us.open()
    first = block(1)
    us.hears(number, m.Batch([first]))
    us.hub.merge_some(1000, NOW_MS)
    us.engine.commit()
    us.hub.committed(NOW_MS)
    us.hears(number, m.HoldingBack(True, {2: 1, 3: 5}))
    us.hub.tick(NOW_MS + Settings().integer("crdt-snapshot-patience-ms"))
    (asked,) = [one for one in us.says(number) if isinstance(one, m.SnapshotRequest)]
    chains = {2: b"x" * 16, 3: bytes(16)}
    us.hears(number, m.SnapshotBegin(asked.number, {2: 1, 3: 5}, chains))
    us.hears(number, m.SnapshotEnd(asked.number, 0))
    refusal = us.refusal(number)
    assert refusal.reason == "forked" and "different history of region 2" in refusal.text
    assert us.engine.joins == 0


def test_a_fork_that_the_log_on_disk_shows_closes_the_link() -> None:
    """S13.5: eu has fewer effects of us than us, and another chain value at their end."""
    us = Us(blocks=(1, 1))
    number = us.dial()
    us.hears(number, welcome({1: 1}, {1: b"x" * 16}))
    ((asked, request),) = us.hub.take_work().requests
    assert asked == number and us.hub.links[2].state == "connecting"
    us.hub.answered(number, request, us.engine.log.answer(request), NOW_MS)
    assert us.refusal(number).reason == "forked"
    assert us.engine.states[2][0] == "forked" and not us.engine.peers_hold


def test_a_peer_that_stands_within_a_block_is_refused_when_its_turn_to_be_sent_comes() -> None:
    """Only the sender sees it: the effects 1 to 3 of us are one block, and eu has two of them."""
    us = Us(blocks=(3,))
    number = us.hub.accepted(NOW_MS)
    us.hears(number, hello({1: 2}))
    said: list[Any] = []
    # When no message waits, the carrier closes a connection that is finished.
    while not us.hub.finished(number):
        for asked, request in us.hub.take_work().requests:
            us.hub.answered(asked, request, us.engine.log.answer(request), NOW_MS)
        said += us.says(number)
    assert [type(one) for one in said] == [m.Welcome, m.Refusal]
    assert said[-1].reason == "forked" and "inside a block that begins at 1" in said[-1].text
    assert us.hub.finished(number) and not us.hub.sending and not us.engine.receivers


def test_a_connection_turned_away_by_its_carrier_is_counted_and_told() -> None:
    us = Us()
    us.hub.take_work()
    us.hub.turned_away("10.9.9.9:5000", "it said nothing", NOW_MS)
    assert us.hub.counts["refusals"] == 1
    (event,) = us.hub.take_work().events
    assert event.name == "link_refused" and event.fields["address"] == "10.9.9.9:5000"
    assert "it said nothing" in event.text


# -- the end of a connection


def test_a_connection_that_was_refused_is_not_refused_again() -> None:
    """A peer may send more after its refusal is under way, and that may be malformed, too."""
    us = Us()
    number = us.open()
    us.hub.malformed(number, PeerError("one"), NOW_MS)
    us.hub.malformed(number, PeerError("two"), NOW_MS)
    assert us.hub.counts["refusals"] == 1 and us.engine.states[2] == ("refused", "malformed: one")
    assert [one.text for one in us.says(number)] == ["one"]
    us.hub.closed(number, "closed", NOW_MS)
    us.hub.malformed(number, PeerError("three"), NOW_MS)
    assert us.hub.counts["refusals"] == 1


def test_a_connection_that_ends_for_two_reasons_is_closed_once() -> None:
    """eu says that it stops, in a heartbeat that tells of a later life of eu, too."""
    us = Us()
    number = us.open()
    us.hub.take_work()
    later = RecoveryQuestion(3, 1, 1, 0, {2: 9}, [])
    us.hears(number, m.Heartbeat({}, b"", Gossip([], [later], []), stops=True))
    assert us.engine.lives[2] == 9
    assert us.hub.take_work().closes == [number]
