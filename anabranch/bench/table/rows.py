"""The rows of the table that `anabranch bench` measures: names, workloads in words, goals, units.

A goal is a ratio to redis-server in the same run, under the same durability, where the unit is
`RATIO`. Goals are those of the issue that asked for the table; a row without a goal shows a figure
beside the others.
"""

from __future__ import annotations

from fnmatch import fnmatch
from typing import Final, NamedTuple, Optional

RATIO: Final = "× redis-server"
PLAIN: Final = "× plain add"
ALONE: Final = "× alone"
BEFORE: Final = "× before"
BASE: Final = "× base"
ENTRIES: Final = "entries/s"
BYTES: Final = "bytes"
MS: Final = "ms"
S: Final = "s"
PERCENT: Final = "% of a core"
MICROSECONDS: Final = "µs"


class TableRow(NamedTuple):
    """One row of the table."""

    name: str
    text: str
    measure: str
    """The module of this package that measures it."""
    unit: str
    at_least: Optional[float] = None
    at_most: Optional[float] = None
    in_smoke: bool = False
    """Whether the short run compares this row with the recorded one."""

    @property
    def goal(self) -> str:
        """The goal as text; empty if there is none."""
        if self.at_least is not None:
            return f"≥ {self.at_least:,g}" if self.at_least < 1000 else f"≥ {self.at_least:,.0f}"
        return "" if self.at_most is None else f"≤ {self.at_most:,g}"

    def met(self, value: float) -> Optional[bool]:
        """Whether a value meets the goal; None if there is no goal."""
        if self.at_least is not None:
            return value >= self.at_least
        return None if self.at_most is None else value <= self.at_most


def _rate(
    name: str, text: str, goal: Optional[float], smoke: bool = False, measure: str = "rates"
) -> TableRow:
    return TableRow(name, text, measure, RATIO, at_least=goal, in_smoke=smoke)


def _limit(name: str, text: str, measure: str, unit: str, goal: Optional[float]) -> TableRow:
    return TableRow(name, text, measure, unit, at_most=goal)


