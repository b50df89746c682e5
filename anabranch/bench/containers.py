"""Parts of anabranch beside the libraries that could stand in their place, in one process.

sortedcontainers beside the order of SCAN (`crdt.scan_order`) and the heap of deadlines
(`region.engine.deadlines`), and aiosqlite, which reads the database, beside the thread that writes
it (`region.live.sql_thread`). Each line has the median of the rounds and their spread; ours and the
library's take turns.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sqlite3
import statistics
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from heapq import heappush
from pathlib import Path
from typing import Final, Optional, Union

import aiosqlite
from sortedcontainers import SortedKeyList, SortedList
from xxhash import xxh3_64_intdigest

from anabranch.bench.performance import say
from anabranch.crdt.scan_order import ScanOrder
from anabranch.region.live.sql_thread import SqlThread

KEYS: Final = 200_000
READS: Final = 2_000
_ROW_BYTES: Final = 4096

Figures = dict[str, list[float]]
"""What was measured, and by whom → a figure of each round."""


def order_of_scan(figures: Figures) -> None:
    """Adds keys: µs, and bytes of memory for each."""
    keys = [b"key:%d" % number for number in range(KEYS)]

    def ours() -> ScanOrder:
        order = ScanOrder()
        for key in keys:
            order.add(key)
        return order

    def theirs() -> SortedKeyList[bytes, int]:
        order: SortedKeyList[bytes, int] = SortedKeyList(key=xxh3_64_intdigest)
        for key in keys:
            order.add(key)
        return order

    for who, make in (("ours", ours), ("sortedcontainers", theirs)):
        _time(figures, f"scan order, µs to add a key: {who}", make, KEYS)
        tracemalloc.start()
        kept = make()
        size = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        figures.setdefault(f"scan order, bytes for a key: {who}", []).append(size / KEYS)
        del kept


def deadlines(figures: Figures) -> None:
    """Gives keys new deadlines, several times each: µs."""
    draw = random.Random(1)
    changes = [(draw.randrange(KEYS // 4), draw.randrange(10**9)) for _ in range(KEYS)]

    def heap() -> None:
        waiting: list[tuple[int, int]] = []
        in_force: dict[int, int] = {}
        for key, at_ms in changes:
            in_force[key] = at_ms
            heappush(waiting, (at_ms, key))

    def ordered() -> None:
        waiting: SortedList[tuple[int, int]] = SortedList()
        in_force: dict[int, int] = {}
        for key, at_ms in changes:
            former = in_force.get(key)
            if former is not None:
                waiting.remove((former, key))
            in_force[key] = at_ms
            waiting.add((at_ms, key))

    for who, work in (("a heap, as ours", heap), ("sortedcontainers", ordered)):
        _time(figures, f"deadlines, µs to change one: {who}", work, KEYS)


async def reads(figures: Figures) -> None:
    """Reads rows one by one: µs."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "rows.sqlite"))
        with sqlite3.connect(path) as database:
            database.execute("CREATE TABLE rows (position INTEGER PRIMARY KEY, body BLOB)")
            body = bytes(_ROW_BYTES)
            rows = ((number, body) for number in range(READS))
            database.executemany("INSERT INTO rows VALUES (?, ?)", rows)
        database.close()
        thread = SqlThread()
        await thread.open(path)
        library = await aiosqlite.connect(path, isolation_level=None)
        connections: dict[str, Union[SqlThread, aiosqlite.Connection]]
        connections = {"a thread of ours": thread, "aiosqlite": library}
        for who, connection in connections.items():
            begun_s = time.perf_counter()
            for number in range(READS):
                await connection.execute_fetchall(
                    "SELECT body FROM rows WHERE position = ?", (number,)
                )
            took_us = (time.perf_counter() - begun_s) / READS * 1e6
            figures.setdefault(f"reads, µs for a row of 4 KiB: {who}", []).append(took_us)
            await connection.close()


def _time(figures: Figures, name: str, work: Callable[[], object], count: int) -> None:
    begun_s = time.perf_counter()
    work()
    figures.setdefault(name, []).append((time.perf_counter() - begun_s) / count * 1e6)


def main(arguments: Optional[list[str]] = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="anabranch bench containers", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="how often each is measured")
    given = parser.parse_args(arguments)
    figures: Figures = {}
    for _ in range(given.rounds):
        order_of_scan(figures)
        deadlines(figures)
        asyncio.run(reads(figures))
    for name, found in figures.items():
        spread = f"{min(found):.2f} to {max(found):.2f}"
        say(f"{name:58} {statistics.median(found):8.2f}  ({spread})")
    return 0
