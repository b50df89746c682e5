"""One side of a link at a time: what the state machines say to what they hear."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch.crdt.block import Block
from anabranch.crdt.errors import PeerError
from anabranch.crdt.gossip import Gossip, StartAnswer, StartQuestion
from anabranch.region.engine.settings import Settings
from anabranch.sync.session import messages as m
from anabranch.sync.session.codec import encode_down
from anabranch.sync.session.handshake import LinkLimits
from anabranch.sync.session.held_messages import FULL_BYTES, FULL_MESSAGES, HeldMessages
from anabranch.sync.session.links import Link
from anabranch.sync.session.log_requests import Locate, ReadBlock, ReadLog
from anabranch.sync.session.log_tail import LogTail
from anabranch.sync.session.puller import Puller
from anabranch.sync.session.receiver import Receiver, Staged
from anabranch.sync.session.sender import Sender
from tests.sync.fakes import WHOLE_TAIL, FakeRow

CHAIN = bytes(16)
# Up to here the logs of these senders are on disk, and nothing of that is in memory.
POSITION = 10


def limits(**values: int) -> LinkLimits:
    return LinkLimits(Settings({name.replace("_", "-"): value for name, value in values.items()}))


def block(origin: int, number: int, size: int = 10) -> Block:
    return Block(origin, number, number, bytes(size), CHAIN)


def header(origin: int, number: int, size: int = 10) -> m.Header:
    return m.Header(origin, number, number, CHAIN, size)


def welcome() -> m.Welcome:
    return m.Welcome(m.VERSION, "c", {1: "us", 2: "eu"}, 2, "eu", 1, {}, {})


def open_receiver(direct: frozenset[int] = frozenset(), **values: int) -> Receiver:
    receiver = Receiver(2, limits(**values))
    receiver.greet(m.Hello(m.VERSION, "c", {}, 1, "us", 2, 1, {}, {}, direct, 1000))
    assert isinstance(receiver.next_message(), m.Hello)
    receiver.received(welcome())
    receiver.open = True
    return receiver


def open_sender(
    vector: dict[int, int] | None = None,
    direct: frozenset[int] = frozenset(),
    window: int = 1 << 20,
    tail: LogTail | None = None,
    **values: int,
) -> Sender:
    """A sender that begins at the beginning of its log."""
    tail = tail or LogTail(POSITION, {}, WHOLE_TAIL)
    sender = Sender(1, limits(**values), tail)
    sender.received(
        m.Hello(m.VERSION, "c", {}, 2, "eu", 1, 1, dict(vector or {}), {}, direct, window)
    )
    sender.welcome(welcome())
    assert isinstance(sender.next_message(), m.Welcome)
    request = sender.request()
    assert isinstance(request, Locate)
    sender.located(request, 0, {})
    return sender


def feed(sender: Sender, *blocks: Block) -> None:
    """Answers the sender's question with the rows of these blocks."""
    request = sender.request()
    assert isinstance(request, ReadLog)
    sender.rows_read(request, rows(request.position, *blocks), {})


def rows(position: int, *blocks: Block) -> list[Any]:
    """Rows of these blocks, after a position."""
    return [FakeRow(position + place, one) for place, one in enumerate(blocks, 1)]


def said(session: Any) -> list[Any]:
    result = []
    while (message := session.next_message()) is not None:
        result.append(message)
    return result


# ---- Receiver


def test_blocks_are_handed_out_up_to_a_header_not_covered() -> None:
    receiver = open_receiver(frozenset({3}))
    receiver.received(m.Batch([block(2, 1), header(3, 1), block(2, 2)]))
    assert [one.last for one in receiver.take({}, 1000, 0)] == [1]
    assert not receiver.ready
    assert receiver.take({2: 1}, 1000, 100) == []
    assert [one.last for one in receiver.take({2: 1, 3: 1}, 1000, 150)] == [2]
    assert not receiver.ready


def test_a_turn_is_bounded_but_never_empty() -> None:
    receiver = open_receiver()
    receiver.received(m.Batch([block(2, 1, 100), block(2, 2, 100), block(2, 3, 100)]))
    assert len(receiver.take({}, 10, 0)) == 1
    assert len(receiver.take({2: 1}, 200, 0)) == 2


