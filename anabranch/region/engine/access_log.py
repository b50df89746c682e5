"""The wrong passwords that clients gave last, for ACL LOG.

As in Redis, a wrong password is counted in a former entry if both have the same user and command,
and are less than a minute apart. The log is in memory only, and is bounded: by ``acllog-max-len``
entries, each of which has little more than `TEXT_BYTES_MAX` bytes of the client's words.
"""

from __future__ import annotations

from collections import deque
from typing import Final, Optional

from anabranch.region.engine.settings import Settings

TEXT_BYTES_MAX: Final = 128
# Redis's bounds: the time within which wrong passwords are one entry, and the newest entries among
# which that entry is looked for.
TOGETHER_MS: Final = 60_000
SEARCHED_MAX: Final = 10


class Refusal:
    """One entry: `count` wrong passwords from `created_ms` to `updated_ms`.

    `command` is AUTH or HELLO as the client wrote it, `user` the name that it gave, and `client`
    the line of CLIENT LIST about the client that gave the last one.
    """

    def __init__(self, number: int, command: bytes, user: bytes, now_ms: int) -> None:
        self.number: Final = number
        self.command: Final = command
        self.user: Final = user
        self.created_ms: Final = now_ms
        self.updated_ms = now_ms
        self.count = 0
        self.client = b""


class AccessLog:
    """The entries, newest first. Entry numbers go on after `clear`, as in Redis."""

    def __init__(self) -> None:
        self.entries: Final[deque[Refusal]] = deque()
        self._length_max = 0
        self._next_number = 0

    def refresh(self, settings: Settings) -> None:
        """Takes the current value of the setting."""
        self._length_max = settings.integer("acllog-max-len")
        self._drop()

    def add(self, command: bytes, user: bytes, client: bytes, now_ms: int) -> None:
        """Counts a wrong password, in a former entry or in a new one."""
        command, user = command[:TEXT_BYTES_MAX], user[:TEXT_BYTES_MAX]
        entry = self._former(command, user, now_ms)
        if entry is None:
            entry = Refusal(self._next_number, command, user, now_ms)
            self._next_number += 1
        else:
            self.entries.remove(entry)
        entry.count += 1
        entry.updated_ms = max(entry.updated_ms, now_ms)
        entry.client = client
        self.entries.appendleft(entry)
        self._drop()

    def clear(self) -> None:
        """ACL LOG RESET."""
        self.entries.clear()

    def _former(self, command: bytes, user: bytes, now_ms: int) -> Optional[Refusal]:
        for place, entry in enumerate(self.entries):
            if place == SEARCHED_MAX:
                break
            is_same = entry.command == command and entry.user == user
            if is_same and now_ms - entry.updated_ms <= TOGETHER_MS:
                return entry
        return None

    def _drop(self) -> None:
        while len(self.entries) > self._length_max:
            self.entries.pop()
