"""One link that a peer dialled, over which this region sends (S2). Sans-IO.

In: messages of the peer, answers of the log, commits. Out: messages down (`next_message`),
questions to the log (`request`), events for the hub (`received`).

The sender keeps a cursor in the positions of the log (`log_reader`). It ships committed rows in log
order and skips, by vector, the blocks that the peer has or was sent. A block leaves the window when
the peer has it on disk. A message is made only when the transport is ready to take it. So a slow
peer costs the memory of one batch of rows, and a peer that is gone costs none.

When the log does not reach back to the vector that the peer was sent, the sender holds back until
the vector on the peer's disk grows. So it does where effects are missing in the midst of the log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final, Optional, Union

from anabranch.crdt.block import Block
from anabranch.crdt.errors import PeerError
from anabranch.crdt.gossip import StartAnswer, StartQuestion
from anabranch.crdt.vector import Vector, includes, raise_to
from anabranch.sync.session import messages as m
from anabranch.sync.session.bodies import Bodies, parts_of
from anabranch.sync.session.handshake import LinkLimits
from anabranch.sync.session.interfaces import LogRow
from anabranch.sync.session.log_reader import LogReader
from anabranch.sync.session.log_requests import Locate, ReadLog, Request
from anabranch.sync.session.log_tail import LogTail

SenderEvent = Union[
    m.Hello, m.VectorAcknowledgement, m.SnapshotRequest, m.Refusal, StartQuestion, StartAnswer
]


class Unacknowledged:
    """The bytes sent that the peer is not known to have on disk.

    They are kept by origin, because the peer acknowledges blocks of different origins in any order.
    """

    def __init__(self) -> None:
        self.bytes = 0
        # origin → (last, charge), ascending.
        self._sent: dict[int, deque[tuple[int, int]]] = {}

    def add(self, origin: int, last: int, charge: int) -> None:
        self._sent.setdefault(origin, deque()).append((last, charge))
        self.bytes += charge

    def covered(self, vector: Vector) -> None:
        for origin, sent in self._sent.items():
            counter = vector.get(origin, 0)
            while sent and sent[0][0] <= counter:
                self.bytes -= sent.popleft()[1]


class Sender:
    """State machine of one accepted link.

    Each connection has its own, so no state of a former connection survives (S2.2). `acknowledged`
    is the vector on the peer's disk. `_sent` covers that vector and the blocks that the peer was
    sent.
    """

    def __init__(self, own: int, limits: LinkLimits, tail: LogTail) -> None:
        self.own: Final = own
        self.limits: Final = limits
        self.log: Final = LogReader(tail, limits.batch_bytes)
        self.unacknowledged: Final = Unacknowledged()
        self.hello: Optional[m.Hello] = None
        self.open = False
        self.holding_back = False
        self._gap: Optional[tuple[int, int, int]] = None
        self.acknowledged: Vector = {}
        self._sent: Vector = {}
        self._direct: frozenset[int] = frozenset()
        self._peer_has_own = False
        self._window = limits.window_bytes
        self._out: deque[m.Down] = deque()
        # The newest heartbeat only.
        self._heartbeat: Optional[m.Heartbeat] = None
        self._parts: Optional[Iterator[m.BlockPart]] = None
        self._bodies: Final = Bodies(limits.batch_bytes)
        self._snapshot: Optional[Iterator[m.Down]] = None

    # -- receiving

    def received(self, message: m.Message) -> list[SenderEvent]:
        """Takes one message of the peer; PeerError when it breaks the protocol."""
        if isinstance(message, m.Refusal):
            return [message]
        if isinstance(message, m.Hello):
            if self.hello is not None:
                raise PeerError("a second Hello")
            self.hello = message
            return [message]
        if not self.open:
            raise PeerError(f"{type(message).__name__} before the handshake was over")
        if isinstance(message, m.VectorAcknowledgement):
            self._acknowledge(message)
            return [message]
        if isinstance(message, m.BodyRequest):
            self._bodies.ask(message.dots, 2 * m.DOTS_MAX)
            return []
        if isinstance(message, (m.SnapshotRequest, StartQuestion, StartAnswer)):
            return [message]
        raise PeerError(f"{type(message).__name__} is not a message of a dialler")

    def _acknowledge(self, message: m.VectorAcknowledgement) -> None:
        if not includes(message.vector, self.acknowledged):
            raise PeerError("an acknowledged vector went back")
        grown = message.vector != self.acknowledged
        self.acknowledged = dict(message.vector)
        self._direct = message.direct
        raise_to(self._sent, message.vector)
        self.unacknowledged.covered(message.vector)
        if grown and self.holding_back:
            self.log.locate()

    # -- calls of the hub

    def welcome(self, welcome: m.Welcome) -> None:
        """Opens the link. The Hello is accepted, the chains agree, and `welcome` is on disk."""
        assert self.hello is not None
        self.open = True
        self.acknowledged = dict(self.hello.vector)
        self._sent = dict(self.hello.vector)
        self._direct = self.hello.direct
        # The peer has its own blocks, unless a restore took some of them. Then it needs their
        # bodies, not headers.
        self._peer_has_own = self.hello.vector.get(self._peer, 0) >= welcome.vector.get(
            self._peer, 0
        )
        self._window = min(self._window, self.hello.window_bytes)
        self.log.locate()
        self._out.append(welcome)

    def refuse(self, refusal: m.Refusal) -> None:
        """Queues the last message and drops all other waiting messages."""
        self.open = False
        self._out.clear()
        self._heartbeat = self._parts = self._snapshot = None
        self.log.leave()
        self._bodies.drop()
        self._out.append(refusal)

    def queue(self, message: Union[StartQuestion, StartAnswer]) -> None:
        """Queues a question or an answer of a start (S13.6)."""
        self._out.append(message)

    def say_stop(self, disk_vector: Vector) -> None:
        """Queues the heartbeat that says that this region stops."""
        self._out.append(m.Heartbeat(dict(disk_vector), b"", stops=True))

    def say_double(self, disk_vector: Vector, text: str) -> None:
        """Queues the heartbeat that tells the peer of another process that runs as its region."""
        self._out.append(m.Heartbeat(dict(disk_vector), b"", double=text))

    def heartbeat(self, message: m.Heartbeat) -> None:
        """Queues a heartbeat; it replaces one that was not sent yet."""
        self._heartbeat = message

    # -- questions to the log

    def request(self) -> Optional[Request]:
        """Returns the next question to the log; None when there is none now."""
        if not self.open:
            return None
        body = self._bodies.request()
        if body is not None:
            return body
        # While the sender holds back, the peer may wait at a header whose body is gone here. The
        # peer then needs every block that is not on its disk, not only those that were not sent.
        lacking = self.acknowledged if self.holding_back else self._sent
        has_room = not self.holding_back and self.unacknowledged.bytes < self._window
        return self.log.request(lacking, self._sent, has_room)

    def located(self, request: Locate, position: Optional[int], disk_vector: Vector) -> None:
        """Takes the answer to Locate."""
        if not self.log.located(request, position):
            self._hold_back(disk_vector)
        elif self.holding_back:
            self.holding_back = False
            self._out.append(m.HoldingBack(False, dict(disk_vector)))
            self._bodies.ask_again(self.acknowledged)

    def rows_read(self, request: ReadLog, rows: Sequence[LogRow], disk_vector: Vector) -> None:
        """Takes the answer to ReadLog."""
        if not self.log.rows_read(request, rows):
            self._hold_back(disk_vector)

    def block_read(self, block: Optional[Block], disk_vector: Vector) -> None:
        """Takes the answer to ReadBlock.

        A peer that waits for a body that is gone cannot go on: the log is too short for that peer.
        """
        if not self._bodies.answered(block, self.acknowledged):
            self._hold_back(disk_vector)

    def _hold_back(self, disk_vector: Vector) -> None:
        self.log.leave()
        if not self.holding_back:
            self.holding_back = True
            self._out.append(m.HoldingBack(True, dict(disk_vector)))

    def _hold_back_at_gap(self, block: Block) -> m.HoldingBack:
        """The effects before a block are in no block of this log (S13.10).

        A snapshot has what became of them. The vector told covers them, so that the peer asks for
        one.
        """
        missing = {block.origin: block.first - 1}
        self._gap = (block.origin, self._sent.get(block.origin, 0) + 1, block.first - 1)
        self.log.misses(missing)
        self.holding_back = True
        covered = dict(self._sent)
        raise_to(covered, missing)
        return m.HoldingBack(True, covered)

    def take_gap(self) -> Optional[tuple[int, int, int]]:
        """Returns (origin, first, last) of effects found missing since the last call, if any."""
        gap, self._gap = self._gap, None
        return gap

    # -- snapshots

    def send_snapshot(
        self, number: int, vector: Vector, chains: dict[int, bytes], chunks: Iterator[bytes]
    ) -> None:
        """Sends a cut that is on disk (S11.2). Each chunk is made when the transport has room."""

        def run() -> Iterator[m.Down]:
            yield m.SnapshotBegin(number, dict(vector), dict(chains))
            count = 0
            for count, data in enumerate(chunks, 1):
                yield m.SnapshotChunk(number, count - 1, data)
            yield m.SnapshotEnd(number, count)

        self._snapshot = run()

    @property
    def sending_snapshot(self) -> bool:
        return self._snapshot is not None

    # -- sending

    def next_message(self) -> Optional[m.Down]:
        """Returns the next message to send; None when no message waits or the window is full."""
        if self._out:
            return self._out.popleft()
        if not self.open:
            return None
        if self._heartbeat is not None:
            beat, self._heartbeat = self._heartbeat, None
            return beat
        return self._bodies.next_message() or self._next_batch() or self._next_snapshot()

    def _next_snapshot(self) -> Optional[m.Down]:
        if self._snapshot is None:
            return None
        message = next(self._snapshot, None)
        if message is None:
            self._snapshot = None
        return message

    def _next_batch(self) -> Optional[m.Down]:
        if self._parts is not None:
            part = next(self._parts, None)
            if part is not None:
                return part
            self._parts = None
        items: list[m.Item] = []
        size = 0
        while not self.holding_back and (row := self.log.next_row()) is not None:
            if row.block.first > self._sent.get(row.block.origin, 0) + 1:
                if items:
                    break
                return self._hold_back_at_gap(row.block)
            item = self._item(row.block)
            if item is None:
                self.log.step()
                continue
            charge = m.charge_of(item)
            # A block larger than the window goes out when no other block is unacknowledged.
            # Otherwise the link would stop for ever.
            if self.unacknowledged.bytes and self.unacknowledged.bytes + charge > self._window:
                break
            if items and size + charge > self.limits.batch_bytes:
                break
            self.log.step()
            self._sent[item.origin] = item.last
            self.unacknowledged.add(item.origin, item.last, charge)
            if isinstance(item, Block) and len(item.body) > self.limits.batch_bytes:
                # It is the first item: no other fits into a message with it.
                self._parts = parts_of(item, self.limits.batch_bytes, asked=False)
                return next(self._parts)
            items.append(item)
            size += charge
        return m.Batch(items) if items else None

    def _item(self, block: Block) -> Optional[m.Item]:
        """Returns the block, or its header if the peer gets the block directly from its origin.

        Returns None if the peer has the block or was sent it. Raises LinkRefused when the peer
        stands within the block.
        """
        sent = self._sent.get(block.origin, 0)
        if block.last <= sent:
            return None
        if block.first <= sent:
            raise m.LinkRefused(
                "forked",
                f"the peer holds effects of region {block.origin} up to {sent}, inside a block "
                f"that begins at {block.first}",
            )
        if block.origin != self.own and (
            block.origin in self._direct or (self._peer_has_own and block.origin == self._peer)
        ):
            return m.Header(block.origin, block.first, block.last, block.chain, len(block.body))
        return block

    @property
    def _peer(self) -> int:
        return self.hello.region_id if self.hello is not None else 0