def test_bodies_are_asked_for_after_patience_and_once() -> None:
    receiver = open_receiver(frozenset({3}), crdt_body_patience_ms=200)
    receiver.received(m.Batch([header(3, 1), header(3, 2), header(2, 1)]))
    receiver.take({}, 1000, 1000)
    receiver.tick(1199)
    assert said(receiver) == []
    receiver.tick(1200)
    receiver.tick(1300)
    # The origin is late: its other header is asked for with it. Region 2's header, too: nobody
    # receives region 2 directly here.
    assert [message.dots for message in said(receiver)] == [[(3, 1), (3, 2), (2, 1)]]
    receiver.received(m.Body(block(3, 1)))
    assert receiver.ready
    assert [one.last for one in receiver.take({}, 1000, 1400)] == [1]
    receiver.received(m.Body(block(3, 2)))
    receiver.received(m.Body(block(2, 1)))
    assert [(one.origin, one.last) for one in receiver.take({3: 1}, 1000, 1400)] == [(3, 2), (2, 1)]
    assert receiver._bodies == {} and receiver._asked == {}


def test_a_body_is_not_asked_for_twice_nor_once_its_effects_are_here() -> None:
    receiver = open_receiver(frozenset({4}), crdt_body_patience_ms=200)
    receiver.received(m.Batch([header(3, 1), header(4, 1), header(3, 2)]))
    receiver.take({}, 1000, 0)
    receiver.tick(0)
    assert [message.dots for message in said(receiver)] == [[(3, 1), (3, 2)]]
    receiver.received(m.Body(block(3, 1)))
    receiver.take({}, 1000, 0)
    receiver.take({3: 1}, 1000, 0)
    assert receiver.stuck_at == (4, 1)
    receiver.tick(200)
    assert [message.dots for message in said(receiver)] == [[(4, 1)]], "3:2 is on its way"


def test_no_body_is_asked_for_that_another_link_brought_before_the_tick() -> None:
    """The effect is on disk here, and the blocks that wait were not looked at since."""
    receiver = open_receiver()
    receiver.received(m.Batch([header(3, 1)]))
    receiver.take({}, 1000, 0)
    receiver.acknowledge({3: 1}, frozenset(), None)
    receiver.tick(0)
    assert [type(message) for message in said(receiver)] == [m.VectorAcknowledgement]


def test_a_body_that_came_too_late_is_not_kept() -> None:
    receiver = open_receiver()
    receiver.received(m.Batch([header(3, 1)]))
    receiver.take({}, 1000, 0)
    receiver.tick(0)
    receiver.take({3: 1}, 1000, 1)
    assert receiver._asked == {}, "who has not got it may never answer"
    receiver.received(m.Body(block(3, 1)))
    assert receiver._bodies == {} and receiver._asked == {}


def test_a_body_that_another_link_made_superfluous_is_not_kept() -> None:
    receiver = open_receiver()
    receiver.received(m.Batch([header(3, 1)]))
    receiver.take({}, 1000, 0)
    receiver.tick(0)
    receiver.received(m.Body(block(3, 1)))
    assert receiver.take({3: 1}, 1000, 1) == []
    assert receiver._bodies == {}


def test_more_than_the_window_is_an_error_what_others_brought_does_not_count() -> None:
    receiver = open_receiver(crdt_window_max_bytes=1000)
    receiver.received(m.Batch([header(3, 1)]))
    receiver.received(m.Batch([block(2, 1, 300), block(2, 2, 300)]))
    with pytest.raises(PeerError, match="window"):
        receiver.received(m.Batch([block(2, 3, 300)]))
    receiver.acknowledge({2: 2}, frozenset(), None)
    receiver.received(m.Batch([block(2, 3, 300)]))


@pytest.mark.parametrize(
    "message",
    [
        m.Batch([block(2, 1)]),
        m.Heartbeat({}, b""),
        m.BlockPart(2, 1, 1, CHAIN, 10, 0, b"x", False),
        m.HoldingBack(True, {}),
        m.SnapshotChunk(1, 0, b""),
        m.VectorAcknowledgement({}, frozenset()),
        StartQuestion(1, {}),
        StartAnswer(1, 1, {}, 0, {}),
    ],
)
def test_nothing_comes_before_welcome(message: Any) -> None:
    with pytest.raises(PeerError):
        Receiver(2, limits()).received(message)


