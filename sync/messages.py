"""What two regions say to each other: plain values, independent of how they travel. `codec` turns them into bytes.

Every vector in a message speaks of the sender's disk (S2.4).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Optional, Union

from anabranch.crdt.block import Block
from anabranch.crdt.errors import PeerError
from anabranch.crdt.gossip import Gossip, StartAnswer, StartQuestion
from anabranch.crdt.vector import Dot, Vector

VERSION: Final = 2

# Why a side closes a link. The words appear in states, logs and on the wire (enum Reason).
REASONS: Final = (
    "version", "cluster", "members", "duplicate", "region", "not-a-member", "forked", "gap", "malformed", "superseded",
)  # fmt: skip
# Bytes that one item is charged for against the window beside its body: a bound for headers too.
ITEM_CHARGE: Final = 128


class LinkRefused(PeerError):
    """A peer that must not be talked to; `reason` is one of `REASONS`."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        assert reason in REASONS, reason
        self.reason = reason
        self.text = text


# ---- Handshake


@dataclass(slots=True)
class Hello:
    """First message of the dialler."""

    version: int
    cluster: str
    members: dict[int, str]  # region_id → name
    region_id: int
    name: str
    dialled: int  # region_id that the dialler means to reach
    life: int
    vector: Vector
    chains: dict[int, bytes]  # region_id → chain value at `vector` (S13.5)
    direct: frozenset[int]  # regions that the dialler receives directly (S2.3)
    window_bytes: int  # what the dialler is ready to hold unread


@dataclass(slots=True)
class Welcome:
    """First message of the region that was dialled, unless it refuses."""

    version: int
    cluster: str
    members: dict[int, str]
    region_id: int
    name: str
    life: int
    vector: Vector
    chains: dict[int, bytes]


@dataclass(slots=True)
class Refusal:
    """Last message of a side that closes the link."""

    reason: str
    text: str


# ---- Up: from the dialler, who receives


@dataclass(slots=True)
class VectorAcknowledgement:
    """What the dialler has on its disk, and whom it receives directly now. Gossip comes with some."""

    vector: Vector
    direct: frozenset[int]
    gossip: Optional[Gossip] = None


@dataclass(slots=True)
class BodyRequest:
    """Asks for the blocks that hold these dots (S2.3)."""

    dots: list[Dot]


@dataclass(slots=True)
class SnapshotRequest:
    """Asks for a snapshot (S11.1); what answers it bears `number`."""

    number: int


# ---- Down: from the sender


@dataclass(slots=True)
class Header:
    """Stands in the log's order for a block that the receiver gets from its origin itself (S2.3)."""

    origin: int
    first: int
    last: int
    chain: bytes
    body_bytes: int


Item = Union[Block, Header]


@dataclass(slots=True)
class Batch:
    """Blocks and headers, in the sender's log order (S2.1)."""

    items: list[Item]


@dataclass(slots=True)
class Body:
    """Answers one dot of a BodyRequest."""

    block: Block


@dataclass(slots=True)
class Part:
    """A piece of a block larger than a message (S1.4): `data` at `offset` of a body of `body_bytes`."""

    origin: int
    first: int
    last: int
    chain: bytes
    body_bytes: int
    offset: int
    data: bytes
    asked: bool  # answers a BodyRequest; otherwise it stands in the log's order


@dataclass(slots=True)
class HoldingBack:
    """The log does not reach back to what the receiver lacks (S2.6), or does again. `vector`: what the sender has."""

    holding: bool
    vector: Vector


@dataclass(slots=True)
class SnapshotBegin:
    """A snapshot's vector and chain values (S11.2)."""

    number: int
    vector: Vector
    chains: dict[int, bytes]


@dataclass(slots=True)
class SnapshotChunk:
    """Chunk `index`, from 0."""

    number: int
    index: int
    data: bytes


@dataclass(slots=True)
class SnapshotEnd:
    """All `chunks` were sent."""

    number: int
    chunks: int


@dataclass(slots=True)
class Heartbeat:
    """Every `crdt-heartbeat-interval-ms`. `digest` (16 bytes, or empty) is that of exactly `vector`.

    The gossip holds the sender's own vector, clock, life and whether it counts, beside what it heard of others.
    """

    vector: Vector
    digest: bytes
    gossip: Gossip = field(default_factory=lambda: Gossip([], [], []))


Up = Union[
    Hello, VectorAcknowledgement, BodyRequest, SnapshotRequest, Refusal, StartQuestion, StartAnswer
]
Down = Union[
    Welcome,
    Refusal,
    Batch,
    Part,
    Body,
    HoldingBack,
    SnapshotBegin,
    SnapshotChunk,
    SnapshotEnd,
    Heartbeat,
    StartQuestion,
    StartAnswer,
]
Message = Union[Up, Down]


def charge_of(item: Item) -> int:
    """Bytes that an item counts against the window. A header counts as little as it weighs: its body is asked for separately."""
    return ITEM_CHARGE if isinstance(item, Header) else ITEM_CHARGE + len(item.body)
