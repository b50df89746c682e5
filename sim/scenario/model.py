"""A scenario as values: steps in the order in which they run. Nothing here knows of Markdown or of clusters."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Optional, Union

from anabranch.sim.plan import Fault
from anabranch.sim.scenario.expectation import Expectation

DEFAULT_NAMES = (
    "us",
    "eu",
    "ap",
    "sa",
    "af",
    "oc",
    "me",
    "in",
    "r9",
    "r10",
    "r11",
    "r12",
    "r13",
    "r14",
    "r15",
    "r16",
)
ID_MODES = ("strict", "semi-strict", "liberal")
MEMBERS_MAX = len(DEFAULT_NAMES)
CLIENT_MAX = 699
"""The highest label of a client."""

Link = tuple[int, int]
"""(receiver, sender), region_ids: a link has one direction."""


class ScenarioError(Exception):
    """A scenario file that cannot be read; the text begins with ``path:line:``."""

    def __init__(self, path: str, line: int, text: str) -> None:
        super().__init__(f"{path}:{line}: {text}")
        self.path = path
        self.line = line
        self.text = text


def connection(region: int, client: int) -> int:
    """What a client's connection is known by: its label, or -region for the one without."""
    return client or -region


@dataclass(frozen=True)
class Call:
    """A command of one region. `expected` None: any reply but an error will do."""

    line: int
    time: str
    region: int
    argv: tuple[bytes, ...]
    expected: Optional[Expectation]
    blocks: bool = False
    """The command must not answer yet: an `ExpectedReply` on the same connection follows."""
    client: int = 0
    """The client's label, 0 for the region's own."""
    at_once: bool = False
    """The row has a time in ms: nobody waits for the answer before the next step, and without `expected` any will do."""
    post: int = 0
    """Commands of a row with the same number go out together."""


@dataclass(frozen=True)
class ExpectedReply:
    """The reply to the command that this client still waits for."""

    line: int
    time: str
    region: int
    expected: Expectation
    client: int = 0


@dataclass(frozen=True)
class HangUp:
    """The client closes its connection."""

    line: int
    time: str
    region: int
    client: int = 0


@dataclass(frozen=True)
class Sync:
    """Regions open the links among them that are not cut, level with each other, and close them. Open links are left open."""

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


@dataclass(frozen=True)
class Until:
    """Lets time pass until so long after the beginning; none if that is over."""

    line: int
    time: str
    at_ms: int


@dataclass(frozen=True)
class Strike:
    """A fault begins (`sim.world.faults`); its own time does not count."""

    line: int
    time: str
    fault: Fault


Step = Union[Call, ExpectedReply, HangUp, Sync, Cut, Heal, Wait, Until, Strike]


@dataclass(frozen=True)
class Surroundings:
    """What only the simulator has: the seed of everything drawn, and what a `sim.plan.Plan` says of network and clocks."""

    seed: int = 0
    delay_ms: tuple[int, int] = (0, 2)
    tick_ms: int = 10
    loss: float = 0.0
    traits: tuple[str, ...] = ()
    clocks: tuple[tuple[int, int], ...] = ()
    """(region_id, how far its clock is ahead, ms)."""
    clients: tuple[int, ...] = ()
    """Labels of clients that are there from the start, for faults that strike any one."""


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
    """How many regions a live cluster must have at least; region_ids run 1, 2, 3 …"""
    names: tuple[str, ...] = DEFAULT_NAMES
    settings: tuple[tuple[str, str], ...] = ()
    """(name, value) of settings that every region has while the scenario runs."""
    words: frozenset[bytes] = field(default_factory=frozenset)
    """Every argument of every command: keys are among them."""
    own_settings: tuple[tuple[int, str, str], ...] = ()
    """(region_id, name, value) of settings of one region."""
    regions: tuple[int, ...] = ()
    """The regions that there are; live, others take no part."""
    links_open: bool = False
    """Links are open throughout, not in Sync rows alone."""
    links: tuple[Link, ...] = ()
    """Those that there are."""
    judged: bool = False
    """All judges watch, and in the end all regions must come to hold the same."""
    until_ms: int = 0
    """The end comes no earlier."""
    surroundings: Surroundings = Surroundings()

    def name_of(self, region: int) -> str:
        """The name of a region, or its number where the file names none."""
        return self.names[region - 1] if region <= len(self.names) else str(region)

    def calls(self) -> list[Call]:
        """The commands alone, in order."""
        return [step for step in self.steps if isinstance(step, Call)]

    def faults(self) -> list[Fault]:
        """The faults alone, in order."""
        return [step.fault for step in self.steps if isinstance(step, Strike)]

    def settings_of(self, region: int) -> dict[str, str]:
        """What a region is set to, by name: the mode, what all have, what is its own."""
        mode = {"crdt-xadd-id-uniqueness-mode": self.id_mode} if self.id_mode != "strict" else {}
        return {
            **mode,
            **dict(self.settings),
            **{name: value for one, name, value in self.own_settings if one == region},
        }