@pytest.mark.parametrize(
    "messages",
    [
        [welcome()],
        [m.Body(block(3, 1))],
        [m.BlockPart(2, 1, 1, CHAIN, 10, 0, b"x", True)],
        [m.BlockPart(2, 1, 1, CHAIN, 10, 5, b"x", False)],
        [
            m.BlockPart(2, 1, 1, CHAIN, 10, 0, b"x", False),
            m.BlockPart(2, 2, 2, CHAIN, 10, 1, b"x", False),
        ],
        [m.BlockPart(2, 1, 1, CHAIN, 1 << 50, 0, b"x", False)],
        [m.SnapshotRequest(1)],
    ],
)
def test_what_breaks_the_protocol(messages: list[Any]) -> None:
    receiver = open_receiver()
    with pytest.raises(PeerError):
        for message in messages:
            receiver.received(message)


def test_parts_become_a_block() -> None:
    receiver = open_receiver()
    for offset, data in ((0, b"abc"), (3, b"def"), (6, b"g")):
        receiver.received(m.BlockPart(2, 1, 4, CHAIN, 7, offset, data, False))
    assert [(one.first, one.last, one.body) for one in receiver.take({}, 100, 0)] == [
        (1, 4, b"abcdefg")
    ]


def test_a_snapshot_is_staged_whole() -> None:
    receiver = open_receiver()
    receiver.ask_snapshot(7)
    receiver.received(m.SnapshotBegin(6, {2: 1}, {}))  # of a request before
    receiver.received(m.SnapshotChunk(6, 0, b"old"))
    receiver.received(m.SnapshotBegin(7, {2: 9}, {}))
    receiver.received(m.SnapshotChunk(7, 0, b"one"))
    receiver.received(m.SnapshotChunk(7, 1, b"two"))
    (staged,) = receiver.received(m.SnapshotEnd(7, 2))
    assert (
        isinstance(staged, Staged) and staged.chunks == [b"one", b"two"] and staged.vector == {2: 9}
    )


@pytest.mark.parametrize(
    "messages",
    [
        [m.SnapshotChunk(7, 0, b"x")],
        [m.SnapshotBegin(7, {}, {}), m.SnapshotChunk(7, 1, b"x")],
        [m.SnapshotBegin(7, {}, {}), m.SnapshotEnd(7, 1)],
        [m.SnapshotBegin(7, {}, {}), m.SnapshotChunk(7, 0, bytes(101))],
    ],
)
def test_a_snapshot_that_does_not_add_up(messages: list[Any]) -> None:
    receiver = open_receiver(crdt_snapshot_max_bytes=100)
    receiver.ask_snapshot(7)
    with pytest.raises(PeerError):
        for message in messages:
            receiver.received(message)


def test_only_the_newest_acknowledgement_waits_and_gossip_is_not_lost() -> None:
    receiver = open_receiver()
    gossip = Gossip([], [], [])
    receiver.acknowledge({1: 1}, frozenset(), gossip)
    receiver.acknowledge({1: 2}, frozenset({3}), None)
    (message,) = said(receiver)
    assert message.vector == {1: 2} and message.direct == {3} and message.gossip is gossip


# ---- Sender


def test_ships_in_log_order_skips_what_the_peer_has() -> None:
    sender = open_sender({1: 1}, frozenset({3}))
    feed(sender, block(1, 1), block(3, 1), block(1, 2), block(4, 1))
    (batch,) = said(sender)
    assert [(type(item).__name__, item.origin, item.last) for item in batch.items] == [
        ("Header", 3, 1),
        ("Block", 1, 2),
        ("Block", 4, 1),
    ]
    sender.received(m.VectorAcknowledgement({1: 2, 3: 1, 4: 1}, frozenset()))
    assert sender.unacknowledged.bytes == 0


def test_the_window_of_the_narrower_side_counts() -> None:
    sender = open_sender(window=500, crdt_window_max_bytes=10_000)
    feed(sender, *[block(1, number, 100) for number in range(1, 11)])
    assert sum(len(message.items) for message in said(sender)) == 2
    assert sender.request() is None
    sender.received(m.VectorAcknowledgement({1: 1}, frozenset()))
    assert sum(len(message.items) for message in said(sender)) == 1


def test_a_batch_is_bounded_and_a_larger_block_is_cut() -> None:
    sender = open_sender(crdt_batch_max_bytes=600)
    feed(sender, block(1, 1, 300), block(1, 2, 300), block(1, 3, 1500), block(1, 4, 10))
    kinds = [
        (type(message).__name__, len(getattr(message, "items", []))) for message in said(sender)
    ]
    assert kinds == [
        ("Batch", 1),
        ("Batch", 1),
        ("BlockPart", 0),
        ("BlockPart", 0),
        ("BlockPart", 0),
        ("Batch", 1),
    ]


