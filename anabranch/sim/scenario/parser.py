"""Markdown to `Scenario`. All values carry line numbers, so that errors can name them.

A file is a header (front matter, or ``key: value`` lines of known keys above the first table),
prose, and tables whose first column is the time. All these tables are one scenario, one after the
other; other tables are prose.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from anabranch.sim.plan import Fault
from anabranch.sim.scenario.cells import (
    Arrow,
    Command,
    Directive,
    Label,
    Leave,
    Pause,
    Token,
    tokens_of,
)
from anabranch.sim.scenario.fault_cells import CellFault
from anabranch.sim.scenario.header import LINE, HeaderError, ScenarioHeader
from anabranch.sim.scenario.model import (
    MEMBERS_MAX,
    STEPS_MAX,
    TIME_MS_MAX,
    Call,
    Cut,
    ExpectedReply,
    HangUp,
    Heal,
    Scenario,
    ScenarioError,
    Step,
    Strike,
    Sync,
    Until,
    Wait,
    connection,
)

_TIME_COLUMNS = ("time", "when", "t")
PROSE_COLUMNS = ("explanation", "why", "note", "notes", "rule", "rules")
"""Heads of columns, in lower case, that are for readers only."""
_SEPARATOR = re.compile(r"\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?")
_AT = re.compile(r"(\d+)\s*(ms|s)")


@dataclass
class _Draft:
    """The parts read so far."""

    path: str
    header: ScenarioHeader = field(default_factory=ScenarioHeader)
    columns: tuple[int, ...] = ()
    steps: list[Step] = field(default_factory=list)
    blocked: dict[int, int] = field(default_factory=dict)
    """connection → line of the command for which its client still waits."""

    def wrong(self, line: int, text: str) -> ScenarioError:
        return ScenarioError(self.path, line, text)

    def take(self, key: str, value: str, line: int) -> None:
        """Reads a line of the header."""
        try:
            self.header.take(key, value, line)
        except HeaderError as error:
            raise self.wrong(error.line, error.text) from error


def load(path: Path) -> Scenario:
    """The scenario in a file; ScenarioError if it cannot be read."""
    try:
        return parse(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise ScenarioError(str(path), 0, f"cannot be read: {error}") from error


def parse(text: str, path: str = "scenario") -> Scenario:
    """The scenario that `text` describes; errors name `path`."""
    draft = _Draft(path)
    lines = text.splitlines()
    at = _front_matter(draft, lines)
    tables = 0
    while at < len(lines):
        if lines[at].lstrip().startswith("```"):
            at = _after_fence(lines, at)
        elif (
            lines[at].lstrip().startswith("|")
            and at + 1 < len(lines)
            and _SEPARATOR.fullmatch(lines[at + 1].strip())
        ):
            end = _end_of_table(lines, at)
            tables += _table(draft, lines, at, end)
            at = end
        else:
            if not tables:
                _prose(draft, lines[at], at + 1)
            at += 1
    if not tables:
        raise draft.wrong(
            len(lines),
            "no scenario: no table whose first column is Time"
            " and that has columns Region 1, Region 2 …",
        )
    for whose, line in draft.blocked.items():
        raise draft.wrong(
            line,
            f"the blocked command of {_client_name(whose)} has no expected reply in a later row",
        )
    try:
        scenario = _scenario(draft)
    except HeaderError as error:
        raise draft.wrong(error.line, error.text) from error
    if len(scenario.steps) > STEPS_MAX:
        raise draft.wrong(
            scenario.steps[STEPS_MAX].line, f"a scenario has at most {STEPS_MAX} steps"
        )
    if scenario.waits_ms() > TIME_MS_MAX:
        raise draft.wrong(
            0,
            f"the scenario waits {scenario.waits_ms()} ms in all; at most {TIME_MS_MAX} are taken",
        )
    return scenario


def _scenario(draft: _Draft) -> Scenario:
    header = draft.header
    regions = header.regions(draft.columns)
    for step in draft.steps:
        if isinstance(step, Strike) and not set(step.fault.regions) <= set(regions):
            raise draft.wrong(step.line, "the fault strikes a region that is not there")
    return Scenario(
        path=draft.path,
        title=header.title or Path(draft.path).stem,
        steps=tuple(draft.steps),
        columns=draft.columns,
        id_mode=header.id_mode,
        members=max(regions),
        names=header.names,
        settings=tuple(header.settings),
        words=frozenset(
            word for step in draft.steps if isinstance(step, Call) for word in step.argv[1:]
        ),
        own_settings=header.own_settings(),
        regions=regions,
        links_open=header.links_open,
        links=header.links(regions),
        judged=header.judged,
        until_ms=header.until_ms,
        surroundings=header.surroundings(),
    )


def _front_matter(draft: _Draft, lines: list[str]) -> int:
    """Reads ``---`` … ``---`` at the top; returns the line after it."""
    if not lines or lines[0].strip() != "---":
        return 0
    for at in range(1, len(lines)):
        if lines[at].strip() == "---":
            return at + 1
        if lines[at].strip() and not lines[at].lstrip().startswith("#"):
            key, colon, value = lines[at].partition(":")
            if not colon:
                raise draft.wrong(
                    at + 1, f"the header takes `key: value` lines, not '{lines[at].strip()}'"
                )
            draft.take(" ".join(key.split()), value.strip(), at + 1)
    raise draft.wrong(1, "the header that begins with --- has no end")


def _prose(draft: _Draft, line: str, number: int) -> None:
    heading = re.match(r"#+\s+(.*)", line)
    if heading is not None and not draft.header.title:
        draft.header.title = heading[1].strip()
    known = LINE.fullmatch(line.strip())
    if known is not None:
        draft.take(" ".join(known[1].split()), known[2].strip(), number)


def _after_fence(lines: list[str], at: int) -> int:
    fence = lines[at].lstrip()[:3]
    end = next(
        (n for n in range(at + 1, len(lines)) if lines[n].lstrip().startswith(fence)), len(lines)
    )
    return end + 1


def _end_of_table(lines: list[str], at: int) -> int:
    while at < len(lines) and lines[at].lstrip().startswith("|"):
        at += 1
    return at


def cells_of(line: str) -> list[str]:
    """The cells of a table line; ``\\|`` is a bar inside a cell."""
    inside = line.strip().removeprefix("|")
    if inside.endswith("|") and not inside.endswith("\\|"):
        inside = inside[:-1]
    return [cell.replace("\\|", "|").strip() for cell in re.split(r"(?<!\\)\|", inside)]


def _table(draft: _Draft, lines: list[str], at: int, end: int) -> int:
    """Reads one table; 1 if it is part of the scenario, 0 if it is prose."""
    heads = cells_of(lines[at])
    if heads[0].lower() not in _TIME_COLUMNS:
        return 0
    columns = [_column(draft, head, at + 1) for head in heads[1:]]
    regions = tuple(column for column in columns if column)
    if len(set(regions)) < len(regions) or not regions:
        raise draft.wrong(at + 1, "a table has a column for each of one or more different regions")
    if draft.columns and draft.columns != regions:
        raise draft.wrong(at + 1, "all tables of a file have the same regions")
    draft.columns = regions
    for n in range(at + 2, end):
        cells = cells_of(lines[n])
        if len(cells) != len(heads):
            raise draft.wrong(n + 1, f"{len(cells)} cells under {len(heads)} headings")
        by_region = {
            column: cell for column, cell in zip(columns, cells[1:], strict=True) if column
        }
        _row(draft, n + 1, cells[0].strip("_* "), by_region)
    return 1


def _column(draft: _Draft, head: str, line: int) -> int:
    """The region_id of a heading; 0 for a column of prose."""
    bare = head.strip("_* `").lower()
    if bare in PROSE_COLUMNS:
        return 0
    numbered = re.fullmatch(r"region\s+(\d+)", bare)
    if numbered is not None and 1 <= int(numbered[1]) <= MEMBERS_MAX:
        return int(numbered[1])
    if bare in draft.header.names:
        return draft.header.names.index(bare) + 1
    raise draft.wrong(
        line,
        f"a column is 'Region N', a name out of {', '.join(draft.header.names)},"
        f" or 'Explanation', not '{head}'",
    )


def _row(draft: _Draft, line: int, time: str, cells: dict[int, str]) -> None:
    read: dict[int, list[Token]] = {}
    for region, cell in cells.items():
        try:
            read[region] = tokens_of(cell)
        except ValueError as error:
            raise draft.wrong(line, f"region {region}: {error}") from error
    at = _AT.fullmatch(time)
    if at is not None:
        draft.steps.append(Until(line, time, int(at[1]) * (1000 if at[2] == "s" else 1)))
    directives = {
        region: token
        for region, tokens in read.items()
        for token in tokens
        if isinstance(token, Directive)
    }
    if directives:
        if any(tokens for region, tokens in read.items() if region not in directives):
            raise draft.wrong(line, "a row of Sync, Cut or Heal has no other commands")
        draft.steps.append(_directive(draft, line, time, directives))
        return
    for region, tokens in read.items():
        _Cell(draft, line, time, region, at is not None).read(tokens)


def _directive(draft: _Draft, line: int, time: str, directives: dict[int, Directive]) -> Step:
    kinds = {directive.kind for directive in directives.values()}
    regions = tuple(directives)
    if len(kinds) > 1:
        raise draft.wrong(line, "a row is either Sync, Cut or Heal")
    if len(regions) < 2:
        raise draft.wrong(line, f"{kinds.pop().capitalize()} takes two regions or more")
    if "cut" in kinds:
        return Cut(line, time, regions)
    if "heal" in kinds:
        return Heal(line, time, regions)
    effects = {}
    for name, number in (
        effect for directive in directives.values() for effect in directive.effects
    ):
        effects[_region_of(draft, line, name, "effects of")] = number
    return Sync(line, time, regions, tuple(effects.items()))


def _region_of(draft: _Draft, line: int, name: str, what: str) -> int:
    region = draft.header.region_of(name)
    if not region:
        raise draft.wrong(
            line, f"{what} '{name}': no such region among {', '.join(draft.header.names)}"
        )
    return region


def _client_name(whose: int) -> str:
    return f"client {whose}" if whose > 0 else f"region {-whose}"


class _Cell:
    """Appends the steps of one cell: commands, expected replies, pauses, faults."""

    def __init__(self, draft: _Draft, line: int, time: str, region: int, at_once: bool) -> None:
        self.draft = draft
        self.line = line
        self.time = time
        self.region = region
        self.at_once = at_once
        self.client = 0
        self.post = 0

    def read(self, tokens: list[Token]) -> None:
        """Reads all tokens."""
        at = 0
        while at < len(tokens):
            arrow = tokens[at + 1] if at + 1 < len(tokens) else None
            at += self._token(tokens[at], arrow if isinstance(arrow, Arrow) else None)

    def _token(self, token: Token, arrow: Arrow | None) -> int:
        """Reads one token, and the arrow behind a command; returns their number."""
        steps, line, time, region = self.draft.steps, self.line, self.time, self.region
        if isinstance(token, Command):
            self._command(token, arrow)
            return 1 if arrow is None else 2
        if isinstance(token, Pause):
            steps.append(Wait(line, time, token.duration_ms))
        elif isinstance(token, Label):
            self.client = token.client
            self.post += 1
        elif isinstance(token, Leave):
            steps.append(HangUp(line, time, region, self.client))
            self.draft.blocked.pop(connection(region, self.client), None)
        elif isinstance(token, CellFault):
            regions = (
                (region, _region_of(self.draft, line, token.to, "a fault to"))
                if token.to
                else (region,)
            )
            steps.append(
                Strike(line, time, Fault(0, token.kind, regions, token.duration_ms, token.draw))
            )
        elif isinstance(token, Arrow):
            whose = connection(region, self.client)
            if whose not in self.draft.blocked or token.expected is None:
                raise self.draft.wrong(
                    line, f"region {region}: an arrow without a command before it"
                )
            del self.draft.blocked[whose]
            steps.append(ExpectedReply(line, time, region, token.expected, self.client))
        return 1

    def _command(self, token: Command, arrow: Arrow | None) -> None:
        draft, line = self.draft, self.line
        whose = connection(self.region, self.client)
        if whose in draft.blocked:
            raise draft.wrong(
                line,
                f"{_client_name(whose)} gets a command while its command of line"
                f" {draft.blocked[whose]} is blocked",
            )
        expected = arrow.expected if arrow is not None else None
        blocks = arrow is not None and arrow.expected is None
        if blocks and self.at_once:
            raise draft.wrong(
                line, "a row with a time in ms does not wait for answers: leave (blocked) out"
            )
        draft.steps.append(
            Call(
                line,
                self.time,
                self.region,
                token.argv,
                expected,
                blocks,
                self.client,
                self.at_once,
                self.post,
            )
        )
        if blocks:
            draft.blocked[whose] = line
