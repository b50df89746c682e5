"""A run as a value: everything that a seed decides beforehand.

`sim.draw` makes a plan; `sim.shrink` removes parts of it.

Decisions that fall only during a run (which entry a consumer acknowledges, how late a message is)
come from a separate `Random`: each step has its `draw`, each link has its own stream. So removing
one step changes the other steps as little as possible.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, Union

REGION_NAMES: Final = (
    *("us", "eu", "ap", "sa", "af", "oc", "me", "in"),
    *("r9", "r10", "r11", "r12", "r13", "r14", "r15", "r16"),
)
"""The names of the regions 1, 2, 3, … of simulated clusters, and of scenarios by default."""
OF_TWO: Final = frozenset(
    {"cut", "one-way cut", "flapping", "slow link", "reset", "half-open", "link down"}
)
"""Kinds of faults that strike two regions."""
EVERYWHERE: Final = frozenset(
    {"full partition", "ring", "blackout", "client crash", "reset in a snapshot"}
)
"""Kinds of faults that strike all regions or none."""
Link = tuple[int, int]
"""(region that dials, and so receives; region that is dialled, and so sends) as region_ids."""


def struck_by(kind: str, regions: tuple[int, ...]) -> tuple[int, ...]:
    """The regions that a fault strikes, out of those that it names; empty: all, or none."""
    return regions[:2] if kind in OF_TWO else () if kind in EVERYWHERE else regions[:1]


def shape_of(shape: str, regions: tuple[int, ...]) -> tuple[Link, ...]:
    """The links of a network.

    `shape`: mesh, line, ring (in one direction) or star (around the first region).
    """
    if shape == "line":
        pairs = list(pairwise(regions))
        return (*pairs, *((other, one) for one, other in pairs))
    if shape == "ring":
        return tuple((one, regions[place - 1]) for place, one in enumerate(regions))
    if shape == "star":
        first, *rest = regions
        return (*((first, one) for one in rest), *((one, first) for one in rest))
    return tuple((one, other) for one in regions for other in regions if one != other)


@dataclass(frozen=True)
class Intent:
    """A client acts at `at_ms`.

    The act follows from the client's kind, from what the client knows then, and from `draw` (48
    bits).
    """

    at_ms: int
    client: int
    draw: int


@dataclass(frozen=True)
class Fault:
    """A fault begins at `at_ms`; if it is a state, it ends after `duration_ms`.

    `regions` are the region_ids that it strikes.
    """

    at_ms: int
    kind: str
    regions: tuple[int, ...]
    duration_ms: int
    draw: int


Step = Union[Intent, Fault]


@dataclass(frozen=True)
class ClientPlan:
    """One simulated client.

    `kind` names a class of `sim.load`; `home` is the region_id that the client prefers; `keys` are
    the keys that it uses. `depth`: how many acts it sends in one pipeline at most.
    """

    number: int
    kind: str
    home: int
    keys: tuple[bytes, ...]
    draw: int
    depth: int = 1


@dataclass(frozen=True)
class Plan:
    """One run. Times are virtual ms since the beginning of the run.

    `settings`: region_id → setting name → value. `links`: pairs (dialling region, dialled region).
    `load_ms`: how long clients and faults act. `tick_ms`: the interval at which a region's loop
    looks at the time. `delay_ms`: the least and the most that a message takes. `loss`: the share of
    answers to clients that are lost, 0 to 1. `traits`: free words that the world looks for
    (`encoded`: messages travel as bytes; `pieces`: what clients send arrives in pieces).
    """

    seed: int
    regions: tuple[int, ...]
    settings: dict[int, dict[str, str]]
    clients: tuple[ClientPlan, ...]
    steps: tuple[Step, ...]
    links: tuple[tuple[int, int], ...]
    load_ms: int
    tick_ms: int
    delay_ms: tuple[int, int]
    loss: float
    clock_offsets_ms: dict[int, int]
    traits: frozenset[str]

    def intents(self) -> list[Intent]:
        return [step for step in self.steps if isinstance(step, Intent)]

    def faults(self) -> list[Fault]:
        return [step for step in self.steps if isinstance(step, Fault)]

    def with_steps(self, steps: tuple[Step, ...]) -> Plan:
        """The same run with only these steps."""
        return replace(self, steps=steps)
