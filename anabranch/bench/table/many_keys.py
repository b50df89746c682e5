"""100,000 keys: how long a PING of another client waits while one command runs over all of them.

A process sends PINGs one after another and notes the longest wait. Its waits while nothing runs
show how much of that is the machine.
"""

from __future__ import annotations

import multiprocessing
import time
import urllib.request
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Final

from anabranch.bench.table.idmp import KEY
from anabranch.bench.table.memory import (
    ENTRIES,
    KEYS,
    PAIRS_A_PRODUCER,
    STREAM,
    add_by_producers,
    add_entries,
    add_keys,
    make_pending,
)
from anabranch.bench.table.servers import RegionServer
from anabranch.bench.table.values import Measured, Run, Values
from anabranch.cluster.client import RespClient
from anabranch.cluster.ports import HOST

PREFIX: Final = "keys.wait."
# These keep what they found. Only the first one after all keys changed does all the work.
_ONCE: Final = frozenset({"scan", "digest"})
_SHORTEST_S: Final = 0.2
_PAUSE_S: Final = 0.0002
_CHECKPOINT: Final = "crdt-checkpoint-interval-ms"
_CHECKPOINT_BYTES: Final = "crdt-checkpoint-max-bytes"
_NEVER_MS: Final = 3_600_000
_CHECKPOINTS_S: Final = 5.0
_PAIRS: Final = 300_000


def longest_wait_ms(port: int, work: Callable[[], object]) -> float:
    """The longest wait of a PING, in ms, from before `work` until after it."""
    ours, theirs = multiprocessing.Pipe()
    pinger = multiprocessing.get_context("fork").Process(
        target=_ping, args=(port, theirs), daemon=True
    )
    pinger.start()
    ours.recv()
    begun = time.monotonic()
    try:
        work()
        time.sleep(max(0.02, _SHORTEST_S - (time.monotonic() - begun)))
    finally:
        ours.send("stop")
    waited_ms: float = ours.recv()
    pinger.join()
    return waited_ms


def _ping(port: int, results: Connection) -> None:
    """Runs in a process until it is told to stop; sends the longest wait."""
    longest_s = 0.0
    with RespClient(HOST, port, 120.0) as client:
        client.call("PING")
        results.send("ready")
        while not results.poll():
            begun = time.perf_counter()
            client.call("PING")
            longest_s = max(longest_s, time.perf_counter() - begun)
            time.sleep(_PAUSE_S)
    results.recv()
    results.send(1000 * longest_s)


def measure(run: Run) -> Measured:
    """Yields the rows."""
    keys = run.scaled(KEYS, 1_000)
    with RegionServer() as region:
        if run.wants("keys.checkpoint"):
            yield "keys.checkpoint", _checkpoint(region, keys)
        else:
            add_keys(region, keys)
        region.await_quiet()
        for name, work in _works(region).items():
            if run.wants(PREFIX + name):
                rounds = 1 if name in _ONCE else run.rounds
                times = [longest_wait_ms(region.port, work) for _ in range(rounds)]
                yield PREFIX + name, Values(times, note="" if keys == KEYS else f"{keys:,} keys")
        if run.wants(PREFIX + "flushall"):
            yield PREFIX + "flushall", _flushed(region, keys, min(run.rounds, 2))
    if run.wants(PREFIX + "del"):
        yield PREFIX + "del", _deleted(run)
    if run.wants(PREFIX + "pending"):
        yield PREFIX + "pending", _with_pending(run)
    if run.wants(PREFIX + "pairs"):
        yield PREFIX + "pairs", _with_pairs(run)


def _checkpoint(region: RegionServer, keys: int) -> Values:
    """CPU of one checkpoint that writes all keys, which were added while none was due."""
    region.call("CONFIG", "SET", _CHECKPOINT_BYTES, "1gb")
    region.call("CONFIG", "SET", _CHECKPOINT, _NEVER_MS)
    add_keys(region, keys)
    time.sleep(1.5)  # The last commit under `everysec`.
    before = region.cpu_s()
    begun = time.monotonic()
    region.call("CONFIG", "SET", _CHECKPOINT, 2_000)
    region.await_quiet()
    took_s = time.monotonic() - begun
    used_us = 1e6 * (region.cpu_s() - before) / keys
    region.call("CONFIG", "SET", _CHECKPOINT_BYTES, "8mb")
    return Values([used_us], note=f"the checkpoint took {took_s:.1f} s")


def _works(region: RegionServer) -> dict[str, Callable[[], object]]:
    return {
        "nothing": lambda: time.sleep(1.0),
        "info": lambda: region.call("INFO", "everything"),
        "metrics": lambda: urllib.request.urlopen(region.http(), timeout=60.0).read(),
        "scan": lambda: _scan(region.port),
        "digest": lambda: region.call("CRDT.DIGEST"),
    }


def _scan(port: int) -> None:
    with RespClient(HOST, port, 60.0) as client:
        cursor = client.ask("SCAN", 0, "COUNT", 1000)[0]
        while cursor != b"0":
            cursor = client.ask("SCAN", cursor, "COUNT", 1000)[0]


def _flushed(region: RegionServer, keys: int, rounds: int) -> Values:
    times = []
    for number in range(rounds):
        if number > 0:
            add_keys(region, keys)
            region.await_quiet()
        times.append(longest_wait_ms(region.port, lambda: region.call("FLUSHALL")))
    return Values(times, note="" if keys == KEYS else f"{keys:,} keys")


def _deleted(run: Run) -> Values:
    entries = run.scaled(ENTRIES, 5_000)
    times = []
    with RegionServer() as region:
        for _ in range(min(run.rounds, 2)):
            add_entries(region, entries)
            make_pending(region, entries)
            region.await_quiet()
            times.append(longest_wait_ms(region.port, lambda: region.call("DEL", STREAM)))
    return Values(times, note=f"{entries:,} entries")


def _with_pending(run: Run) -> Values:
    """Checkpoints of a stream whose entries are all pending."""
    entries = run.scaled(ENTRIES, 5_000)
    with RegionServer() as region:
        add_entries(region, entries)
        make_pending(region, entries)
        region.await_quiet()
        times = [
            longest_wait_ms(region.port, lambda: _add_slowly(region, STREAM))
            for _ in range(min(run.rounds, 3))
        ]
    return Values(times, note=f"{entries:,} entries")


def _with_pairs(run: Run) -> Values:
    """Checkpoints of a stream with many pairs, which become old and are collected meanwhile."""
    pairs = run.scaled(_PAIRS, PAIRS_A_PRODUCER) // PAIRS_A_PRODUCER * PAIRS_A_PRODUCER
    times = []
    with RegionServer() as region:
        region.call("CONFIG", "SET", "stream-idmp-maxsize", PAIRS_A_PRODUCER)
        for _ in range(min(run.rounds, 3)):
            region.call("CONFIG", "SET", "stream-idmp-duration", 86_400)
            region.call("DEL", KEY)
            add_by_producers(region, "idmp", pairs)
            region.await_quiet()
            region.call("CONFIG", "SET", "stream-idmp-duration", 1)
            times.append(longest_wait_ms(region.port, lambda: _add_slowly(region, KEY)))
    return Values(times, note=f"{pairs:,} pairs")


def _add_slowly(region: RegionServer, key: str) -> None:
    """Adds entries for longer than two checkpoints are apart, so that at least two begin."""
    until_s = time.monotonic() + _CHECKPOINTS_S
    while time.monotonic() < until_s:
        region.call("XADD", key, "*", "f", "v")
        time.sleep(0.05)
