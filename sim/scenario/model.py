"""A scenario as values: steps in the order in which they run. Nothing here knows of Markdown or of clusters."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Optional, Union

from sim.scenario.expectation import Expectation

DEFAULT_NAMES = ("us", "eu", "ap")
ID_MODES = ("strict", "semi-strict", "liberal")


class ScenarioError(Exception):
    """A scenario file that cannot be read; the text begins with ``path:line:``."""

    def __init__(self, path: str, line: int, text: str) -> None:
        super().__init__(f"{path}:{line}: {text}")
        self.path = path
        self.line = line
        self.text = text


@dataclass(frozen=True)
class Call:
    """A command of one region. `expected` None: any reply but an error will do."""

    line: int
    time: str
    region: int
    argv: tuple[bytes, ...]
    expected: Optional[Expectation]
    blocks: bool = False
    """The command must not answer yet: an `Answer` of the same region follows."""


@dataclass(frozen=True)
class Answer:
    """The reply to the command that this region's client still waits for."""

    line: int
    time: str
    region: int
    expected: Expectation


@dataclass(frozen=True)
class Sync:
    """Regions open the links among them that are not cut, level with each other, and close them."""

    line: int
    time: str
    regions: tuple[int, ...]
    effects: tuple[tuple[int, int], ...] = ()
    """(region_id, how many of its effects the row must carry)."""


@dataclass(frozen=True)
class Cut:
    """The links among these regions stay closed, in Sync rows too, until healed."""

    line: int
    time: str
    regions: tuple[int, ...]


@dataclass(frozen=True)
class Heal:
    """Ends a cut of the links among these regions."""

    line: int
    time: str
    regions: tuple[int, ...]


@dataclass(frozen=True)
class Wait:
    """Lets time pass in every region."""

    line: int
    time: str
    duration_ms: int


Step = Union[Call, Answer, Sync, Cut, Heal, Wait]


@dataclass(frozen=True)
class Scenario:
    """One scenario file."""

    path: str
    title: str
    steps: tuple[Step, ...]
    columns: tuple[int, ...]
    """region_ids of the table's columns, in their order."""
    id_mode: str = "strict"
    members: int = 0
    """How many regions the cluster must have at least; region_ids run 1, 2, 3 …"""
    names: tuple[str, ...] = DEFAULT_NAMES
    settings: tuple[tuple[str, str], ...] = ()
    """(name, value) of settings that every region has while the scenario runs."""
    words: frozenset[bytes] = field(default_factory=frozenset)
    """Every argument of every command: keys are among them."""

    def name_of(self, region: int) -> str:
        """The name of a region, or its number where the file names none."""
        return self.names[region - 1] if region <= len(self.names) else str(region)

    def calls(self) -> list[Call]:
        """The commands alone, in order."""
        return [step for step in self.steps if isinstance(step, Call)]
