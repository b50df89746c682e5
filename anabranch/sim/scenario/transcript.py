"""Writes a recorded session (`session`) as a scenario file: a row for each act, in order.

A reply is written as far as it does not depend on the time or on the process: IDs, names, counts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Optional, Union

from anabranch.region.resp.decoder import ErrorText
from anabranch.sim.history import Words
from anabranch.sim.scenario.expectation import Shape, ShownRow
from anabranch.sim.scenario.recording import ANYTHING
from anabranch.sim.scenario.writing import table_line, written_words

# A word that an expected reply can hold as it is.
_WORD: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*|\d+-\d+|-?\d+")
_MEANS_ANOTHER: Final = frozenset({"nil"})
# Commands whose replies depend on the time, on the process, or on an order that no rule states.
_VARIES: Final = frozenset(
    b"TTL PTTL EXPIRETIME PEXPIRETIME TIME INFO RANDOMKEY SCAN KEYS CLIENT COMMAND".split()
)
# The fields of a row that are written, by command.
_FIELDS: Final[dict[tuple[bytes, bytes], tuple[str, ...]]] = {
    (b"XPENDING", b""): ("consumer", "deliveries"),
    (b"XINFO", b"GROUPS"): ("consumers", "pending", "lag"),
    (b"XINFO", b"CONSUMERS"): ("pending",),
    (b"XINFO", b"STREAM"): ("length", "groups", "last-generated-id"),
}
# Gaps between two acts that are written, in ms.
_GAP_MS: Final = 20


@dataclass(frozen=True)
class Said:
    """A command. `expected` None: it waits, and an `Answered` follows, or a `Left`."""

    region: int
    client: int
    words: Words
    expected: Optional[str]


@dataclass(frozen=True)
class Answered:
    """The reply to the command for which this client waits."""

    region: int
    client: int
    expected: str


@dataclass(frozen=True)
class Left:
    """The client closed its connection."""

    region: int
    client: int


@dataclass(frozen=True)
class Together:
    """Sync, Cut or Heal of these regions."""

    kind: str
    regions: tuple[int, ...]


@dataclass(frozen=True)
class Gap:
    """Time that passed between two acts."""

    duration_ms: int


Act = Union[Said, Answered, Left, Together, Gap]


def written_reply(words: Sequence[bytes], shape: Shape, queued: Sequence[Sequence[bytes]]) -> str:
    """A reply as a table writes it; `…` for one that a table cannot hold, or that varies.

    Args:
        words: The command.
        shape: Its reply in the shape of tables.
        queued: For EXEC, the commands of the transaction.
    """
    if words[0].upper() == b"EXEC" and isinstance(shape, list) and len(shape) == len(queued):
        inside = [written_reply(one, its, ()) for one, its in zip(queued, shape, strict=True)]
        return f"[{', '.join(inside)}]"
    name = words[0].upper()
    kind = words[1].upper() if len(words) > 1 else b""
    if isinstance(shape, ErrorText):
        return f"(error) {shape.text.split(' ', 1)[0]}"
    approximate = name == b"XTRIM" and b"~" in words
    config = name == b"CONFIG" and kind == b"GET"
    full = name == b"XINFO" and len(words) > 3 and kind == b"STREAM"
    if name in _VARIES or name.startswith(b"CRDT.") or approximate or config or full:
        return ANYTHING
    fields = _FIELDS.get((name, kind)) or _FIELDS.get((name, b""), ())
    return _written(shape, fields) or ANYTHING


def _written(shape: Shape, fields: Sequence[str]) -> str:
    """Empty if the table cannot hold it."""
    if shape is None:
        return "nil"
    if isinstance(shape, int):
        return str(shape)
    if isinstance(shape, str):
        return _text(shape)
    if isinstance(shape, ShownRow):
        return _row(shape, fields)
    assert isinstance(shape, list)
    inside = [_written(one, fields) for one in shape]
    return f"[{', '.join(inside)}]" if all(inside) else ""


def _text(text: str) -> str:
    if not _WORD.fullmatch(text) or text in _MEANS_ANOTHER:
        return ""
    return text


def _row(row: ShownRow, fields: Sequence[str]) -> str:
    parts = [_text(row.name)] if row.name else []
    have = dict(row.fields)
    for name in fields:
        if _WORD.fullmatch(have.get(name, "")):
            parts.append(f"{name}={have[name]}")
    if not row.name:
        return ", ".join(parts)  # the fields of a map
    return " ".join(parts) if all(parts) else ""


def write_session(
    title: str,
    names: Mapping[int, str],
    header: Sequence[str],
    acts: Sequence[Act],
    with_gaps: bool,
) -> str:
    """The scenario file.

    Args:
        title: The heading.
        names: region_id → name of each region, 1, 2, 3 …
        header: More lines of the header.
        acts: The acts in their order.
        with_gaps: Whether the time between acts matters, and is written.
    """
    columns = sorted(names)
    heads = ["Time", *(names[one] for one in columns)]
    lines = ["---", f"names: {', '.join(names[one] for one in columns)}"]
    lines += [f"regions: {len(columns)}", *header, "---", f"# {title}", ""]
    lines += [table_line(heads), table_line(["---"] * len(heads))]
    number = 0
    for act in acts:
        if isinstance(act, Gap) and not (with_gaps and act.duration_ms >= _GAP_MS):
            continue
        number += 1
        cells = _cells(act, columns)
        lines.append(table_line([f"t{number}", *cells]))
    return "\n".join(lines) + "\n"


def _cells(act: Act, columns: Sequence[int]) -> list[str]:
    if isinstance(act, Together):
        text = f"— {act.kind} —"
        return [text if one in act.regions else "" for one in columns]
    if isinstance(act, Gap):
        return [f"wait {act.duration_ms} ms", *[""] * (len(columns) - 1)]
    label = f"{act.client}: " if act.client else ""
    if isinstance(act, Said):
        expected = "(blocked)" if act.expected is None else act.expected
        text = f"{label}`{written_words(act.words)}` → {expected}"
    elif isinstance(act, Answered):
        text = f"{label}→ {act.expected}"
    else:
        text = f"{label}hang up"
    return [text if one == act.region else "" for one in columns]
