"""One link that this region dialled, over which it receives (S2). Sans-IO.

In: messages of the peer, ticks, the vector applied here and the vector on disk. Out: messages up
(`next_message`), blocks to merge (`take`), events for the hub (`received`).

Items wait in `_unread` in the peer's log order. `take` hands out blocks until it reaches a header
whose block is not applied here. Reading stops there (S2.3) until another link has brought that
block, or until its body has come on request. Bodies travel outside the log order and outside the
window, so a full window cannot hold back the body that would empty it. The window bounds the unread
items: the peer may send only that many bytes beyond the vector that it knows to be on this region's
disk. More is a protocol error.
"""

from __future__ import annotations

from collections import deque
from typing import Optional, Union

from anabranch.crdt.block import Block
from anabranch.crdt.errors import PeerError
from anabranch.crdt.gossip import Gossip, StartAnswer, StartQuestion
from anabranch.crdt.vector import Dot, Vector, raise_to
from anabranch.sync.session import messages as m
from anabranch.sync.session.handshake import LinkLimits


class Staged:
    """A whole snapshot, ready to be joined in one step (S11.2)."""

    def __init__(self, number: int, vector: Vector, chains: dict[int, bytes]) -> None:
        self.number = number
        self.vector = vector
        self.chains = chains
        self.chunks: list[bytes] = []
        self.bytes = 0


class Progress:
    """A message of a snapshot came. `chunks`: the chunks staged so far, in the list that grows."""

    def __init__(self, chunks: list[bytes]) -> None:
        self.chunks = chunks


ReceiverEvent = Union[
    m.Welcome, m.Refusal, m.Heartbeat, m.HoldingBack, StartQuestion, StartAnswer, Staged, Progress
]


class _Stage:
    """A block that arrives in parts (S1.4)."""

    def __init__(self, part: m.BlockPart) -> None:
        self.head = part
        self.body = bytearray()

    def add(self, part: m.BlockPart) -> Optional[Block]:
        """Adds a part; returns the block when the part was the last one, else None.

        Raises PeerError when `part` is not the next part of this block.
        """
        head = self.head
        same = (part.origin, part.first, part.last, part.chain, part.body_bytes) == (
            head.origin,
            head.first,
            head.last,
            head.chain,
            head.body_bytes,
        )
        if not same or part.offset != len(self.body):
            raise PeerError(
                f"a part at {part.offset} of block {part.origin}:{part.last} does not follow"
            )
        self.body += part.data
        if len(self.body) < head.body_bytes:
            return None
        return Block(
            origin=head.origin,
            first=head.first,
            last=head.last,
            body=bytes(self.body),
            chain=head.chain,
        )


