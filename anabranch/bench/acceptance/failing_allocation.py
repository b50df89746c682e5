"""Allocations of a process that fail when another process asks for it (`failing_allocation.c`)."""

from __future__ import annotations

import mmap
import random
import shutil
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

from anabranch.cluster.errors import ClusterError

_SOURCE = Path(__file__).with_name("failing_allocation.c")
_VARIABLE = "FAILING_ALLOCATION"
MALLOC, CALLOC, REALLOC, MMAP = 1, 2, 4, 8
MAIN_THREAD, OTHER_THREADS = 1, 2
ENDLESS = 1 << 40
# Fields of `struct control`, as 64-bit numbers.
_FIELDS = 6
_FAILED = 5


@dataclass(frozen=True)
class Failures:
    """Which allocations fail: `count` of them, after `calls` that succeed.

    `kinds` and `threads` are sums of the constants above. Allocations below `bytes_min` do not
    count.
    """

    kinds: int
    threads: int
    bytes_min: int
    calls: int
    count: int


def drawn(draw: random.Random) -> Failures:
    """Failures of any kind. One, or a few, or all from a call on fail."""
    heap = MALLOC | CALLOC | REALLOC
    kinds = draw.choice([heap, heap | MMAP, MALLOC, CALLOC, REALLOC, MMAP])
    threads = draw.choice([MAIN_THREAD, MAIN_THREAD, OTHER_THREADS, MAIN_THREAD | OTHER_THREADS])
    bytes_min = draw.choice([0, 0, 0, 1000, 100_000])
    calls_max = draw.choice([10, 1000, 100_000] if bytes_min == 0 else [3, 30, 300])
    count = draw.choice([1, 1, draw.randint(2, 50), ENDLESS])
    return Failures(kinds, threads, bytes_min, draw.randrange(calls_max), count)


def library(directory: Path) -> Path:
    """Compiles the library; ClusterError if that fails."""
    compiler = shutil.which("gcc")
    if compiler is None:
        raise ClusterError("gcc is not installed: it comes with the package gcc")
    made = directory / "failing_allocation.so"
    line = [compiler, "-O1", "-Wall", "-fPIC", "-shared", "-o", str(made), str(_SOURCE)]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ClusterError(f"{_SOURCE.name} cannot be compiled: {done.stderr}")
    return made


class Switch:
    """Turns failures of one process on and off, by a file that both map."""

    def __init__(self, file: Path) -> None:
        self._file = file
        file.write_bytes(bytes(8 * _FIELDS))
        with file.open("r+b") as opened:
            self._control = mmap.mmap(opened.fileno(), 8 * _FIELDS)

    def environment(self, library: Path) -> dict[str, str]:
        """The variables with which the process must start."""
        return {"LD_PRELOAD": str(library), _VARIABLE: str(self._file)}

    def on(self, failures: Failures) -> None:
        """Failures begin. The kinds come last: until then nothing counts."""
        given = (failures.threads, failures.bytes_min, failures.calls, failures.count)
        struct.pack_into("=4q", self._control, 8, *given)
        struct.pack_into("=q", self._control, 0, failures.kinds)

    def off(self) -> None:
        """All allocations succeed again."""
        struct.pack_into("=q", self._control, 0, 0)

    def failed(self) -> int:
        """How many allocations have failed."""
        return int(struct.unpack_from("=q", self._control, 8 * _FAILED)[0])
