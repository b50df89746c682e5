"""The slow log: the last commands that took long, for SLOWLOG.

The driver measures the commands (`region/driver/command_timer.py`), and hands over those that took
at least `SlowLog.least_us`. The log is in memory only, and is bounded: by `slowlog-max-len`
entries, each with at most `ARGUMENTS_MAX` arguments of little more than `ARGUMENT_BYTES_MAX` bytes,
and a name of the client that is cut likewise.
"""

from __future__ import annotations

from collections import deque
from typing import Final, Optional

from anabranch.region.engine.passwords import without_passwords
from anabranch.region.engine.settings import Settings

# Redis's bounds.
ARGUMENTS_MAX: Final = 32
ARGUMENT_BYTES_MAX: Final = 128
# Redis's word for a password.
_HIDDEN: Final = b"(redacted)"
# A time that no command takes, in µs; an integer of one machine word where it is compiled.
_NEVER_US: Final = 1 << 61


class SlowCommand:
    """One entry.

    `time_s` is when the command ended, in seconds since 1970. `address` and `name` are those of the
    client.
    """

    def __init__(
        self,
        number: int,
        time_s: int,
        duration_us: int,
        arguments: list[bytes],
        address: str,
        name: bytes,
    ) -> None:
        self.number: Final = number
        self.time_s: Final = time_s
        self.duration_us: Final = duration_us
        self.arguments: Final = arguments
        self.address: Final = address
        self.name: Final = name


class SlowLog:
    """The entries, newest first.

    A command enters if it took at least `least_us`. The driver compares its measured times with it,
    so that a command that was not slow costs one comparison.
    """

    def __init__(self) -> None:
        self.least_us = _NEVER_US
        self.entries: Final[deque[SlowCommand]] = deque()
        self._length_max = 0
        self._next_number = 0

    def refresh(self, settings: Settings) -> None:
        """Takes the current values of the settings."""
        slower_than_us = settings.integer("slowlog-log-slower-than")
        self.least_us = _NEVER_US if slower_than_us < 0 else min(slower_than_us, _NEVER_US)
        self._length_max = settings.integer("slowlog-max-len")
        self._drop()

    def add(
        self, time_s: int, duration_us: int, arguments: list[bytes], address: str, name: bytes
    ) -> None:
        """Adds the newest entry. Numbers go on after `clear`, as in Redis."""
        short_name = _cut(name, len(name))
        entry = SlowCommand(self._next_number, time_s, duration_us, arguments, address, short_name)
        self._next_number += 1
        self.entries.appendleft(entry)
        self._drop()

    def clear(self) -> None:
        """SLOWLOG RESET."""
        self.entries.clear()

    def _drop(self) -> None:
        while len(self.entries) > self._length_max:
            self.entries.pop()


def shown_arguments(
    words: list[bytes], queued: Optional[list[list[bytes]]], further: int
) -> list[bytes]:
    """The arguments of an entry, without passwords.

    `queued`: the commands of a transaction, if `words` is its EXEC; each is shown as one argument.
    `further`: the number of equal commands that were measured together with this one. The last
    argument tells it, so an entry never passes the time of many commands off as that of one.
    """
    places = ARGUMENTS_MAX - (1 if further else 0)
    if queued:
        shown = [words[0], *[_line(one) for one in queued[: places - 1]]]
        if len(queued) > places - 1:
            shown[-1] = b"... (%d more commands)" % (len(queued) - places + 2)
    else:
        visible = without_passwords(words, _HIDDEN)
        shown = [_cut(word, len(word)) for word in visible[:places]]
        if len(visible) > places:
            shown[-1] = b"... (%d more arguments)" % (len(visible) - places + 1)
    if further:
        shown.append(b"... (%d more commands)" % further)
    return shown


def _cut(beginning: bytes, size: int) -> bytes:
    """A word of `size` bytes, of which `beginning` is the beginning at least, as Redis cuts it."""
    if size <= ARGUMENT_BYTES_MAX:
        return beginning
    left_out = size - ARGUMENT_BYTES_MAX
    return b"%b... (%d more bytes)" % (beginning[:ARGUMENT_BYTES_MAX], left_out)


def _line(words: list[bytes]) -> bytes:
    """A command of a transaction as one argument. Long words are cut first, then the whole."""
    visible = without_passwords(words, _HIDDEN)
    size = sum(len(word) for word in visible) + len(visible) - 1
    # Each further word has a space at least, so these words reach the bound.
    parts = [word[:ARGUMENT_BYTES_MAX] for word in visible[: ARGUMENT_BYTES_MAX + 1]]
    return _cut(b" ".join(parts), size)
