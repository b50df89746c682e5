"""Replies that wait for the disk (``appendfsync always``, S13.2), in the order in which they were made.

Sans-IO. Positions never fall along the queue, so it is emptied from its front.
"""

from __future__ import annotations

from collections import deque
from typing import Final, Generic, TypeVar

Receiver = TypeVar("Receiver")


class HeldReplies(Generic[Receiver]):
    """`Receiver` is whoever a reply is for. Replies are encoded already."""

    def __init__(self) -> None:
        self._queue: Final[deque[tuple[int, Receiver, bytes]]] = deque()
        self._position = 0

    def __len__(self) -> int:
        return len(self._queue)

    def hold(self, position: int, receiver: Receiver, data: bytes) -> None:
        """Keeps a reply until `position` is committed, and all that were held before it have left."""
        self._position = max(self._position, position)
        self._queue.append((self._position, receiver, data))

    def released(self, position: int) -> list[tuple[Receiver, bytes]]:
        """What may leave now that rows up to `position` are on disk, in order."""
        queue = self._queue
        free: list[tuple[Receiver, bytes]] = []
        while queue and queue[0][0] <= position:
            _, receiver, data = queue.popleft()
            free.append((receiver, data))
        return free

    def dropped(self) -> list[Receiver]:
        """The commit failed: nothing of what waits is ever said (S13.4). Who had waited, once for each reply."""
        waiting = [receiver for _, receiver, _ in self._queue]
        self._queue.clear()
        return waiting


def must_wait(position: int, committed_position: int, held_before: int) -> bool:
    """Whether a reply must be held: for its commit (`position`; 0: for none), or behind `held_before` replies to the same client."""
    return held_before > 0 or position > committed_position
