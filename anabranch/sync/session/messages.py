"""The messages between two regions, as plain values; `codec` converts them to bytes.

Every vector in a message covers only effects that are on the sender's disk (S2.4).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Optional, Union

from anabranch.crdt.block import Block
from anabranch.crdt.errors import PeerError
from anabranch.crdt.gossip import Gossip, StartAnswer, StartQuestion
from anabranch.crdt.vector import Dot, Vector

VERSION: Final = 2

# Reasons for which a side closes a link. The words appear in states, logs and on the wire (enum
# Reason).
REASONS: Final = (
    "version",
    "cluster",
    "members",
    "duplicate",
    "region",
    "not-a-member",
    "forked",
    "gap",
    "malformed",
    "superseded",
    "lost",
    "clock",
)
# Bytes that an item counts against the window in addition to its body: this bounds headers, too.
ITEM_CHARGE: Final = 128

# Most dots in one BodyRequest.
DOTS_MAX: Final = 256


class LinkRefused(PeerError):
    """The link to a peer must close; `reason` is one of `REASONS`."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        assert reason in REASONS, reason
        self.reason = reason
        self.text = text


# -- Handshake


@dataclass(slots=True)
class Hello:
    """First message of the dialler."""

    version: int
    cluster: str
    # region_id → name
    members: dict[int, str]
    region_id: int
    name: str
    # The region_id that the dialler means to reach.
    dialled: int
    life: int
    vector: Vector
    # region_id → chain value at `vector` (S13.5).
    chains: dict[int, bytes]
    # The regions from which the dialler receives directly (S2.3).
    direct: frozenset[int]
    # The bytes of items that the dialler is ready to hold unread.
    window_bytes: int
    # The random number of the dialler's process, and where that runs, for people; 0: not told.
    process: int = 0
    place: str = ""


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
    # As in Hello.
    process: int = 0
    place: str = ""


@dataclass(slots=True)
class Refusal:
    """Last message of a side that closes the link.

    `life`: a later life in which the refused region is known, so that it begins a later one still
    (S1.3); 0 if it is refused for another reason.
    """

    reason: str
    text: str
    life: int = 0


# -- up: from the dialler, which receives


@dataclass(slots=True)
class VectorAcknowledgement:
    """The vector on the dialler's disk, and the regions from which it now receives directly.

    `gossip` is None in most acknowledgements.
    """

    vector: Vector
    direct: frozenset[int]
    gossip: Optional[Gossip] = None


@dataclass(slots=True)
class BodyRequest:
    """Asks for the blocks that hold these dots (S2.3)."""

    dots: list[Dot]


@dataclass(slots=True)
class SnapshotRequest:
    """Asks for a snapshot (S11.1); the messages of the snapshot carry `number`."""

    number: int


# -- down: from the sender


@dataclass(slots=True)
class Header:
    """Stands for a block that the receiver gets directly from its origin (S2.3), in log order."""

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
class BlockPart:
    """A piece of a block larger than a message (S1.4): `data` at `offset` (bytes) of the body."""

    origin: int
    first: int
    last: int
    chain: bytes
    body_bytes: int
    offset: int
    data: bytes
    # True: the part answers a BodyRequest. False: it stands in log order.
    asked: bool


@dataclass(slots=True)
class HoldingBack:
    """The sender holds back, because its log does not reach back to what the receiver lacks (S2.6).

    With `holding` False the sender ships again. `vector` is on the sender's disk.
    """

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
    """One chunk of a snapshot; `index` counts from 0."""

    number: int
    index: int
    data: bytes


@dataclass(slots=True)
class SnapshotEnd:
    """The end of a snapshot of `chunks` chunks."""

    number: int
    chunks: int


@dataclass(slots=True)
class Heartbeat:
    """Sent every `crdt-heartbeat-interval-ms`.

    `digest` (16 bytes, or empty) is the digest at exactly `vector`. The gossip holds the sender's
    own vector, clock, life and whether it counts, and the newest reports of other regions. `stops`:
    the sender's region stops in order, and asks the receiver to end the link. `double`: another
    process runs as the receiver's region, in words.
    """

    vector: Vector
    digest: bytes
    gossip: Gossip = field(default_factory=lambda: Gossip([], [], []))
    stops: bool = False
    double: str = ""


Up = Union[
    Hello, VectorAcknowledgement, BodyRequest, SnapshotRequest, Refusal, StartQuestion, StartAnswer
]
Down = Union[
    Welcome,
    Refusal,
    Batch,
    BlockPart,
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
    """Returns the bytes that an item counts against the window.

    A header counts without its body, because the receiver asks for the body separately.
    """
    return ITEM_CHARGE if isinstance(item, Header) else ITEM_CHARGE + len(item.body)
