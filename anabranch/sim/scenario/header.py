"""The header of a scenario file: ``key: value`` lines, and their meaning."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from anabranch.sim.plan import REGION_NAMES, Link, shape_of
from anabranch.sim.scenario.model import ID_MODES, MEMBERS_MAX, Surroundings

LINE = re.compile(
    r"(id-mode|regions|names|title|links|dials|judges|until|seed|clients|delay|tick|loss|traits"
    r"|set\s+[\w -]+|clock\s+[\w-]+)\s*:\s*(.+)"
)
"""A line outside the front matter that belongs to the header."""
_KNOWN = (
    "id-mode, regions, names, title, links, dials, judges, until, `set NAME`, `set REGION NAME`, "
    "and seed, delay, tick, loss, traits, clients, `clock REGION`"
)
SHAPES = ("mesh", "line", "ring", "star")


class HeaderError(Exception):
    """A line of the header is wrong."""

    def __init__(self, line: int, text: str) -> None:
        super().__init__(text)
        self.line = line
        self.text = text


@dataclass
class ScenarioHeader:
    """The lines of the header. Names of regions are resolved when all lines have been read."""

    title: str = ""
    id_mode: str = "strict"
    names: tuple[str, ...] = REGION_NAMES
    settings: list[tuple[str, str]] = field(default_factory=list)
    links_open: bool = False
    judged: bool = False
    until_ms: int = 0
    seed: int = 0
    delay_ms: tuple[int, int] = Surroundings.delay_ms
    tick_ms: int = Surroundings.tick_ms
    loss: float = 0.0
    traits: tuple[str, ...] = ()
    clients: tuple[int, ...] = ()
    _regions: tuple[int, str] = (0, "")
    _dials: tuple[int, str] = (0, "mesh")
    # (line, region, setting, value)
    _own: list[tuple[int, str, str, str]] = field(default_factory=list)
    _clocks: list[tuple[int, str, int]] = field(default_factory=list)

    def take(self, key: str, value: str, line: int) -> None:
        """Reads one line; HeaderError if the line is wrong."""
        first, _, rest = key.partition(" ")
        if first == "set" and rest and value:
            region, _, name = rest.strip().rpartition(" ")
            if region:
                self._own.append((line, region.strip(), name, value))
            else:
                self.settings.append((name, value))
        elif first == "clock" and rest:
            self._clocks.append((line, rest.strip(), _milliseconds(line, key, value, r"[+-]?\d+")))
        elif not (self._take_scene(key, value, line) or self._take_surroundings(key, value, line)):
            raise HeaderError(line, f"the header knows {_KNOWN}, not '{key}'")

    def _take_scene(self, key: str, value: str, line: int) -> bool:
        """Reads a line that holds for all clusters; False if it is another one."""
        if key == "title":
            self.title = value
        elif key == "id-mode":
            if value not in ID_MODES:
                raise HeaderError(line, f"id-mode is one of {', '.join(ID_MODES)}, not '{value}'")
            self.id_mode = value
        elif key == "regions":
            self._regions = line, value
        elif key == "names":
            self.names = tuple(name.strip() for name in value.split(","))
            if not all(re.fullmatch(r"[\w-]+", name) for name in self.names) or len(
                set(self.names)
            ) < len(self.names):
                raise HeaderError(
                    line, f"names are different words with commas between them, not '{value}'"
                )
        elif key == "links":
            if value not in ("open", "closed"):
                raise HeaderError(line, f"links are open or closed, not '{value}'")
            self.links_open = value == "open"
        elif key == "dials":
            self._dials = line, value
        elif key == "judges":
            if value not in ("all", "none"):
                raise HeaderError(line, f"judges are all or none, not '{value}'")
            self.judged = value == "all"
        elif key == "until":
            self.until_ms = _milliseconds(line, key, value, r"\d+")
        else:
            return False
        return True

    def _take_surroundings(self, key: str, value: str, line: int) -> bool:
        """Reads a line that holds only for the simulator; False if it is another one."""
        if key == "seed":
            self.seed = int(_matched(line, key, value, r"(\d+)", "a number"))
        elif key == "tick":
            self.tick_ms = max(1, _milliseconds(line, key, value, r"\d+"))
        elif key == "delay":
            found = re.fullmatch(r"(\d+)(?:\.\.(\d+))? ms", value)
            if found is None or int(found[1]) > int(found[2] or found[1]):
                raise HeaderError(
                    line, f"delay is a range of milliseconds such as `0..2 ms`, not '{value}'"
                )
            self.delay_ms = int(found[1]), int(found[2] or found[1])
        elif key == "loss":
            self.loss = float(_matched(line, key, value, r"(0?\.\d+|0|1)", "a share such as 0.02"))
        elif key == "traits":
            self.traits = tuple(word.strip() for word in value.split(","))
        elif key == "clients":
            _matched(line, key, value, r"(\d+(?:\s*,\s*\d+)*)", "labels with commas between them")
            self.clients = tuple(int(word) for word in value.split(","))
        else:
            return False
        return True

    # -- names of regions

    def region_of(self, name: str) -> int:
        """The region with that name or number; 0 if there is none."""
        if name.isdigit() and 1 <= int(name) <= MEMBERS_MAX:
            return int(name)
        return self.names.index(name) + 1 if name in self.names else 0

    def _known(self, line: int, name: str) -> int:
        region = self.region_of(name)
        if not region:
            raise HeaderError(line, f"'{name}' is no region: they are {', '.join(self.names)}")
        return region

    def regions(self, columns: tuple[int, ...]) -> tuple[int, ...]:
        """The region_ids of the scenario, ascending.

        The line gives their number or their names; without it, the columns of the table decide.
        """
        line, value = self._regions
        if not value:
            return tuple(range(1, max(columns) + 1))
        if value.isdigit():
            if not 2 <= int(value) <= MEMBERS_MAX:
                raise HeaderError(
                    line, f"regions is a number from 2 to {MEMBERS_MAX}, not '{value}'"
                )
            regions = tuple(range(1, int(value) + 1))
        else:
            regions = tuple(sorted({self._known(line, name.strip()) for name in value.split(",")}))
        for column in columns:
            if column not in regions:
                raise HeaderError(
                    line, f"regions: {value}, but there is a column of region {column}"
                )
        return regions

    def links(self, regions: tuple[int, ...]) -> tuple[Link, ...]:
        """(receiver, sender) pairs, in the order in which the receivers dial."""
        line, value = self._dials
        if value in SHAPES:
            return shape_of(value, regions)
        links: list[Link] = []
        for part in value.split(","):
            found = re.fullmatch(r"\s*([\w-]+)\s+from\s+([\w-]+)\s*", part)
            if found is None:
                raise HeaderError(
                    line,
                    f"dials is one of {', '.join(SHAPES)}, or `us from eu, eu from us`,"
                    f" not '{value}'",
                )
            links.append((self._known(line, found[1]), self._known(line, found[2])))
        return tuple(links)

    def own_settings(self) -> tuple[tuple[int, str, str], ...]:
        """(region_id, name, value) triples."""
        return tuple(
            (self._known(line, region), name, value) for line, region, name, value in self._own
        )

    def surroundings(self) -> Surroundings:
        """The properties that only the simulator has."""
        clocks = tuple(
            (self._known(line, region), offset_ms) for line, region, offset_ms in self._clocks
        )
        return Surroundings(
            self.seed, self.delay_ms, self.tick_ms, self.loss, self.traits, clocks, self.clients
        )


def _matched(line: int, key: str, value: str, pattern: str, what: str) -> str:
    found = re.fullmatch(pattern, value)
    if found is None:
        raise HeaderError(line, f"{key} is {what}, not '{value}'")
    return found[1]


def _milliseconds(line: int, key: str, value: str, number: str) -> int:
    return int(_matched(line, key, value, rf"({number})\s*ms", "a time such as `300 ms`"))