def test_blocks_before_one_that_is_cut_go_out_first() -> None:
    sender = open_sender(crdt_batch_max_bytes=600)
    feed(sender, block(1, 1, 10), block(1, 2, 1500))
    first, *parts = said(sender)
    assert [item.last for item in first.items] == [1]
    assert [(part.last, part.offset) for part in parts] == [(2, 0), (2, 600), (2, 1200)]


def test_blocks_before_a_gap_go_out_first() -> None:
    sender = open_sender()
    feed(sender, block(1, 1), block(1, 4))
    first, second = said(sender)
    assert isinstance(first, m.Batch) and [item.last for item in first.items] == [1]
    assert second == m.HoldingBack(True, {1: 3})


def test_a_message_of_a_sender_is_refused_by_a_sender() -> None:
    sender = open_sender()
    with pytest.raises(PeerError, match="Heartbeat is not a message of a dialler"):
        sender.received(m.Heartbeat({}, b""))


def test_a_gap_in_the_log_is_never_shipped() -> None:
    """The peer is told of effects that are in no block, so that it asks for a snapshot."""
    sender = open_sender()
    feed(sender, block(1, 1))
    assert isinstance(sender.next_message(), m.Batch)
    feed(sender, block(1, 4))
    assert sender.next_message() == m.HoldingBack(True, {1: 3})
    assert sender.take_gap() == (1, 2, 3) and sender.take_gap() is None
    assert sender.next_message() is None


def test_a_peer_that_stands_within_a_block_has_another_history() -> None:
    sender = open_sender({1: 2})
    request = sender.request()
    assert isinstance(request, ReadLog)
    sender.rows_read(request, rows(0, Block(1, 1, 4, b"x", CHAIN)), {})
    with pytest.raises(m.LinkRefused) as caught:
        sender.next_message()
    assert caught.value.reason == "forked"


def test_an_acknowledged_vector_never_goes_back() -> None:
    sender = open_sender({1: 2})
    with pytest.raises(PeerError, match="went back"):
        sender.received(m.VectorAcknowledgement({1: 1}, frozenset()))


def test_holds_back_once_and_looks_again_when_the_peer_has_more() -> None:
    tail = LogTail(POSITION, {}, WHOLE_TAIL)
    sender = open_sender(tail=tail)
    request = sender.request()
    assert isinstance(request, ReadLog)
    tail.raise_floor({1: 9})  # meanwhile retention has cut the log off
    sender.rows_read(request, rows(8, block(1, 10)), {1: 10})
    assert [(message.holding, message.vector) for message in said(sender)] == [(True, {1: 10})]
    assert sender.request() is None
    sender.received(m.VectorAcknowledgement({}, frozenset()))
    assert sender.request() is None
    sender.received(m.VectorAcknowledgement({1: 5}, frozenset()))
    again = sender.request()
    assert again == Locate({1: 5}, POSITION)
    sender.located(again, 5, {1: 10})
    assert said(sender) == []
    sender.received(m.VectorAcknowledgement({1: 9}, frozenset()))
    again = sender.request()
    assert again == Locate({1: 9}, POSITION)
    sender.located(again, 9, {1: 10})
    assert [message.holding for message in said(sender)] == [False]


def test_a_log_cut_off_while_the_place_was_looked_up_holds_back() -> None:
    tail = LogTail(POSITION, {}, WHOLE_TAIL)
    sender = Sender(1, limits(), tail)
    sender.received(m.Hello(m.VERSION, "c", {}, 2, "eu", 1, 1, {}, {}, frozenset(), 1000))
    sender.welcome(welcome())
    request = sender.request()
    assert isinstance(request, Locate)
    tail.raise_floor({1: 1})
    sender.located(request, 0, {1: 5})
    held = [message for message in said(sender) if isinstance(message, m.HoldingBack)]
    assert [(message.holding, message.vector) for message in held] == [(True, {1: 5})]


