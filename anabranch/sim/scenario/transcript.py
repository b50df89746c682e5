"""Writes a recorded session (`session`) as a scenario file: a row for each command or Sync.

A reply is written as far as it does not depend on the time or on the process: IDs, names, counts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from anabranch.region.resp.decoder import ErrorText
from anabranch.sim.history import Words
from anabranch.sim.scenario.cells import expectation_of
from anabranch.sim.scenario.expectation import Bindings, Shape, ShownRow, matches, render
from anabranch.sim.scenario.recording import ANYTHING
from anabranch.sim.scenario.writing import table_line, written_words

# A text that a cell can hold behind an arrow.
_PLAIN: Final = re.compile(r"[A-Za-z0-9_.=,()\[\] -]*")
# Commands whose replies depend on the time, on the process, or on an order that no rule states.
_VARIES: Final = frozenset(b"TTL PTTL EXPIRETIME PEXPIRETIME RANDOMKEY SCAN KEYS OBJECT".split())
# The fields of a row that are written, by command.
_FIELDS: Final[dict[tuple[bytes, bytes], tuple[str, ...]]] = {
    (b"XPENDING", b""): ("consumer", "deliveries"),
    (b"XINFO", b"GROUPS"): ("consumers", "pending", "lag"),
    (b"XINFO", b"CONSUMERS"): ("pending",),
    (b"XINFO", b"STREAM"): ("length", "groups", "last-generated-id"),
}
# Gaps between two rows that are written, in ms.
_GAP_MS: Final = 20


@dataclass(frozen=True)
class Row:
    """A row: region_id → cell. It began and ended at these times, in ms since 1970."""

    begun_ms: int
    ended_ms: int
    cells: Mapping[int, str]


def command_cell(words: Words, expected: str) -> str:
    """A command with its expected reply; empty: any reply but an error."""
    arrow = f" → {expected}" if expected else ""
    return f"`{written_words(words)}`{arrow}"


def written_reply(words: Sequence[bytes], shape: Shape) -> str:
    """The reply to a read, given in the shape of tables, as a table writes it.

    `…` stands for a reply that a table cannot hold, or that varies.
    """
    name = words[0].upper()
    kind = words[1].upper() if len(words) > 1 else b""
    if isinstance(shape, ErrorText):
        return f"(error) {shape.text.split(' ', 1)[0]}"
    if name in _VARIES or (kind == b"STREAM" and len(words) > 3):
        return ANYTHING
    shape = _shortened(shape, _FIELDS.get((name, kind)) or _FIELDS.get((name, b""), ()))
    text = render(shape, Bindings())
    if isinstance(shape, ShownRow):
        text = f"[{', '.join(f'{name}={value}' for name, value in shape.fields)}]"
    try:
        repeats = matches(expectation_of(text), shape, Bindings())
    except ValueError:
        return ANYTHING
    return text if repeats and _PLAIN.fullmatch(text) else ANYTHING


def _shortened(shape: Shape, fields: Sequence[str]) -> Shape:
    """A reply whose rows have only these fields."""
    if isinstance(shape, ShownRow):
        return ShownRow(shape.name, tuple(one for one in shape.fields if one[0] in fields))
    return [_shortened(one, fields) for one in shape] if isinstance(shape, list) else shape


def write_session(
    title: str,
    names: Mapping[int, str],
    header: Sequence[str],
    rows: Sequence[Row],
    with_gaps: bool,
) -> str:
    """The scenario file.

    Args:
        title: The heading.
        names: region_id → name of each region, 1, 2, 3 …
        header: More lines of the header.
        rows: The rows in their order.
        with_gaps: Whether the time between rows matters, and is written.
    """
    columns = sorted(names)
    table = [["Time", *(names[one] for one in columns)], ["---"] * (len(columns) + 1)]
    ended_ms = rows[0].begun_ms if rows else 0
    for row in rows:
        gap_ms = row.begun_ms - ended_ms
        if with_gaps and gap_ms >= _GAP_MS:
            table.append([f"t{len(table) - 1}", f"wait {gap_ms} ms", *[""] * (len(columns) - 1)])
        table.append([f"t{len(table) - 1}", *(row.cells.get(one, "") for one in columns)])
        ended_ms = max(ended_ms, row.ended_ms)
    lines = ["---", f"names: {', '.join(names[one] for one in columns)}"]
    lines += [f"regions: {len(columns)}", *header, "---", f"# {title}", ""]
    return "\n".join([*lines, *map(table_line, table)]) + "\n"
