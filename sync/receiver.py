"""One link that this region dialled: it receives (S2). Sans-IO.

In: messages of the peer, ticks, what this region has applied and what it has on disk. Out: messages up (`next_message`), blocks to
merge (`take`), events for the hub (`received`).

Items wait in `_unread` in the peer's log order. `take` hands out blocks until it meets a header of a block that is not applied here:
there reading stops (S2.3), until another link has brought that block, or its body, asked for, has come. Bodies travel outside
the order and outside the window, so that a full window can never keep back what would empty it. What waits is bounded by the window:
the peer may send only so much beyond what it knows to be on this region's disk, and more is a protocol error.
"""

from __future__ import annotations

from collections import deque
from typing import Optional, Union

from anabranch.crdt.block import Block
from anabranch.crdt.errors import PeerError
from anabranch.crdt.gossip import Gossip, StartAnswer, StartQuestion
from anabranch.crdt.vector import Dot, Vector, raise_to
from anabranch.sync import messages as m
from anabranch.sync.handshake import LinkLimits

BODIES_ASKED_MAX = 256


class Staged:
    """A whole snapshot, ready to be joined in one step (S11.2)."""

    def __init__(self, number: int, vector: Vector, chains: dict[int, bytes]) -> None:
        self.number = number
        self.vector = vector
        self.chains = chains
        self.chunks: list[bytes] = []
        self.bytes = 0


class Progress:
    """A chunk of the snapshot came."""


Event = Union[
    m.Welcome, m.Refusal, m.Heartbeat, m.HoldingBack, StartQuestion, StartAnswer, Staged, Progress
]