def test_a_body_whose_block_is_gone_is_a_log_too_short() -> None:
    sender = open_sender()
    feed(sender)
    sender.received(m.BodyRequest([(3, 1), (3, 2)]))
    assert sender.request() == ReadBlock(3, 1)
    sender.block_read(block(3, 1), {})
    assert [type(message) for message in said(sender)] == [m.Body]
    assert sender.request() == ReadBlock(3, 2)
    sender.block_read(None, {})
    assert [message.holding for message in said(sender)] == [True]


def test_bodies_that_the_log_lacked_are_sent_when_it_reaches_back_again() -> None:
    """Seed 1101878: a body that was asked for once, and never sent.

    A peer asked for six bodies; the log had lost the first, and all six were given up. The peer got
    that one elsewhere, and was shipped to again, but never the last, which was here: it had asked
    for it, and does so once. Its origin was gone for good.
    """
    sender = open_sender()
    feed(sender, block(3, 1), block(3, 2), block(3, 3))
    said(sender)
    sender.received(m.BodyRequest([(3, 1), (3, 2), (3, 3)]))
    assert sender.request() == ReadBlock(3, 1)
    sender.block_read(None, {3: 3})
    sender.received(m.VectorAcknowledgement({3: 2}, frozenset()))
    request = sender.request()
    assert request == Locate({3: 2}, POSITION)
    sender.located(request, 2, {3: 3})
    assert sender.request() == ReadBlock(3, 3), "the second, too, came elsewhere"
    sender.block_read(block(3, 3), {})
    assert [type(message) for message in said(sender)] == [m.HoldingBack, m.HoldingBack, m.Body]


def test_a_body_that_is_gone_is_no_matter_to_a_peer_that_has_it() -> None:
    sender = open_sender()
    feed(sender)
    sender.received(m.BodyRequest([(3, 1), (3, 2)]))
    sender.request()
    sender.received(m.VectorAcknowledgement({3: 1}, frozenset()))
    sender.block_read(None, {3: 2})
    assert not sender.holding_back and said(sender) == []
    assert sender.request() == ReadBlock(3, 2)


def test_requests_that_the_log_cannot_answer_are_bounded() -> None:
    sender = open_sender()
    with pytest.raises(PeerError, match="too many"):
        for _ in range(3):
            sender.received(m.BodyRequest([(3, 1)] * 256))
            sender.request()
            sender.block_read(None, {3: 1})


def test_requests_for_bodies_are_bounded() -> None:
    sender = open_sender()
    with pytest.raises(PeerError, match="too many"):
        for _ in range(3):
            sender.received(m.BodyRequest([(3, 1)] * 256))


def test_an_empty_read_counts_only_up_to_where_the_log_stood_when_it_began() -> None:
    tail = LogTail(POSITION, {}, 1)
    sender = open_sender(tail=tail)
    request = sender.request()
    assert isinstance(request, ReadLog) and request.committed == POSITION
    for row in rows(POSITION, block(1, 1), block(1, 2)):
        tail.append(row)
    tail.committed(POSITION + 2)
    sender.rows_read(request, [], {})
    assert said(sender) == [], "the first of the two is not in memory any more"
    again = sender.request()
    assert isinstance(again, ReadLog)
    assert (again.position, again.committed) == (POSITION, POSITION + 2)


def test_rows_at_hand_are_taken_only_when_all_before_was_shipped() -> None:
    tail = LogTail(POSITION, {}, WHOLE_TAIL)
    sender = open_sender(tail=tail)
    for row in rows(POSITION, block(1, 3), block(1, 4)):
        tail.append(row)
    tail.committed(POSITION + 2)
    assert said(sender) == [], "what is before them is on the disk alone"
    request = sender.request()
    assert isinstance(request, ReadLog) and request.position == 0
    sender.rows_read(request, rows(POSITION - 2, block(1, 1), block(1, 2)), {})
    assert [item.last for message in said(sender) for item in message.items] == [1, 2, 3, 4]
    assert sender.request() is None


def test_messages_before_the_handshake_is_over() -> None:
    for message in (
        m.VectorAcknowledgement({}, frozenset()),
        m.BodyRequest([(1, 1)]),
        m.SnapshotRequest(1),
        StartQuestion(1, {}),
        StartAnswer(1, 1, {}, 0, {}),
    ):
        with pytest.raises(PeerError):
            Sender(1, limits(), LogTail(0, {}, 1)).received(message)


# ---- Puller and link


