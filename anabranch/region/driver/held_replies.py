"""Replies that wait for the disk (``appendfsync always``, S13.2), in order of their execution.

Sans-IO. Positions never decrease along the queue, so replies leave from its front.
"""

from __future__ import annotations

from collections import deque
from typing import Final, Generic, TypeVar

Receiver = TypeVar("Receiver")


class HeldReplies(Generic[Receiver]):
    """The queue of held replies, which are encoded. `Receiver` is the type of their addressees."""

    def __init__(self) -> None:
        self._queue: Final[deque[tuple[int, Receiver, bytes]]] = deque()
        self._position = 0

    def __len__(self) -> int:
        return len(self._queue)

    def hold(self, position: int, receiver: Receiver, data: bytes) -> None:
        """Holds a reply until `position` is committed and all replies held before it have left."""
        self._position = max(self._position, position)
        self._queue.append((self._position, receiver, data))

    def released(self, position: int) -> list[tuple[Receiver, bytes]]:
        """Removes and returns, in order, the replies that may leave: `position` is on disk."""
        queue = self._queue
        free: list[tuple[Receiver, bytes]] = []
        while queue and queue[0][0] <= position:
            _, receiver, data = queue.popleft()
            free.append((receiver, data))
        return free

    def dropped(self) -> list[Receiver]:
        """Drops all held replies because a commit failed (S13.4).

        Returns the receivers, once for each reply.
        """
        waiting = [receiver for _, receiver, _ in self._queue]
        self._queue.clear()
        return waiting
