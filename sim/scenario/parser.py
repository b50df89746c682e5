"""Markdown to `Scenario`. Line numbers are carried from the first character to the last error.

A file is a header (front matter, or ``key: value`` lines of known keys above the first table), prose, and one or several tables whose
first column is the time. All tables of a file are one scenario, one after the other; other tables are prose.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from sim.scenario.cells import Arrow, Command, Directive, Pause, Token, tokens_of
from sim.scenario.model import DEFAULT_NAMES, ID_MODES, Answer, Call, Cut, Heal, Scenario, ScenarioError, Step, Sync, Wait

_TIME_COLUMNS = ("time", "when", "t")
_PROSE_COLUMNS = ("explanation", "why", "note", "notes", "rule", "rules")
_SEPARATOR = re.compile(r"\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?")
_HEADER_LINE = re.compile(r"(id-mode|regions|names|set\s+[\w-]+)\s*:\s*(.+)")
_MEMBERS_MAX = 16


@dataclass
class _Draft:
    """What has been read so far."""

    path: str
    title: str = ""
    id_mode: str = "strict"
    members: int = 0
    names: tuple[str, ...] = DEFAULT_NAMES
    settings: list[tuple[str, str]] = field(default_factory=list)
    columns: tuple[int, ...] = ()
    steps: list[Step] = field(default_factory=list)
    blocked: dict[int, int] = field(default_factory=dict)
    """region_id → line of the command that its client still waits for."""

    def wrong(self, line: int, text: str) -> ScenarioError:
        return ScenarioError(self.path, line, text)


def load(path: Path) -> Scenario:
    """The scenario in a file; ScenarioError if it cannot be read."""
    try:
        return parse(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise ScenarioError(str(path), 0, f"cannot be read: {error}") from error


def parse(text: str, path: str = "scenario") -> Scenario:
    """The scenario that `text` describes; `path` is what errors name."""
    draft = _Draft(path)
    lines = text.splitlines()
    at = _front_matter(draft, lines)
    tables = 0
    while at < len(lines):
        if lines[at].lstrip().startswith("```"):
            at = _after_fence(lines, at)
        elif lines[at].lstrip().startswith("|") and at + 1 < len(lines) and _SEPARATOR.fullmatch(lines[at + 1].strip()):
            end = _end_of_table(lines, at)
            tables += _table(draft, lines, at, end)
            at = end
        else:
            if not tables:
                _prose(draft, lines[at], at + 1)
            at += 1
    if not tables:
        raise draft.wrong(len(lines), "no scenario: no table whose first column is Time and that has columns Region 1, Region 2 …")
    for region, line in draft.blocked.items():
        raise draft.wrong(line, f"nothing says what the blocked command of region {region} returns in the end")
    return _scenario(draft)


def _scenario(draft: _Draft) -> Scenario:
    members = max([draft.members, *draft.columns])
    if draft.members and draft.members < max(draft.columns):
        raise draft.wrong(1, f"regions: {draft.members}, but there is a column of region {max(draft.columns)}")
    words = frozenset(word for step in draft.steps if isinstance(step, Call) for word in step.argv[1:])
    title = draft.title or Path(draft.path).stem
    return Scenario(draft.path, title, tuple(draft.steps), draft.columns, draft.id_mode, members, draft.names, tuple(draft.settings), words)


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
                raise draft.wrong(at + 1, f"the header takes `key: value` lines, not '{lines[at].strip()}'")
            _setting(draft, key.strip(), value.strip(), at + 1)
    raise draft.wrong(1, "the header that begins with --- has no end")


def _prose(draft: _Draft, line: str, number: int) -> None:
    heading = re.match(r"#+\s+(.*)", line)
    if heading is not None and not draft.title:
        draft.title = heading[1].strip()
    known = _HEADER_LINE.fullmatch(line.strip())
    if known is not None:
        _setting(draft, known[1], known[2].strip(), number)


def _setting(draft: _Draft, key: str, value: str, line: int) -> None:
    if key == "id-mode":
        if value not in ID_MODES:
            raise draft.wrong(line, f"id-mode is one of {', '.join(ID_MODES)}, not '{value}'")
        draft.id_mode = value
    elif key == "regions":
        if not value.isdigit() or not 2 <= int(value) <= _MEMBERS_MAX:
            raise draft.wrong(line, f"regions is a number from 2 to {_MEMBERS_MAX}, not '{value}'")
        draft.members = int(value)
    elif key == "names":
        draft.names = tuple(name.strip() for name in value.split(","))
        if not all(re.fullmatch(r"[\w-]+", name) for name in draft.names) or len(set(draft.names)) < len(draft.names):
            raise draft.wrong(line, f"names are different words with commas between them, not '{value}'")
    elif key == "title":
        draft.title = value
    elif key.startswith("set ") and value:
        draft.settings.append((key.removeprefix("set ").strip(), value))
    else:
        raise draft.wrong(line, f"the header knows id-mode, regions, names, title and `set NAME`, not '{key}'")


def _after_fence(lines: list[str], at: int) -> int:
    fence = lines[at].lstrip()[:3]
    end = next((n for n in range(at + 1, len(lines)) if lines[n].lstrip().startswith(fence)), len(lines))
    return end + 1


def _end_of_table(lines: list[str], at: int) -> int:
    while at < len(lines) and lines[at].lstrip().startswith("|"):
        at += 1
    return at


def _split(line: str) -> list[str]:
    """The cells of a table line; ``\\|`` is a bar inside a cell."""
    inside = line.strip().removeprefix("|")
    if inside.endswith("|") and not inside.endswith("\\|"):
        inside = inside[:-1]
    return [cell.replace("\\|", "|").strip() for cell in re.split(r"(?<!\\)\|", inside)]


def _table(draft: _Draft, lines: list[str], at: int, end: int) -> int:
    """Reads one table; 1 if it is part of the scenario, 0 if it is prose."""
    heads = _split(lines[at])
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
        cells = _split(lines[n])
        if len(cells) != len(heads):
            raise draft.wrong(n + 1, f"{len(cells)} cells under {len(heads)} headings")
        by_region = {column: cell for column, cell in zip(columns, cells[1:], strict=True) if column}
        _row(draft, n + 1, cells[0].strip("_* "), by_region)
    return 1


def _column(draft: _Draft, head: str, line: int) -> int:
    """The region_id of a heading; 0 for a column of prose."""
    bare = head.strip("_* `").lower()
    if bare in _PROSE_COLUMNS:
        return 0
    numbered = re.fullmatch(r"region\s+(\d+)", bare)
    if numbered is not None and 1 <= int(numbered[1]) <= _MEMBERS_MAX:
        return int(numbered[1])
    if bare in draft.names:
        return draft.names.index(bare) + 1
    raise draft.wrong(line, f"a column is 'Region N', a name out of {', '.join(draft.names)}, or 'Explanation', not '{head}'")


def _row(draft: _Draft, line: int, time: str, cells: dict[int, str]) -> None:
    read: dict[int, list[Token]] = {}
    for region, cell in cells.items():
        try:
            read[region] = tokens_of(cell)
        except ValueError as error:
            raise draft.wrong(line, f"region {region}: {error}") from error
    directives = {region: token for region, tokens in read.items() for token in tokens if isinstance(token, Directive)}
    if directives:
        if any(tokens for region, tokens in read.items() if region not in directives):
            raise draft.wrong(line, "a row of Sync, Cut or Heal has no other commands")
        draft.steps.append(_directive(draft, line, time, directives))
        return
    for region, tokens in read.items():
        _cell(draft, line, time, region, tokens)


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
    for name, number in (effect for directive in directives.values() for effect in directive.effects):
        effects[_region_of(draft, line, name)] = number
    return Sync(line, time, regions, tuple(effects.items()))


def _region_of(draft: _Draft, line: int, name: str) -> int:
    if name.isdigit() and 1 <= int(name) <= _MEMBERS_MAX:
        return int(name)
    if name in draft.names:
        return draft.names.index(name) + 1
    raise draft.wrong(line, f"effects of '{name}': no such region among {', '.join(draft.names)}")


def _cell(draft: _Draft, line: int, time: str, region: int, tokens: list[Token]) -> None:
    """Appends the steps of one cell: commands with their arrows, answers of blocked commands, pauses."""
    at = 0
    while at < len(tokens):
        token = tokens[at]
        arrow = tokens[at + 1] if at + 1 < len(tokens) else None
        if isinstance(token, Command):
            if region in draft.blocked:
                raise draft.wrong(line, f"region {region} is told a command while one is blocked since line {draft.blocked[region]}")
            expected = arrow.expected if isinstance(arrow, Arrow) else None
            blocks = isinstance(arrow, Arrow) and arrow.expected is None
            draft.steps.append(Call(line, time, region, token.argv, expected, blocks))
            if blocks:
                draft.blocked[region] = line
            at += 2 if isinstance(arrow, Arrow) else 1
            continue
        if isinstance(token, Pause):
            draft.steps.append(Wait(line, time, token.duration_ms))
        elif isinstance(token, Arrow):
            if region not in draft.blocked or token.expected is None:
                raise draft.wrong(line, f"region {region}: an arrow without a command before it")
            del draft.blocked[region]
            draft.steps.append(Answer(line, time, region, token.expected))
        at += 1