def test_the_puller_waits_patience_from_the_last_step_nearer() -> None:
    puller = Puller()
    puller.holds_back(2, {1: 10}, 0)
    assert puller.decide({3: 1}, 0, 500) is None
    assert puller.decide({3: 1, 1: 4}, 400, 500) is None
    assert puller.decide({3: 9, 1: 4}, 800, 500) is None
    assert puller.decide({3: 9, 1: 4}, 900, 500) == 2
    assert puller.decide({3: 9, 1: 4}, 5000, 500) is None  # one at a time


def test_the_puller_gives_up_a_pull_that_stands_still() -> None:
    puller = Puller()
    puller.holds_back(2, {1: 10}, 0)
    puller.holds_back(3, {1: 10}, 0)
    assert puller.decide({}, 0, 500) == 2
    puller.progress(1000)
    assert puller.stalled(3000, 500) is None
    assert puller.stalled(3001, 500) == 2
    puller.closed(2)
    assert puller.decide({}, 3001, 500) == 3


def test_back_off_doubles_up_to_its_limit() -> None:
    link = Link(2, 50, 1000, 0)
    pauses = []
    now_ms = 0
    for _ in range(7):
        link.back_off(now_ms)
        start_ms = now_ms
        while not link.dial_due(now_ms):
            now_ms += 1
        pauses.append(now_ms - start_ms)
    assert pauses == [50, 100, 200, 400, 800, 1000, 1000]


def test_when_a_delay_ends_nothing_overtakes_what_was_held() -> None:
    link = HeldMessages()
    first, second = m.Heartbeat({1: 1}, b""), m.Heartbeat({1: 2}, b"")
    link.delay_ms = 100
    assert link.hold(first, 0)
    assert link.due(99) is None
    link.delay_ms = 0
    assert link.hold(second, 50)
    assert link.due(50) is first and link.due(50) is second
    assert not link.hold(first, 51)


def beat(counter: int) -> m.Heartbeat:
    return m.Heartbeat({1: counter}, b"")


def test_a_limit_lets_messages_through_in_order_at_its_pace() -> None:
    held = HeldMessages()
    first, second = beat(1), beat(2)
    size = len(encode_down(first, "none"))
    held.limit_bytes_s = size * 10  # one message takes 100 ms
    assert held.hold(first, 0) and held.hold(second, 0)
    assert held.size == 2 * size
    assert held.due(99) is None
    assert held.due(100) is first
    assert held.due(199) is None
    assert held.due(200) is second
    assert held.size == 0 and not held
    # A pause is not saved up for later messages.
    assert held.hold(first, 1000)
    assert held.due(1099) is None and held.due(1100) is first


def test_a_limit_and_a_delay_add_up() -> None:
    held = HeldMessages()
    first, second = beat(1), beat(2)
    held.limit_bytes_s = len(encode_down(first, "none")) * 10
    held.delay_ms = 1000
    assert held.hold(first, 0) and held.hold(second, 0)
    assert held.due(1099) is None and held.due(1100) is first
    assert held.due(1199) is None and held.due(1200) is second


def test_messages_that_wait_follow_a_new_limit() -> None:
    """A limit that was too low by mistake must not hold the link once it is raised or ended."""
    held = HeldMessages()
    first, second, third = beat(1), beat(2), beat(3)
    held.limit_bytes_s = 1
    assert held.hold(first, 0) and held.hold(second, 0)
    assert held.due(500) is None
    held.limit_bytes_s = 0
    assert held.hold(third, 500)
    assert [held.due(500), held.due(500), held.due(500)] == [first, second, third]
    assert not held.hold(first, 501)


@pytest.mark.parametrize("count, full", [(FULL_MESSAGES - 1, False), (FULL_MESSAGES, True)])
def test_a_limited_link_that_is_full_reads_no_further(count: int, full: bool) -> None:
    """Heartbeats come five times a second, whatever the window allows: they must not pile up."""
    held = HeldMessages()
    held.limit_bytes_s = 1
    for number in range(count):
        assert held.hold(beat(number + 1), 0)
    assert held.is_full == full
    held.limit_bytes_s = 0
    assert not held.is_full


def test_a_limited_link_is_full_by_bytes_too() -> None:
    held = HeldMessages()
    held.limit_bytes_s = 1000
    chunk = m.SnapshotChunk(1, 0, b"x" * (FULL_BYTES // 2))
    assert held.hold(chunk, 0) and not held.is_full
    assert held.hold(chunk, 0) and held.is_full
    held.clear()
    assert not held.is_full and not held and held.size == 0
