"""A run as a value: everything that a seed decides beforehand. `sim.draw` makes it, the shrinker takes parts of it away.

Whatever is decided only while a run goes on (which entry a consumer acknowledges, how late a message is) comes from a `Random` of its own:
each step has its `draw`, each link its own stream. So taking one step away changes as little as possible of the others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Union


@dataclass(frozen=True)
class Intent:
    """A client is to do something at `at_ms`. What it does follows from its kind, what it knows then, and `draw` (64 bits)."""

    at_ms: int
    client: int
    draw: int


@dataclass(frozen=True)
class Fault:
    """Something goes wrong at `at_ms` and, if it is a state, ends after `duration_ms`. `regions` are those that it strikes."""

    at_ms: int
    kind: str
    regions: tuple[int, ...]
    duration_ms: int
    draw: int


Step = Union[Intent, Fault]


@dataclass(frozen=True)
class ClientPlan:
    """One simulated client. `kind` names a class of `sim.load`; `home` is the region_id it prefers; `keys` those that it uses."""

    number: int
    kind: str
    home: int
    keys: tuple[bytes, ...]
    draw: int


@dataclass(frozen=True)
class Plan:
    """One run. Times are virtual ms since its beginning.

    `settings`: by region_id, name → value. `links`: (who dials, whom). `load_ms`: how long clients and faults act. `tick_ms`: how often a
    region's loop looks at the time. `delay_ms`: least and most that a message takes. `loss`: of answers to clients, 0 to 1. `traits`: free
    words that the world looks for (`encoded`: messages travel as bytes).
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
        """The same run with fewer steps."""
        return replace(self, steps=steps)