_RATES: Final = (
    # Not in the smoke run: with one client, how fast the machine wakes a process is the bound.
    _rate("xadd.c1", "XADD, one field of 16 bytes, `-c 1`", 1.0),
    _rate("xadd.c50", "XADD, `-c 50`", 1.0),
    _rate("xadd.p16", "XADD, `-c 50 -P 16`", 1.5, True),
    _rate("xadd.p100", "XADD, `-c 50 -P 100`", 3.0, True),
    _rate("always.c1", "XADD under `always`, `-c 1`", 0.8),
    _rate("always.c50", "XADD under `always`, `-c 50`", 0.9),
    _rate("always.p16", "XADD under `always`, `-c 50 -P 16`", 1.5),
    _rate("always.p100", "XADD under `always`, `-c 50 -P 100`", 3.0),
    _rate("xadd.keys.p16", "XADD to 100 random keys, `-P 16`", 1.0, True),
    _rate("xadd.keys.p100", "XADD to 100 random keys, `-P 100`", 1.2),
    _rate("xadd.maxlen.p16", "XADD MAXLEN ~ 10000, `-P 16`", 1.2),
    _rate("xadd.fields10.c50", "XADD, 10 fields, `-c 50`", 1.0),
    _rate("xadd.fields10.p16", "XADD, 10 fields, `-P 16`", 1.2),
    _rate("xadd.bytes512.c50", "XADD, 512 bytes, `-c 50`", 0.9),
    _rate("xadd.bytes512.p16", "XADD, 512 bytes, `-P 16`", 1.0),
    _rate("xrange.10", "XRANGE COUNT 10 at random places, `-P 16`", 1.0),
    _rate("xrange.100", "XRANGE COUNT 100", 1.0, True),
    _rate("xrange.1000", "XRANGE COUNT 1000", 1.0),
    _rate("xrevrange.10", "XREVRANGE COUNT 10 at random places, `-P 16`", 1.0),
    _rate("xrevrange.100", "XREVRANGE COUNT 100", 1.0, True),
    _rate("xrevrange.1000", "XREVRANGE COUNT 1000", 1.0),
    _rate("xread.10", "XREAD COUNT 10 from the middle, `-P 16`", 1.0),
    _rate("xread.100", "XREAD COUNT 100 from the middle", 1.0),
    _rate("xreadgroup.1", "XREADGROUP COUNT 1", 0.9),
    _rate("xreadgroup.1.p16", "XREADGROUP COUNT 1, `-P 16`", 1.0, True),
    _rate("xreadgroup.100", "XREADGROUP COUNT 100", 1.1),
    _rate("xack.1", "XACK of 1 ID, `-P 16`", 1.0),
    _rate("xack.100", "XACK of 100 IDs", 1.0, True),
    _rate("xautoclaim.100", "XAUTOCLAIM COUNT 100", 1.0),
    _rate("xpending.100", "XPENDING of a range, 100 rows", 1.0),
    _rate("consumer.100", "a consumer that reads 100 and acknowledges them", None),
    _rate("mixed", "mixed: 8 XADD, 4 XRANGE, a group read of 8, XLEN, XINFO", None),
)
_OWN: Final = (
    TableRow("idmp", "XADD IDMP, `-P 16`", "idmp", PLAIN, at_least=0.95),
    TableRow("idmpauto", "XADD IDMPAUTO, `-P 16`", "idmp", PLAIN, at_least=0.9),
)
_MEMORY: Final = (
    _limit("memory.entry", "memory per entry, after a restart", "memory", BYTES, 34),
    _limit("memory.entry.loaded", "memory per entry, right after a load", "memory", BYTES, 34),
    _limit("memory.pending", "memory per pending entry", "memory", BYTES, 50),
    _limit("memory.idmp", "memory per IDMP pair", "memory", BYTES, 80),
    _limit("memory.key", "memory per key of one entry", "memory", BYTES, 1200),
)
_START: Final = (
    _limit("start.reply", "start with 5,000,000 entries, to the first reply", "start", S, 0.5),
    _limit("start.speed", "the same, to full speed", "start", RATIO, 1.0),
    TableRow("start.keys", "start with 100,000 keys of one entry, to the first reply", "start", S),
)
_PEERS: Final = (
    TableRow("peers.writer", "writer with two peers, `-P 16`", "peers", ALONE, at_least=0.85),
    TableRow("peers.catching_up", "catching up by the log", "peers", ENTRIES, at_least=1_000_000),
    TableRow(
        "peers.live", "merging live from a peer, `-P 100`", "peers", ENTRIES, at_least=300_000
    ),
    _limit("delay.idle", "median delay at a peer, idle", "delay", MS, 2),
    _limit("delay.loaded", "median delay at a peer, at 2,000 adds/s", "delay", MS, 5),
)
_IDLE: Final = (
    TableRow("idle.alone", "CPU of an idle region, alone", "idle", PERCENT),
    TableRow("idle.readers", "the same, with 400 clients that wait in XREAD", "idle", PERCENT),
    TableRow("idle.peers", "CPU of an idle region with two peers", "idle", PERCENT),
)
_WAITS: Final = (
    ("nothing", "nothing else runs", None),
    ("info", "INFO", 10.0),
    ("metrics", "/metrics", 10.0),
    ("scan", "SCAN of all keys", 10.0),
    ("digest", "CRDT.DIGEST", 10.0),
    ("flushall", "FLUSHALL", 10.0),
    ("del", "DEL of 1,000,000 entries with as many pending", 10.0),
    ("pending", "checkpoints of 1,000,000 pending entries", 10.0),
    ("pairs", "checkpoints and collection of 300,000 idempotency pairs", 10.0),
)
_KEYS: Final = (
    *(
        _limit(f"keys.wait.{name}", f"100,000 keys: longest PING, {text}", "many_keys", MS, goal)
        for name, text, goal in _WAITS
    ),
    _limit(
        "keys.wait.snapshot",
        "100,000 keys: longest PING, a snapshot is sent to a peer",
        "key_snapshot",
        MS,
        10,
    ),
    _limit(
        "keys.wait.join",
        "100,000 keys: longest PING, a snapshot of a peer is joined",
        "key_snapshot",
        MS,
        10,
    ),
    _limit(
        "keys.checkpoint",
        "100,000 keys: CPU of the checkpoint per key",
        "many_keys",
        MICROSECONDS,
        20,
    ),
    TableRow("keys.merge", "merging into 100,000 keys", "key_peers", ENTRIES, at_least=150_000),
    _limit(
        "keys.delay.median", "100,000 keys written: delay in the next 30 s", "key_peers", MS, 10
    ),
    _limit("keys.delay.99", "the same, 99 %", "key_peers", MS, 50),
)
_GROWN: Final = (
    ("entries", "entries in the stream", "10,000"),
    ("keys", "keys written", "1,000"),
    ("groups", "groups of the stream", "10"),
    ("pending", "pending entries", "1,000"),
)
_GROWTH: Final = (
    *(
        _limit(
            f"growth.{name}.{times}",
            f"CPU per command at {times} × {base} {text}",
            "growth",
            BASE,
            1.2,
        )
        for name, text, base in _GROWN
        for times in (10, 100)
    ),
    *(
        _limit(
            f"growth.regions.{count}",
            f"CPU per add at a writer of {count} regions, to 2 regions",
            "growth_regions",
            BASE,
            1.2,
        )
        for count in (4, 8)
    ),
)
_INTERPRETED: Final = tuple(
    TableRow(
        f"interpreted.{name}", f"interpreted build: {text}", "interpreted", BEFORE, at_least=0.8
    )
    for name, text in (
        ("xadd.c1", "XADD, `-c 1`"),
        ("xadd.p16", "XADD, `-P 16`"),
        ("xrange.100", "XRANGE COUNT 100"),
        ("xreadgroup.1.p16", "XREADGROUP COUNT 1, `-P 16`"),
    )
)

ROWS: Final = (*_RATES, *_OWN, *_MEMORY, *_START, *_PEERS, *_IDLE, *_KEYS, *_GROWTH, *_INTERPRETED)
BY_NAME: Final = {row.name: row for row in ROWS}
RECORDED_SHARE: Final = 0.5
"""The short run fails if a ratio is below this share of the recorded one. Machines are noisy."""


def chosen(patterns: list[str], smoke: bool = False) -> list[TableRow]:
    """The rows whose names match one of the patterns, in the order of the table; none: all rows."""
    return [
        row
        for row in ROWS
        if (row.in_smoke or not smoke)
        and (not patterns or any(fnmatch(row.name, pattern) for pattern in patterns))
    ]