class _Stage:
    """A block that arrives in parts (S1.4)."""

    def __init__(self, part: m.Part) -> None:
        self.head = part
        self.body = bytearray()

    def add(self, part: m.Part) -> Optional[Block]:
        """The block, when `part` was its last; PeerError when it is not the next part of this block."""
        head = self.head
        same = (part.origin, part.first, part.last, part.chain, part.body_bytes) == (
            head.origin, head.first, head.last, head.chain, head.body_bytes,
        )  # fmt: skip
        if not same or part.offset != len(self.body):
            raise PeerError(
                f"malformed: a part at {part.offset} of block {part.origin}:{part.last} does not follow"
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
    """State machine of one dialled link. A connection has its own: nothing of a former one survives (S2.2).

    `welcomed`: the peer said Welcome. `open`: and its chains fit ours, so that blocks are handed out.
    """

    def __init__(self, peer: int, limits: LinkLimits) -> None:
        self.peer = peer
        self.limits = limits
        self.welcomed = False
        self.open = False
        self.holding_back = False
        self._out: deque[m.Up] = deque()
        self._acknowledge: Optional[m.VectorAcknowledgement] = None  # the newest only
        self._direct: frozenset[int] = frozenset()
        self._applied: Vector = {}  # as last heard of; what is covered by it needs no place in the window
        self._unread: deque[m.Item] = deque()
        self._unread_charge = 0
        self._bodies: dict[
            Dot, Block
        ] = {}  # by (origin, last): bodies that came for headers in `_unread`
        self._asked: dict[Dot, None] = {}
        self._stuck_at: Optional[Dot] = None
        self._stuck_since_ms = 0
        self._stages: dict[bool, _Stage] = {}  # by `asked`
        self._snapshot_number = 0
        self._snapshot: Optional[Staged] = None

    # ---- What is said

    def greet(self, hello: m.Hello) -> None:
        self._direct = hello.direct
        raise_to(self._applied, hello.vector)
        self._out.append(hello)

    def refuse(self, refusal: m.Refusal) -> None:
        """The last word: nothing else waits any more."""
        self.open = False
        self._out.clear()
        self._acknowledge = None
        self._out.append(refusal)

    def part(self, vector: Vector, gossip: Gossip) -> None:
        """The last word to a side that is to hear the gossip, and nothing else any more."""
        self.open = False
        self._out.append(m.VectorAcknowledgement(dict(vector), frozenset(), gossip))

    def acknowledge(self, vector: Vector, direct: frozenset[int], gossip: Optional[Gossip]) -> None:
        """Says what is on disk here (S2.4). Gossip of one that was not said yet is not lost."""
        if gossip is None and self._acknowledge is not None:
            gossip = self._acknowledge.gossip
        self._direct = direct
        raise_to(self._applied, vector)
        self._acknowledge = m.VectorAcknowledgement(dict(vector), direct, gossip)

    def say(self, message: Union[StartQuestion, StartAnswer]) -> None:
        """Asks or answers for a start (S13.6)."""
        self._out.append(message)

    def ask_snapshot(self, number: int) -> None:
        self._snapshot_number = number
        self._snapshot = None
        self._out.append(m.SnapshotRequest(number))

    def next_message(self) -> Optional[m.Up]:
        """What to send next; None when nothing waits."""
        if self._out:
            return self._out.popleft()
        if self._acknowledge is not None and self.open:
            message, self._acknowledge = self._acknowledge, None
            return message
        return None

    # ---- What is heard

    def received(self, message: m.Message) -> list[Event]:
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
        if isinstance(message, m.Part):
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
        """Blocks that came by other links were acknowledged, and no longer count for the peer: nor may they here."""
        kept = [item for item in self._unread if self._applied.get(item.origin, 0) < item.last]
        self._unread = deque(kept)
        self._unread_charge = sum(m.charge_of(item) for item in kept)
        self._bodies = {
            dot: body for dot, body in self._bodies.items() if self._applied.get(dot[0], 0) < dot[1]
        }
        self._asked = {dot: None for dot in self._asked if self._applied.get(dot[0], 0) < dot[1]}
        self._stuck_at = None

    def _stage(self, part: m.Part) -> None:
        if part.body_bytes > self.limits.block_bytes:
            raise PeerError(
                f"a block of {part.body_bytes} bytes; {self.limits.block_bytes} are taken"
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
        """PeerError unless that body was asked for. One that came another way since is on nobody's list any more."""
        if (origin, last) not in self._asked and self._applied.get(origin, 0) < last:
            raise PeerError(f"a body of {origin}:{last} that was not asked for")

    def _body(self, block: Block) -> None:
        dot = (block.origin, block.last)
        self._expect(*dot)
        self._asked.pop(dot, None)
        if self._applied.get(block.origin, 0) < block.last:
            self._bodies[dot] = block

    def _snapshot_message(self, message: m.Message) -> list[Event]:
        if isinstance(message, m.SnapshotBegin):
            if message.number == self._snapshot_number:
                self._snapshot = Staged(message.number, message.vector, message.chains)
            return [Progress()]
        if not isinstance(message, (m.SnapshotChunk, m.SnapshotEnd)):
            raise PeerError(f"{type(message).__name__} came down")
        if message.number != self._snapshot_number:
            return []  # of a request that was given up
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
            return [Progress()]
        if message.chunks != len(staged.chunks):
            raise PeerError(
                f"a snapshot of {message.chunks} chunks of which {len(staged.chunks)} came"
            )
        self._snapshot = None
        self._snapshot_number = 0
        return [staged]

    # ---- What is handed out

    def take(self, applied: Vector, bytes_max: int, now_ms: int) -> list[Block]:
        """The next blocks to merge, about `bytes_max` of bodies (one at least), up to a header not covered yet (S2.3).

        `applied` is this region's vector; the caller merges what it gets before it asks again.
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
        self._stuck_at = None

    def _stop_at(self, dot: Dot, now_ms: int) -> None:
        if self._stuck_at != dot:
            self._stuck_at = dot
            self._stuck_since_ms = now_ms

    @property
    def ready(self) -> bool:
        """Whether `take` is worth calling for what came, not for what other links brought."""
        return (
            self.open
            and bool(self._unread)
            and (self._stuck_at is None or self._stuck_at in self._bodies)
        )

    def tick(self, now_ms: int) -> None:
        """Asks for bodies once patience is over, or at once when nobody else is to bring them (S2.3)."""
        if (
            self._stuck_at is None
            or self._stuck_at in self._asked
            or self._stuck_at in self._bodies
        ):
            return
        if (
            self._stuck_at[0] in self._direct
            and now_ms - self._stuck_since_ms < self.limits.body_patience_ms
        ):
            return
        dots = self._worth_asking(self._stuck_at[0])
        if not dots:
            return
        self._asked.update(dict.fromkeys(dots))
        self._out.append(m.BodyRequest(dots))

    def _worth_asking(self, late_origin: int) -> list[Dot]:
        """The header where reading stopped, and those behind it that are in the same position: one round trip for all."""
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
            if dots and (size > self.limits.batch_bytes or len(dots) == BODIES_ASKED_MAX):
                break
            dots.append(dot)
        return dots
