"""A scenario as values: steps in the order in which they run, without Markdown or clusters."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Optional, Union

from anabranch.sim.plan import REGION_NAMES, Fault, Link
from anabranch.sim.scenario.expectation import Expectation

ID_MODES = ("strict", "semi-strict", "liberal")
MEMBERS_MAX = len(REGION_NAMES)
CLIENT_MAX = 699
"""The highest label of a client."""
STEPS_MAX = 10_000
"""Most steps of a scenario."""
TIME_MS_MAX = 3_600_000
"""Most time that a scenario may wait in all, and that a run in virtual time may take."""


class ScenarioError(Exception):
    """A scenario file cannot be read; the text begins with ``path:line:``."""

    def __init__(self, path: str, line: int, text: str) -> None:
        super().__init__(f"{path}:{line}: {text}")
        self.path = path
        self.line = line
        self.text = text


def connection(region: int, client: int) -> int:
    """The key of a client's connection: its label, or -region for the region's own client."""
    return client or -region


@dataclass(frozen=True)
class Call:
    """A command to one region. `expected` None: any reply except an error is right."""

    line: int
    time: str
    region: int
    argv: tuple[bytes, ...]
    expected: Optional[Expectation]
    blocks: bool = False
    """The command must not answer yet: an `ExpectedReply` on the same connection follows."""
    client: int = 0
    """The client's label, 0 for the region's own client."""
    at_once: bool = False
    """The row has a time in ms: the next step does not wait for the answer.

    Without `expected` any reply is right.
    """
    post: int = 0
    """Commands of a row with the same number are sent together."""


@dataclass(frozen=True)
class ExpectedReply:
    """The reply to the command for which this client still waits."""

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
    """The regions open the uncut links among them, become level, and close them.

    Links that are open throughout stay open.
    """

    line: int
    time: str
    regions: tuple[int, ...]
    effects: tuple[tuple[int, int], ...] = ()
    """(region_id, how many of its effects the row must carry) pairs."""


@dataclass(frozen=True)
class Cut:
    """The links among these regions stay closed until healed, in Sync rows, too."""

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
    """Time passes in every region."""

    line: int
    time: str
    duration_ms: int


@dataclass(frozen=True)
class Until:
    """Time passes until `at_ms` after the beginning; none if that moment is over."""

    line: int
    time: str
    at_ms: int


@dataclass(frozen=True)
class Strike:
    """A fault begins (`sim.world.faults`); the `at_ms` of the fault is ignored."""

    line: int
    time: str
    fault: Fault


Step = Union[Call, ExpectedReply, HangUp, Sync, Cut, Heal, Wait, Until, Strike]


@dataclass(frozen=True)
class Surroundings:
    """Properties of the simulator: the seed of all draws, and the plan's network and clocks.

    See `sim.plan.Plan`.
    """

    seed: int = 0
    delay_ms: tuple[int, int] = (0, 2)
    tick_ms: int = 10
    loss: float = 0.0
    traits: tuple[str, ...] = ()
    clocks: tuple[tuple[int, int], ...] = ()
    """(region_id, ms by which its clock is ahead) pairs."""
    clients: tuple[int, ...] = ()
    """Labels of clients that exist from the start, for faults that strike any client."""


@dataclass(frozen=True)
class Scenario:
    """One scenario file."""

    path: str
    title: str
    steps: tuple[Step, ...]
    columns: tuple[int, ...]
    """region_ids of the table's columns, in order."""
    id_mode: str = "strict"
    members: int = 0
    """The least number of regions that a live cluster must have; region_ids run 1, 2, 3 …"""
    names: tuple[str, ...] = REGION_NAMES
    settings: tuple[tuple[str, str], ...] = ()
    """(name, value) pairs that hold in every region while the scenario runs."""
    words: frozenset[bytes] = field(default_factory=frozenset)
    """Every argument of every command; the keys are among them."""
    own_settings: tuple[tuple[int, str, str], ...] = ()
    """(region_id, name, value): settings of one region."""
    regions: tuple[int, ...] = ()
    """The regions of the scenario; other regions of a live cluster take no part."""
    links_open: bool = False
    """Links are open throughout, not only in Sync rows."""
    links: tuple[Link, ...] = ()
    """The links of the scenario."""
    judged: bool = False
    """All judges watch, and the regions must converge in the end."""
    until_ms: int = 0
    """The earliest end of the scenario, ms after its beginning."""
    surroundings: Surroundings = Surroundings()
    time_ms_max: int = TIME_MS_MAX
    """A run in virtual time ends with an error after this time."""

    def name_of(self, region: int) -> str:
        """The name of a region, or its number if the file does not name it."""
        return self.names[region - 1] if region <= len(self.names) else str(region)

    def waits_ms(self) -> int:
        """The time that the scenario waits in all, whatever is answered."""
        waits = sum(step.duration_ms for step in self.steps if isinstance(step, Wait))
        untils = [step.at_ms for step in self.steps if isinstance(step, Until)]
        return waits + max([*untils, self.until_ms])

    def calls(self) -> list[Call]:
        """The commands alone, in order."""
        return [step for step in self.steps if isinstance(step, Call)]

    def faults(self) -> list[Fault]:
        """The faults alone, in order."""
        return [step.fault for step in self.steps if isinstance(step, Strike)]

    def settings_of(self, region: int) -> dict[str, str]:
        """The settings of a region: the ID mode, the settings of all regions, its own ones."""
        mode = {"crdt-xadd-id-uniqueness-mode": self.id_mode} if self.id_mode != "strict" else {}
        return {
            **mode,
            **dict(self.settings),
            **{name: value for one, name, value in self.own_settings if one == region},
        }
