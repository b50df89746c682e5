"""The plan of a run: its faults, settings and clocks. It is a function of the seed alone.

A fault strikes links or regions from one moment to another. Two faults never strike the same
direction of a link, or the same region, at one time: each must end as it began.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

NAMES: Final = ("us", "eu", "ap", "sa", "af", "me", "oc", "in", "jp")
# Kinds that strike one direction of a link, except `cut`, which strikes both.
OF_LINKS: Final = (
    "cut",
    "one-way cut",
    "latency",
    "bandwidth",
    "slicer",
    "slow close",
    "reset",
    "timeout",
    "limited data",
)
OF_REGIONS: Final = (
    "kill",
    "kill two",
    "pause",
    "restart",
    "absence",
    "clock",
    "full disk",
    "old backup",
)
KINDS: Final = (*OF_LINKS, *OF_REGIONS)
# The first faults strike once the clients have begun; all faults end before the run does.
FIRST_S: Final = 2.0
QUIET_END_S: Final = 2.0
# Mean time between the beginnings of faults.
GAP_S: Final = 2.2
_TRIES: Final = 20
# Least and most seconds of a fault of each kind.
_SECONDS: Final = {
    "cut": (2.0, 12.0),
    "one-way cut": (2.0, 12.0),
    "latency": (3.0, 15.0),
    "bandwidth": (3.0, 15.0),
    "slicer": (2.0, 10.0),
    "slow close": (2.0, 8.0),
    "reset": (1.0, 6.0),
    "timeout": (1.0, 8.0),
    "limited data": (2.0, 10.0),
    "kill": (0.2, 8.0),
    "kill two": (0.2, 6.0),
    "pause": (0.5, 8.0),
    "restart": (0.0, 3.0),
    "absence": (10.0, 30.0),
    "clock": (0.0, 2.0),
    "full disk": (1.0, 8.0),
    "old backup": (2.0, 10.0),
}


@dataclass(frozen=True)
class Fault:
    """One fault; times in seconds since the beginning.

    `regions`: the regions that it strikes, or for a link the sender and the receiver. `values`: the
    attributes of a toxic, the offset of a clock in ms, or whether a full disk ends with a kill.
    """

    kind: str
    begin_s: float
    end_s: float
    regions: tuple[str, ...]
    values: dict[str, int] = field(default_factory=dict)

    @property
    def is_of_link(self) -> bool:
        """Whether it strikes a link."""
        return self.kind in OF_LINKS

    def __str__(self) -> str:
        where = " and ".join(self.regions)
        if self.is_of_link:
            where = (" ↔ " if self.kind == "cut" else " → ").join(self.regions)
        values = ", ".join(f"{name} {value}" for name, value in self.values.items())
        shown = f" ({values})" if values else ""
        return f"{self.begin_s:6.1f} to {self.end_s:6.1f} s  {self.kind} {where}{shown}"

    def places(self) -> set[tuple[str, ...]]:
        """What it occupies: regions, and directions of links as (sender, receiver)."""
        if self.kind == "cut":
            return {self.regions, self.regions[::-1]}
        if self.is_of_link:
            return {self.regions}
        return {(name,) for name in self.regions}


def break_links(kinds: Sequence[str]) -> bool:
    """Whether some of the kinds strike links, which takes proxies between the regions."""
    return not set(OF_LINKS).isdisjoint(kinds)


@dataclass(frozen=True)
class Plan:
    """A whole run. `settings`: flags of every region. `offsets_ms`: the clocks at the beginning.

    `has_proxies`: whether faults may strike links.
    """

    seed: int
    seconds: float
    names: tuple[str, ...]
    settings: dict[str, str]
    offsets_ms: dict[str, int]
    faults: tuple[Fault, ...]
    has_proxies: bool = True

    def as_json(self) -> dict[str, Any]:
        """The plan for a file."""
        return {
            "seed": self.seed,
            "seconds": self.seconds,
            "names": list(self.names),
            "settings": self.settings,
            "offsets_ms": self.offsets_ms,
            "faults": [str(fault) for fault in self.faults],
        }


def draw(
    seed: int, seconds: float, regions: int, kinds: Sequence[str] = KINDS, fsync: str = "always"
) -> Plan:
    """Draws the plan of a seed. `kinds`: the faults that may strike; `fsync`: appendfsync."""
    rand = random.Random(f"{seed}/plan")
    names = NAMES[:regions]
    settings = _settings(rand, fsync)
    offsets = {name: _offset_ms(rand) if "clock" in kinds else 0 for name in names}
    if "clock" in kinds:
        # The judges are about data; regions whose clocks differ would refuse writes.
        settings["crdt-clock-offset-max-ms"] = "0"
    faults: list[Fault] = []
    bag: list[str] = []
    at_s = FIRST_S + rand.random()
    while kinds and at_s < seconds - QUIET_END_S:
        if not bag:
            bag = sorted(set(kinds), key=KINDS.index)
            rand.shuffle(bag)
        fault = _placed(rand, bag.pop(), at_s, seconds, names, faults)
        if fault is not None:
            faults.append(fault)
        at_s += rand.expovariate(1 / GAP_S)
    return Plan(seed, seconds, names, settings, offsets, tuple(faults), break_links(kinds))


def _settings(rand: random.Random, fsync: str) -> dict[str, str]:
    """Few effects in the log make regions that were away pull snapshots."""
    return {
        "appendfsync": fsync,
        "crdt-log-max-effects": rand.choice(["0", "300", "300", "2000"]),
        "crdt-snapshot-patience-ms": rand.choice(["300", "1000", "5000"]),
        "stream-node-max-entries": rand.choice(["4", "100"]),
        "crdt-compression": rand.choice(["zstd", "none"]),
        # Retries must find their pairs however late they come (S9.1). A hundred pairs (S9.3) are
        # fewer than the adds of a long cut. Then the producers repeat sooner.
        "stream-idmp-duration": "86400",
        "stream-idmp-maxsize": rand.choice(["100", "10000"]),
    }


def _offset_ms(rand: random.Random) -> int:
    span_ms = rand.choice([0, 100, 3000, 60_000])
    return rand.randint(-span_ms, span_ms)


def _placed(
    rand: random.Random,
    kind: str,
    at_s: float,
    seconds: float,
    names: tuple[str, ...],
    faults: list[Fault],
) -> Fault | None:
    """A fault of that kind at a place that is free; None if there is no such place."""
    least_s, most_s = _SECONDS[kind]
    begin_s = round(at_s, 2)
    end_s = round(min(at_s + rand.uniform(least_s, most_s), seconds - QUIET_END_S), 2)
    struck = 2 if kind in OF_LINKS or kind == "kill two" else 1
    for _ in range(_TRIES):
        regions = tuple(rand.sample(names, struck))
        fault = Fault(kind, begin_s, end_s, regions, _values(rand, kind))
        if not any(_collide(fault, other) for other in faults):
            return fault
    return None


def _collide(one: Fault, other: Fault) -> bool:
    apart = one.begin_s > other.end_s or other.begin_s > one.end_s
    # A region that is put back to a backup gets from the others what it lacks.
    are_backups = one.kind == other.kind == "old backup"
    return not apart and (are_backups or bool(one.places() & other.places()))


def _values(rand: random.Random, kind: str) -> dict[str, int]:
    if kind == "latency":
        latency = rand.choice([20, 100, 400])
        return {"latency": latency, "jitter": rand.randrange(latency // 2 + 1)}
    if kind == "bandwidth":
        return {"rate": rand.choice([20, 100, 500])}
    if kind == "slicer":
        size = rand.choice([50, 200, 1000])
        return {"average_size": size, "size_variation": size // 2, "delay": rand.choice([1, 200])}
    if kind == "slow close":
        return {"delay": rand.choice([500, 3000])}
    if kind in ("reset", "timeout"):
        return {"timeout": rand.choice([0, 500, 2000])}
    if kind == "limited data":
        return {"bytes": rand.choice([2_000, 20_000, 200_000])}
    if kind == "clock":
        return {"offset_ms": _offset_ms(rand)}
    if kind == "full disk":
        return {"kill": rand.randrange(2)}
    return {}
