"""Hides passwords in the arguments of this process from other users of the machine.

Linux shows the memory that holds the arguments to every user of the machine. This module overwrites
the passwords there. Until then, in the first milliseconds of the process, they can be seen. A file
for the password (``--requirepass-file``, ``--password-file``) has no such moment.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

OPTIONS = (b"--requirepass", b"--password")
# Of the fields of /proc/PID/stat behind the name of the program: where the arguments begin and end.
_START, _END = 45, 46


def places(arguments: bytes) -> Iterator[tuple[int, int]]:
    """Where passwords begin and end in the arguments of a process, each of which ends with NUL."""
    at = 0
    former = b""
    for word in arguments.split(b"\0"):
        option, equals, value = word.partition(b"=")
        if former in OPTIONS:
            yield at, at + len(word)
        elif option in OPTIONS and equals:
            yield at + len(option) + 1, at + len(option) + 1 + len(value)
        former = word
        at += len(word) + 1


def hide() -> None:
    """Overwrites the passwords in the arguments of this process; elsewhere than on Linux, none."""
    try:
        arguments = Path("/proc/self/cmdline").read_bytes()
        found = [place for place in places(arguments) if place[0] < place[1]]
        if not found:
            return
        import ctypes

        fields = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
        start, end = int(fields[_START]), int(fields[_END])
        if end - start < len(arguments) or ctypes.string_at(start, len(arguments)) != arguments:
            return
        for first, last in found:
            ctypes.memmove(start + first, b"*" + b" " * (last - first - 1), last - first)
    except (OSError, ValueError, IndexError, ImportError):
        return  # The arguments stay as they are.
