"""What the memory of a row of the table consists of: blocks of the allocator by their size.

It runs the workload of one memory row in a region whose allocations are traced (`tracemalloc`), and
counts the blocks that live before and after it. A line tells how many blocks of one size there are
for each entry, pending entry, pair or key. The rest of a row, which measures resident memory, is
what the allocator wastes, and what does not come from Python's allocator.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final, Optional

from anabranch import build
from anabranch.bench.harness import wait_for
from anabranch.bench.performance import say
from anabranch.bench.table import memory
from anabranch.bench.table.servers import PATIENCE_S, US, RegionServer, Server
from anabranch.cluster.regions import ProcessCluster

# Sizes of which there are fewer blocks for each item are shown as one line.
_SHOWN: Final = 0.005
_FILE: Final = "ANABRANCH_BLOCKS"
# Runs a region. On SIGUSR1 it writes a line "size blocks" for each size of the blocks that live.
_PROGRAM: Final = f"""
import os, signal, tracemalloc
from collections import Counter
from anabranch.cli.main import main

def tell(*_):
    sizes = Counter(trace.size for trace in tracemalloc.take_snapshot().traces)
    path = os.environ["{_FILE}"]
    with open(path + ".new", "w") as file:
        file.writelines(f"{{size}} {{count}}\\n" for size, count in sizes.items())
    os.rename(path + ".new", path)

signal.signal(signal.SIGUSR1, tell)
main()
"""


class TracedCluster(ProcessCluster):
    """A region that counts its blocks. `file`: where it writes them."""

    def __init__(self, file: Path) -> None:
        super().__init__([US])
        self._file: Final = file

    def program(self, name: str) -> tuple[list[str], dict[str, str]]:
        line = [sys.executable, "-P", "-X", "tracemalloc", "-c", _PROGRAM]
        return line, {**build.environment(), _FILE: str(self._file)}


def blocks(server: Server, file: Path) -> Counter[int]:
    """The blocks that live once no work goes on in the background: size in bytes → number."""
    server.await_quiet()
    file.unlink(missing_ok=True)
    os.kill(server.process_id, signal.SIGUSR1)
    wait_for(file.exists, "the blocks of the region", PATIENCE_S)
    pairs = (line.split() for line in file.read_text(encoding="utf-8").splitlines())
    return Counter({int(size): int(number) for size, number in pairs})


def lines_of(grown: Counter[int], count: int) -> list[str]:
    """The report: the sizes that take most first. `grown`: size → blocks more than before."""
    shown = [size for size, number in grown.items() if number >= _SHOWN * count]
    shown.sort(key=lambda size: size * grown[size], reverse=True)
    lines = [
        f"{size * grown[size] / count:8.1f} bytes: {grown[size] / count:.3f} blocks of {size} bytes"
        for size in shown
    ]
    total = sum(size * number for size, number in grown.items())
    rest = total - sum(size * grown[size] for size in shown)
    lines.append(f"{rest / count:8.1f} bytes: blocks of other sizes")
    return [*lines, f"{total / count:8.1f} bytes for each of {count:,}"]


def _pairs(server: Server, count: int) -> None:
    memory.add_by_producers(server, "idmp", count)


# Row → items, what is there before, and what is counted.
_ROWS: Final[
    dict[str, tuple[int, Callable[[Server, int], None], Callable[[Server, int], None]]]
] = {
    "memory.entry": (memory.ENTRIES, lambda *_: None, memory.add_entries),
    "memory.pending": (memory.PENDING, memory.add_entries, memory.make_pending),
    "memory.idmp": (memory.PAIRS, lambda server, _: memory.keep_pairs(server), _pairs),
    "memory.key": (memory.KEYS, lambda *_: None, memory.add_keys),
}


def main(arguments: Optional[list[str]] = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="anabranch bench profile_memory", description=__doc__)
    parser.add_argument("row", choices=_ROWS, help="a row of the table that measures memory")
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies the items")
    given = parser.parse_args(arguments)
    items, prepare, load = _ROWS[given.row]
    step = memory.PAIRS_A_PRODUCER
    count = max(step, int(items * given.scale) // step * step)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "blocks")
        with RegionServer(cluster=TracedCluster(file)) as region:
            prepare(region, count)
            before = blocks(region, file)
            load(region, count)
            grown = blocks(region, file)
            grown.subtract(before)
    for line in lines_of(grown, count):
        say(line)
    return 0
