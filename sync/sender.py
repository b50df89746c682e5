"""One link that a peer dialled: this region sends (S2). Sans-IO.

In: messages of the peer, answers to what it asked of the log, commits. Out: messages down (`next_message`), questions to the log
(`request`), events for the hub (`received`).

Its place is a cursor in the log's positions. Committed rows are read in batches, and shipped in log order; blocks that the peer has, or was
sent, are skipped by vector. Only what the peer has on disk leaves the window. Messages are made when the carrier is ready to
take one, so that a slow peer costs one batch of rows and nothing more; one that is gone costs nothing.

The log may be truncated at any time, by retention or by a snapshot that this region joined (S11.2). So each read is checked
against what the peer was sent; when the log does not reach back to that, the sender holds back until the peer's vector grows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Optional, Union

from anabranch.crdt.block import Block
from anabranch.crdt.errors import PeerError
from anabranch.crdt.vector import Dot, Vector, covers, includes, raise_to
from anabranch.sync import messages as m
from anabranch.sync.codec import DOTS_MAX
from anabranch.sync.doors import Row
from anabranch.sync.handshake import Limits


@dataclass(frozen=True)
class Locate:
    """A position after which lies every block that `vector` lacks? None: the log does not reach back."""

    vector: Vector


@dataclass(frozen=True)
class ReadLog:
    """Committed rows after `position`, about `bytes_max` of them; None when, after the read, the log no longer reached back to `vector`.

    The read begins when the log is committed up to `committed`, or later: no rows then means none up to there.
    """

    position: int
    committed: int
    bytes_max: int
    vector: Vector


@dataclass(frozen=True)
class ReadBlock:
    """The block that holds a dot; None when the log has it no longer."""

    origin: int
    counter: int


@dataclass(frozen=True)
class CheckChains:
    """The first of the regions in `chains` whose chain value at `vector` differs from this log's, 0 for none (S13.5).

    What the log does not know counts as equal.
    """

    vector: Vector
    chains: dict[int, bytes]


Request = Union[Locate, ReadLog, ReadBlock, CheckChains]
Event = Union[m.Hello, m.Acknowledge, m.SnapshotRequest, m.Refusal]


class Unacknowledged:
    """Bytes sent that the peer is not known to have on disk, by origin: links bring them in different orders."""

    def __init__(self) -> None:
        self.bytes = 0
        self._sent: dict[int, deque[tuple[int, int]]] = {}  # origin → (last, charge), ascending

    def add(self, origin: int, last: int, charge: int) -> None:
        self._sent.setdefault(origin, deque()).append((last, charge))
        self.bytes += charge

    def covered(self, vector: Vector) -> None:
        for origin, sent in self._sent.items():
            counter = vector.get(origin, 0)
            while sent and sent[0][0] <= counter:
                self.bytes -= sent.popleft()[1]


class Sender:
    """State machine of one accepted link. A connection has its own: nothing of a former one survives (S2.2).

    `acknowledged` is what the peer has on disk, `_sent` what it was sent beside.
    """

    def __init__(self, own: int, limits: Limits) -> None:
        self.own = own
        self.limits = limits
        self.hello: Optional[m.Hello] = None
        self.open = False
        self.holding_back = False
        self.acknowledged: Vector = {}
        self.cursor = 0  # position up to which the log was read
        self.unacknowledged = Unacknowledged()
        self._direct: frozenset[int] = frozenset()
        self._peer_has_own = False
        self._sent: Vector = {}
        self._known = 0  # position up to which the log is committed
        self._located = False
        self._asking: Optional[Request] = None  # at most one question about the order at a time
        self._locate_again = False
        self._rows: deque[Row] = deque()
        self._parts: Optional[Iterator[m.Part]] = None
        self._window = limits.window_bytes
        self._out: deque[m.Down] = deque()
        self._heartbeat: Optional[m.Heartbeat] = None  # the newest only
        self._dots: deque[Dot] = deque()  # bodies asked for
        self._unanswered: deque[Dot] = (
            deque()
        )  # of those, what the log did not hold; the peer does not ask again
        self._reading_body: Optional[ReadBlock] = None
        self._body: Optional[Block] = None
        self._body_parts: Optional[Iterator[m.Part]] = None
        self._snapshot: Optional[Iterator[m.Down]] = None

    # ---- What is heard

    def received(self, message: m.Message) -> list[Event]:
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
        if isinstance(message, m.Acknowledge):
            self._acknowledge(message)
            return [message]
        if isinstance(message, m.BodyRequest):
            if len(self._dots) + len(self._unanswered) + len(message.dots) > 2 * DOTS_MAX:
                raise PeerError("too many bodies asked for at once")
            self._dots.extend(message.dots)
            return []
        if isinstance(message, m.SnapshotRequest):
            return [message]
        raise PeerError(f"{type(message).__name__} came up")

    def _acknowledge(self, message: m.Acknowledge) -> None:
        if not includes(message.vector, self.acknowledged):
            raise PeerError("an acknowledged vector went back")
        grown = message.vector != self.acknowledged
        self.acknowledged = dict(message.vector)
        self._direct = message.direct
        raise_to(self._sent, message.vector)
        self.unacknowledged.covered(message.vector)
        if grown and self.holding_back:
            self._locate_again = True

    # ---- What is told by this region

    def welcome(self, welcome: m.Welcome, position: int) -> None:
        """Opens: the Hello was taken, its chains fit, `welcome` is on disk, and so is the log up to `position`."""
        assert self.hello is not None
        self.open = True
        self.acknowledged = dict(self.hello.vector)
        self._sent = dict(self.hello.vector)
        self._direct = self.hello.direct
        # Its own blocks the peer has, unless a restore took some of them: then it needs them whole.
        self._peer_has_own = self.hello.vector.get(self._peer, 0) >= welcome.vector.get(
            self._peer, 0
        )
        self._window = min(self._window, self.hello.window_bytes)
        self._known = position
        self._locate_again = True
        self._out.append(welcome)

    def refuse(self, refusal: m.Refusal) -> None:
        """The last word: nothing else waits any more."""
        self.open = False
        self._out.clear()
        self._heartbeat = self._parts = self._body = self._body_parts = self._snapshot = None
        self._rows.clear()
        self._dots.clear()
        self._out.append(refusal)

    def committed(self, position: int, rows: Optional[Sequence[Row]] = None) -> None:
        """The log is on disk up to `position`. `rows` are all of its block rows after the position known before, if they are at hand.

        They are taken only by a sender that has shipped all before them; others read them when they get there.
        """
        caught_up = (
            self._located and self.cursor == self._known and not self._rows and self._asking is None
        )
        if (
            rows is not None
            and caught_up
            and self.open
            and not self.holding_back
            and self.unacknowledged.bytes < self._window
        ):
            self._rows.extend(rows)
            if not rows:
                self.cursor = position
        self._known = max(self._known, position)

    def heartbeat(self, message: m.Heartbeat) -> None:
        self._heartbeat = message

    # ---- What is asked of the log

    def request(self) -> Optional[Request]:
        """The next question about the log; None when there is none now."""
        if not self.open:
            return None
        if (
            self._dots
            and self._reading_body is None
            and self._body is None
            and self._body_parts is None
        ):
            self._reading_body = ReadBlock(*self._dots.popleft())
            return self._reading_body
        if self._asking is not None:
            return None
        if self._locate_again:
            self._locate_again = False
            # A peer that stands before a header whose body is gone here needs more than what was sent: all that it has not on disk.
            self._asking = Locate(dict(self.acknowledged if self.holding_back else self._sent))
        elif (
            self._located and not self.holding_back and not self._rows and self.cursor < self._known
            and self.unacknowledged.bytes < self._window
        ):  # fmt: skip
            self._asking = ReadLog(
                self.cursor, self._known, self.limits.batch_bytes, dict(self._sent)
            )
        return self._asking

    def located(self, position: Optional[int], disk_vector: Vector) -> None:
        """Answers Locate."""
        self._asking = None
        if position is None:
            self._hold_back(disk_vector)
            return
        self._located = True
        self.cursor = position
        if self.holding_back:
            self.holding_back = False
            self._out.append(m.HoldingBack(False, dict(disk_vector)))
            self._dots.extendleft(
                dot for dot in reversed(self._unanswered) if not covers(self.acknowledged, *dot)
            )
            self._unanswered.clear()

    def rows_read(
        self, request: ReadLog, rows: Optional[Sequence[Row]], disk_vector: Vector
    ) -> None:
        """Answers ReadLog."""
        self._asking = None
        if rows is None:
            self._hold_back(disk_vector)
        elif rows and self._located:
            self._rows.extend(rows)
        elif not rows:
            self.cursor = max(self.cursor, request.committed)

    def block_read(self, block: Optional[Block], disk_vector: Vector) -> None:
        """Answers ReadBlock. Without the body the peer stands still here, if it has not got it elsewhere: that is a log too short."""
        asked, self._reading_body = self._reading_body, None
        assert asked is not None
        if block is None:
            if covers(self.acknowledged, asked.origin, asked.counter):
                return
            self._unanswered.append((asked.origin, asked.counter))
            self._unanswered.extend(self._dots)
            self._dots.clear()
            self._hold_back(disk_vector)
        elif len(block.body) > self.limits.batch_bytes:
            self._body_parts = self._cut(block, asked=True)
        else:
            self._body = block

    def _hold_back(self, disk_vector: Vector) -> None:
        self._rows.clear()
        self._located = False
        if not self.holding_back:
            self.holding_back = True
            self._out.append(m.HoldingBack(True, dict(disk_vector)))

    # ---- Snapshots

    def send_snapshot(
        self, number: int, vector: Vector, chains: dict[int, bytes], chunks: Iterator[bytes]
    ) -> None:
        """Sends a cut that is on disk (S11.2); a chunk is made when there is room for it on the wire."""

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

    # ---- What is said

    def next_message(self) -> Optional[m.Down]:
        """What to send next; None when nothing waits, or the window is full."""
        if self._out:
            return self._out.popleft()
        if not self.open:
            return None
        if self._heartbeat is not None:
            beat, self._heartbeat = self._heartbeat, None
            return beat
        return self._next_body() or self._next_batch() or self._next_snapshot()

    def _next_body(self) -> Optional[m.Down]:
        if self._body is not None:
            block, self._body = self._body, None
            return m.Body(block)
        if self._body_parts is not None:
            part = next(self._body_parts, None)
            if part is not None:
                return part
            self._body_parts = None
        return None

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
        while self._rows:
            row = self._rows[0]
            item = self._item(row.block)
            if item is None:
                self._shipped(row)
                continue
            charge = m.charge_of(item)
            # Something goes out even through a window smaller than a block: when nothing else is on its way.
            if self.unacknowledged.bytes and self.unacknowledged.bytes + charge > self._window:
                break
            if items and size + charge > self.limits.batch_bytes:
                break
            large = isinstance(item, Block) and len(item.body) > self.limits.batch_bytes
            if large and items:
                break
            self._shipped(row)
            self._sent[item.origin] = item.last
            self.unacknowledged.add(item.origin, item.last, charge)
            if isinstance(item, Block) and large:
                self._parts = self._cut(item, asked=False)
                return next(self._parts)
            items.append(item)
            size += charge
        return m.Batch(items) if items else None

    def _item(self, block: Block) -> Optional[m.Item]:
        """The block, or its header where the peer gets it from its origin itself; None when there is nothing to ship."""
        sent = self._sent.get(block.origin, 0)
        if block.last <= sent:
            return None
        if block.first > sent + 1:
            raise m.LinkRefused(
                "gap",
                f"the log continues region {block.origin} at {block.first}, after {sent} (S2.2)",
            )
        if block.first <= sent:
            raise m.LinkRefused(
                "forked",
                f"the peer stopped at {sent} of region {block.origin}, within a block from {block.first} (S13.5)",
            )
        if block.origin != self.own and (
            block.origin in self._direct or (self._peer_has_own and block.origin == self._peer)
        ):
            return m.Header(block.origin, block.first, block.last, block.chain, len(block.body))
        return block

    @property
    def _peer(self) -> int:
        return self.hello.region_id if self.hello is not None else 0

    def _shipped(self, row: Row) -> None:
        self._rows.popleft()
        self.cursor = row.position

    def _cut(self, block: Block, asked: bool) -> Iterator[m.Part]:
        step = self.limits.batch_bytes
        for offset in range(0, len(block.body), step):
            data = block.body[offset : offset + step]
            yield m.Part(
                block.origin,
                block.first,
                block.last,
                block.chain,
                len(block.body),
                offset,
                data,
                asked,
            )