class Receiver:
    """State machine of one dialled link.

    Each connection has its own, so no state of a former connection survives (S2.2). `welcomed`: the
    peer sent Welcome. `open`: in addition the chains agree, so that `take` hands out blocks.
    """

    def __init__(self, peer: int, limits: LinkLimits) -> None:
        self.peer = peer
        self.limits = limits
        self.welcomed = False
        self.open = False
        self.holding_back = False
        self._out: deque[m.Up] = deque()
        # The newest acknowledgement only.
        self._acknowledge: Optional[m.VectorAcknowledgement] = None
        self._direct: frozenset[int] = frozenset()
        # This region's vector, as last reported by the caller: an item that it covers needs no
        # place in the window.
        self._applied: Vector = {}
        self._unread: deque[m.Item] = deque()
        self._unread_charge = 0
        # (origin, last) → a body that came for a header in `_unread`.
        self._bodies: dict[Dot, Block] = {}
        # (origin, last) of bodies that were requested and have not come.
        self._asked: dict[Dot, None] = {}
        # (origin, last) of the header where reading stopped.
        self.stuck_at: Optional[Dot] = None
        self._stuck_since_ms = 0
        # `BlockPart.asked` → the block that arrives in such parts.
        self._stages: dict[bool, _Stage] = {}
        self._snapshot_number = 0
        self._snapshot: Optional[Staged] = None

    # -- sending

    def greet(self, hello: m.Hello) -> None:
        self._direct = hello.direct
        raise_to(self._applied, hello.vector)
        self._out.append(hello)

    def refuse(self, refusal: m.Refusal) -> None:
        """Queues the last message and drops all other waiting messages."""
        self.open = False
        self._out.clear()
        self._acknowledge = None
        self._out.append(refusal)

    def close_with_gossip(self, vector: Vector, gossip: Gossip) -> None:
        """Queues the last message, an acknowledgement that carries gossip, and closes the link."""
        self.open = False
        self._out.append(m.VectorAcknowledgement(dict(vector), frozenset(), gossip))

    def acknowledge(self, vector: Vector, direct: frozenset[int], gossip: Optional[Gossip]) -> None:
        """Queues an acknowledgement of the vector on disk here (S2.4).

        It replaces an acknowledgement that was not sent yet, and keeps the gossip of that one.
        """
        if gossip is None and self._acknowledge is not None:
            gossip = self._acknowledge.gossip
        self._direct = direct
        raise_to(self._applied, vector)
        self._acknowledge = m.VectorAcknowledgement(dict(vector), direct, gossip)

    def queue(self, message: Union[StartQuestion, StartAnswer]) -> None:
        """Queues a question or an answer of a start (S13.6)."""
        self._out.append(message)

    def ask_snapshot(self, number: int) -> None:
        self._snapshot_number = number
        self._snapshot = None
        self._out.append(m.SnapshotRequest(number))

    def next_message(self) -> Optional[m.Up]:
        """Returns the next message to send; None when no message waits."""
        if self._out:
            return self._out.popleft()
        if self._acknowledge is not None and self.open:
            message, self._acknowledge = self._acknowledge, None
            return message
        return None

    # -- receiving

    def received(self, message: m.Message) -> list[ReceiverEvent]:
        """Takes one message of the peer; PeerError when it breaks the protocol."""
        if isinstance(message, m.Refusal):
            return [message]
        if isinstance(message, m.Welcome):
            if self.welcomed:
                raise PeerError("a second Welcome")
            self.welcomed = True
            return [message]
        if not self.welcomed:
            raise PeerError(f"{type(message).__name__} before Welcome")
        if isinstance(message, m.Batch):
            for item in message.items:
                self._enqueue(item)
            return []
        if isinstance(message, m.BlockPart):
            self._stage(message)
            return []
        if isinstance(message, m.Body):
            self._body(message.block)
            return []
        if isinstance(message, (m.Heartbeat, StartQuestion, StartAnswer)):
            return [message]
        if isinstance(message, m.HoldingBack):
            self.holding_back = message.holding
            return [message]
        return self._snapshot_message(message)

    def _enqueue(self, item: m.Item) -> None:
        charge = m.charge_of(item)
        if self._unread and self._unread_charge + charge > self.limits.window_bytes:
            self._drop_covered()
            if self._unread and self._unread_charge + charge > self.limits.window_bytes:
                raise PeerError(
                    f"the peer sent more than the window of {self.limits.window_bytes} bytes"
                )
        self._unread.append(item)
        self._unread_charge += charge

    def _drop_covered(self) -> None:
        """Drops the items that this region has applied by now.

        This region acknowledged the blocks that came over other links, so the peer no longer counts
        them against the window. They must not count here either.
        """
        kept = [item for item in self._unread if self._applied.get(item.origin, 0) < item.last]
        self._unread = deque(kept)
        self._unread_charge = sum(m.charge_of(item) for item in kept)
        self._bodies = {
            dot: body for dot, body in self._bodies.items() if self._applied.get(dot[0], 0) < dot[1]
        }
        self._asked = {dot: None for dot in self._asked if self._applied.get(dot[0], 0) < dot[1]}
        self.stuck_at = None

    def _stage(self, part: m.BlockPart) -> None:
        if part.body_bytes > self.limits.block_bytes:
            raise PeerError(
                f"a block of {part.body_bytes} bytes; the limit is {self.limits.block_bytes}"
            )
        if part.asked:
            self._expect(part.origin, part.last)
        stage = self._stages.setdefault(part.asked, _Stage(part))
        block = stage.add(part)
        if block is None:
            return
        del self._stages[part.asked]
        if part.asked:
            self._body(block)
        else:
            self._enqueue(block)

    def _expect(self, origin: int, last: int) -> None:
        """Raises PeerError unless that body was requested.

        A block that came over another link after the request is no longer in `_asked`, and passes.
        """
        if (origin, last) not in self._asked and self._applied.get(origin, 0) < last:
            raise PeerError(f"a body of {origin}:{last} that was not asked for")

    def _body(self, block: Block) -> None:
        dot = (block.origin, block.last)
        self._expect(*dot)
        self._asked.pop(dot, None)
        if self._applied.get(block.origin, 0) < block.last:
            self._bodies[dot] = block

    def _snapshot_message(self, message: m.Message) -> list[ReceiverEvent]:
        if isinstance(message, m.SnapshotBegin):
            if message.number == self._snapshot_number:
                self._snapshot = Staged(message.number, message.vector, message.chains)
            return [Progress([])]
        if not isinstance(message, (m.SnapshotChunk, m.SnapshotEnd)):
            raise PeerError(f"{type(message).__name__} is not a message of a sender")
        # A message with another number belongs to a request that was given up.
        if message.number != self._snapshot_number:
            return []
        staged = self._snapshot
        if staged is None:
            raise PeerError("a snapshot's chunk before its beginning")
        if isinstance(message, m.SnapshotChunk):
            staged.bytes += len(message.data)
            if message.index != len(staged.chunks):
                raise PeerError(
                    f"chunk {message.index} of a snapshot where {len(staged.chunks)} should follow"
                )
            if staged.bytes > self.limits.snapshot_bytes:
                raise PeerError(f"a snapshot of more than {self.limits.snapshot_bytes} bytes")
            staged.chunks.append(message.data)
            return [Progress(staged.chunks)]
        if message.chunks != len(staged.chunks):
            raise PeerError(
                f"a snapshot of {message.chunks} chunks ended after {len(staged.chunks)}"
            )
        self._snapshot = None
        self._snapshot_number = 0
        return [staged]

    # -- handing out blocks

    def take(self, applied: Vector, bytes_max: int, now_ms: int) -> list[Block]:
        """Returns the next blocks to merge, up to a header that is not covered yet (S2.3).

        The bodies have about `bytes_max` bytes in all; at least one block is returned if one waits.
        `applied` is this region's vector. The caller merges the blocks before the next call.
        """
        self._applied = dict(applied)
        if not self.open:
            return []
        view = dict(applied)
        blocks: list[Block] = []
        size = 0
        while self._unread:
            item = self._unread[0]
            dot = (item.origin, item.last)
            if view.get(item.origin, 0) >= item.last:
                self._bodies.pop(dot, None)
                self._asked.pop(dot, None)
                self._pop()
                continue
            block = self._bodies.get(dot) if isinstance(item, m.Header) else item
            if block is None:
                self._stop_at(dot, now_ms)
                break
            if blocks and size + len(block.body) > bytes_max:
                break
            self._bodies.pop(dot, None)
            self._pop()
            blocks.append(block)
            size += len(block.body)
            view[block.origin] = block.last
        return blocks

    def _pop(self) -> None:
        self._unread_charge -= m.charge_of(self._unread.popleft())
        self.stuck_at = None

    def _stop_at(self, dot: Dot, now_ms: int) -> None:
        if self.stuck_at != dot:
            self.stuck_at = dot
            self._stuck_since_ms = now_ms

    @property
    def ready(self) -> bool:
        """Whether `take` can go on: it has not stopped at a header, or the body has come."""
        return (
            self.open
            and bool(self._unread)
            and (self.stuck_at is None or self.stuck_at in self._bodies)
        )

    def tick(self, now_ms: int) -> None:
        """Requests bodies after the patience, or at once if no direct link brings them (S2.3)."""
        if self.stuck_at is None or self.stuck_at in self._asked or self.stuck_at in self._bodies:
            return
        if (
            self.stuck_at[0] in self._direct
            and now_ms - self._stuck_since_ms < self.limits.body_patience_ms
        ):
            return
        dots = self._bodies_to_request(self.stuck_at[0])
        if not dots:
            return
        self._asked.update(dict.fromkeys(dots))
        self._out.append(m.BodyRequest(dots))

    def _bodies_to_request(self, late_origin: int) -> list[Dot]:
        """Returns the dots of the bodies to request, all in one round trip.

        These are the header where reading stopped, later headers of its origin, and headers of
        origins from which this region does not receive directly.
        """
        dots: list[Dot] = []
        size = 0
        for item in self._unread:
            if not isinstance(item, m.Header) or (
                item.origin in self._direct and item.origin != late_origin
            ):
                continue
            dot = (item.origin, item.last)
            if (
                self._applied.get(item.origin, 0) >= item.last
                or dot in self._asked
                or dot in self._bodies
            ):
                continue
            size += item.body_bytes
            if dots and (size > self.limits.batch_bytes or len(dots) == m.DOTS_MAX):
                break
            dots.append(dot)
        return dots
