"""The block bodies that a peer asked for (S2.3): those to read, and those to send. Sans-IO."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final, Optional

from anabranch.crdt.block import Block
from anabranch.crdt.errors import PeerError
from anabranch.crdt.vector import Dot, Vector, covers
from anabranch.sync.session import messages as m
from anabranch.sync.session.log_requests import ReadBlock


def parts_of(block: Block, part_bytes: int, asked: bool) -> Iterator[m.BlockPart]:
    """Yields a block larger than a message in pieces of `part_bytes` bytes."""
    for offset in range(0, len(block.body), part_bytes):
        data = block.body[offset : offset + part_bytes]
        yield m.BlockPart(
            block.origin, block.first, block.last, block.chain, len(block.body), offset, data, asked
        )


class Bodies:
    """Serves the body requests of one peer, one block after the other.

    A block of more than `part_bytes` bytes goes in parts.
    """

    def __init__(self, part_bytes: int) -> None:
        self._part_bytes: Final = part_bytes
        self._dots: deque[Dot] = deque()
        # Requested dots that the log did not hold. The peer does not ask again, so they are kept.
        self._unanswered: deque[Dot] = deque()
        self._reading: Optional[ReadBlock] = None
        self._block: Optional[Block] = None
        self._parts: Optional[Iterator[m.BlockPart]] = None

    def ask(self, dots: Iterable[Dot], dots_max: int) -> None:
        """Adds a request of the peer; PeerError when more than `dots_max` dots are open."""
        self._dots.extend(dots)
        if len(self._dots) + len(self._unanswered) > dots_max:
            raise PeerError("too many bodies asked for at once")

    def request(self) -> Optional[ReadBlock]:
        """Returns the next question to the log; None while one is open or a block waits."""
        if not self._dots or self._reading or self._block or self._parts:
            return None
        self._reading = ReadBlock(*self._dots.popleft())
        return self._reading

    def answered(self, block: Optional[Block], acknowledged: Vector) -> bool:
        """Takes the answer to `request`; `acknowledged` is the vector on the peer's disk.

        Returns False when the log no longer holds the block and the peer lacks it. All open dots
        are then kept until `ask_again`.
        """
        asked, self._reading = self._reading, None
        assert asked is not None
        if block is not None:
            if len(block.body) > self._part_bytes:
                self._parts = parts_of(block, self._part_bytes, asked=True)
            else:
                self._block = block
            return True
        if covers(acknowledged, asked.origin, asked.counter):
            return True
        self._unanswered.append((asked.origin, asked.counter))
        self._unanswered.extend(self._dots)
        self._dots.clear()
        return False

    def ask_again(self, acknowledged: Vector) -> None:
        """Reopens the unanswered dots that the peer still lacks: the log reaches back again."""
        lacking = [dot for dot in self._unanswered if not covers(acknowledged, *dot)]
        self._dots.extendleft(reversed(lacking))
        self._unanswered.clear()

    def next_message(self) -> Optional[m.Down]:
        """Returns the next message to send; None when no message waits."""
        if self._block is not None:
            block, self._block = self._block, None
            return m.Body(block)
        if self._parts is not None:
            part = next(self._parts, None)
            if part is not None:
                return part
            self._parts = None
        return None

    def drop(self) -> None:
        """Drops all requests."""
        self._dots.clear()
        self._unanswered.clear()
        self._block = self._parts = None
