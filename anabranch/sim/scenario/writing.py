"""Writes a simulated run as a scenario file: the header is the world, each row is one moment.

The file, read again and run in virtual time, repeats the run: the same world from the same seed,
the same commands at the same times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Optional

from anabranch.sim.history import Words
from anabranch.sim.plan import REGION_NAMES, Fault, Plan, shape_of
from anabranch.sim.scenario.fault_cells import written
from anabranch.sim.scenario.header import SHAPES
from anabranch.sim.scenario.live import MODE_SETTING
from anabranch.sim.scenario.recording import ANYTHING, Told

_PLAIN: Final = frozenset(
    b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:*$><=~+()[]{}@%^&/,;!?#"
)
_QUOTED: Final = _PLAIN | frozenset(b" '")


def write_story(plan: Plan, told: Sequence[Told], title: str, prose: str = "") -> str:
    """The scenario file of a run that all judges watch.

    It consists of the plan's world and faults, and of the commands that clients sent
    (`recording.Notes`). `prose` stands between title and table. The plan's clients and intents are
    not used.
    """
    rows = _Rows(plan.regions)
    named = {
        word.removeprefix(b"(").decode("latin-1")
        for one in told
        for words in one.commands
        for word in words
    }
    acts: list[Told | Fault] = [*told, *plan.faults()]
    # At equal times faults come last, as in plans.
    for act in sorted(acts, key=lambda act: act.at_ms):
        if isinstance(act, Fault):
            rows.put(act.at_ms, act.regions[0], _fault(act), alone=True)
        else:
            rows.put(act.at_ms, act.region, _told(act, named), alone=False)
    until_ms = max([plan.load_ms, *(act.at_ms for act in acts)])
    heads = ["Time", *(REGION_NAMES[region - 1] for region in plan.regions)]
    lines = ["---", *_header(plan, until_ms), "---", f"# {title}", ""]
    lines += [prose.strip(), ""] if prose.strip() else []
    lines += [
        table_line(heads),
        table_line(["---"] * len(heads)),
        *(table_line(row) for row in rows.cells()),
    ]
    return "\n".join(lines) + "\n"


class _Rows:
    """The rows of the table, filled from left to right.

    A new row begins when the next text belongs left of the last one, or into its cell and cannot
    share the cell.
    """

    def __init__(self, regions: Sequence[int]) -> None:
        self._place = {region: place for place, region in enumerate(regions)}
        self._rows: list[tuple[int, list[list[str]]]] = []
        self._last = -1  # the column that was filled last
        self._alone = False  # the last text cannot share its cell

    def put(self, at_ms: int, region: int, text: str, alone: bool) -> None:
        """Appends the next text."""
        column = self._place[region]
        taken = column < self._last or (column == self._last and (alone or self._alone))
        if not self._rows or self._rows[-1][0] != at_ms or taken:
            self._rows.append((at_ms, [[] for _ in self._place]))
        self._rows[-1][1][column].append(text)
        self._last, self._alone = column, alone

    def cells(self) -> list[list[str]]:
        """All rows as cells."""
        return [[f"{at_ms} ms", *("<br/>".join(cell) for cell in row)] for at_ms, row in self._rows]


def table_line(cells: Sequence[str]) -> str:
    """A row of a table."""
    return f"| {' | '.join(cells)} |"


def _fault(fault: Fault) -> str:
    return written(fault, REGION_NAMES[fault.regions[1] - 1] if len(fault.regions) > 1 else "")


def _told(told: Told, named: set[str]) -> str:
    """A client's commands, with the IDs returned to them if a command names those."""
    parts = [f"{told.client}:"]
    for place, words in enumerate(told.commands):
        parts.append(f"`{written_words(words)}`")
        shown = [each if each in named else ANYTHING for each in told.returns.get(place, ())]
        if any(each != ANYTHING for each in shown):
            parts.append(
                "→ " + (f"[{', '.join(shown)}]" if words[0].upper() == b"EXEC" else shown[0])
            )
    return " ".join(parts) if told.commands else f"{told.client}: hang up"


def written_words(words: Words) -> str:
    """A command between backticks."""
    return " ".join(written_word(word) for word in words)


def written_word(word: bytes) -> str:
    """A word as `cells.words_of` splits it, without characters that have a meaning in a table."""
    if word and _PLAIN.issuperset(word):
        return word.decode()
    return '"' + "".join(chr(byte) if byte in _QUOTED else f"\\x{byte:02x}" for byte in word) + '"'


def _header(plan: Plan, until_ms: int) -> list[str]:
    lines = [
        "judges: all",
        f"seed: {plan.seed}",
        f"regions: {', '.join(REGION_NAMES[region - 1] for region in plan.regions)}",
    ]
    lines += ["links: open", *_dials(plan)]
    lines += [
        f"delay: {plan.delay_ms[0]}..{plan.delay_ms[1]} ms",
        f"tick: {plan.tick_ms} ms",
        f"until: {until_ms} ms",
    ]
    lines += [f"loss: {plan.loss:f}".rstrip("0")] if plan.loss else []
    lines += [f"traits: {', '.join(sorted(plan.traits))}"] if plan.traits else []
    lines += [
        f"clock {REGION_NAMES[region - 1]}: {offset_ms} ms"
        for region, offset_ms in plan.clock_offsets_ms.items()
        if offset_ms
    ]
    if any(fault.kind == "client crash" for fault in plan.faults()):
        lines.append(f"clients: {', '.join(str(client.number) for client in plan.clients)}")
    return [*lines, *_settings(plan)]


def _dials(plan: Plan) -> list[str]:
    for shape in SHAPES:
        if plan.links == shape_of(shape, plan.regions):
            return [] if shape == "mesh" else [f"dials: {shape}"]
    return [
        "dials: "
        + ", ".join(
            f"{REGION_NAMES[one - 1]} from {REGION_NAMES[other - 1]}" for one, other in plan.links
        )
    ]


def _settings(plan: Plan) -> list[str]:
    names = dict.fromkeys(name for region in plan.regions for name in plan.settings[region])
    return settings_lines(
        {name: {one: plan.settings[one].get(name) for one in plan.regions} for name in names},
        {one: REGION_NAMES[one - 1] for one in plan.regions},
    )


def settings_lines(
    settings: Mapping[str, Mapping[int, Optional[str]]], names: Mapping[int, str]
) -> list[str]:
    """The lines of settings that all regions share, and of those that each has for itself.

    Args:
        settings: Name of a setting → region_id → value.
        names: region_id → name of the region.
    """
    lines: list[str] = []
    for name, values in settings.items():
        shared = set(values.values())
        if None not in shared and len(shared) == 1:
            value = shared.pop()
            lines.append(f"id-mode: {value}" if name == MODE_SETTING else f"set {name}: {value}")
        else:
            lines += [
                f"set {names[region]} {name}: {value}"
                for region, value in values.items()
                if value is not None
            ]
    return lines
