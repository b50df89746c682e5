"""CRDT.GROUPS: the whole state of the groups of a stream, local state included.

The judge asks for it at the end of a run, so that a wrong state shows even if no command did.
Free: spans of counters of deleted entries, and which group tombstones are still there.
"""

from __future__ import annotations

from typing import Optional

from anabranch.region.engine.replies import Reply
from anabranch.sim.replies import field_of
from anabranch.sim.twin.core import TwinCore
from anabranch.sim.twin.replies import Expected
from anabranch.sim.twin.session import Session
from anabranch.sim.twin.state import Group, Key
from anabranch.sim.twin.vectors import Dot


def crdt_groups(twin: TwinCore, session: Session, argv: tuple[bytes, ...]) -> object:
    """CRDT.GROUPS key."""
    key = twin.state.visible(argv[1])
    if key is None or len(argv) > 2:
        return Expected("anything", lambda _: True)
    found = _differences(key, twin.reply)
    return Expected(f"the groups as the twin has them: {found}", lambda _: not found)


def pending_questions(key: Optional[Key], clock_ms: int) -> list[tuple[bytes, ...]]:
    """Questions about the PELs of a stream: all forms of XPENDING, and a claim of nothing.

    One asks for entries that have been idle for as long as the last one, which may come after
    others that have not. XAUTOCLAIM looks at ten entries, of which none is idle for an hour.
    """
    found: list[tuple[bytes, ...]] = []
    if key is None:
        return found
    for name, group in key.groups.items():
        pending = group.local.pending()
        if pending:
            start = (b"XPENDING", key.name, name)
            idle_ms = max(clock_ms - pending[-1].delivered_ms, 0)
            found += [start, (*start, b"IDLE", b"%d" % idle_ms, b"-", b"+", b"1")]
            claim = (b"XAUTOCLAIM", key.name, name, pending[0].consumer)
            found.append((*claim, b"3600000", b"0", b"COUNT", b"1"))
    return found


def trim_questions(key: Optional[Key]) -> list[tuple[bytes, ...]]:
    """Questions about the region logs of a stream that were trimmed, or removed with the key.

    They are those of a reader that has read nothing, and of one that has not read the last entry
    that was removed (S5.4).
    """
    if key is None:
        return []
    found: list[tuple[bytes, ...]] = []
    for region, removed in sorted(key.ever_trimmed.items()):
        for after in {0, removed - 1}:
            words = (b"%d" % region, b"%d" % after, b"%d" % removed, b"BYTES", b"1")
            found.append((b"CRDT.NODES", key.name, *words))
    return found


def _differences(key: Key, reply: Reply) -> str:
    """How a reply differs from the twin's groups, as text; empty if it does not."""
    rows = field_of(reply, b"groups")
    if not isinstance(rows, list):
        return "no groups in the reply"
    names = [field_of(row, b"name") for row in rows]
    if sorted(key.groups) != names:
        return f"the names are {sorted(key.groups)}"
    for name, row in zip(sorted(key.groups), rows, strict=True):
        text = _difference(key, key.groups[name], row)
        if text:
            return f"{name!r}: {text}"
    return ""


def _difference(key: Key, group: Group, row: Reply) -> str:
    local = group.local
    acked = group.acked()
    expected: dict[bytes, set[Dot]] = {
        b"given": local.given & key.entries.keys(),
        b"acked": acked & key.entries.keys(),
        b"pending-spans": set(local.pel),
        b"dropped-spans": local.dropped & key.entries.keys(),
    }
    for field, dots in expected.items():
        actual = _dots(field_of(row, field))
        if field != b"pending-spans":
            actual &= key.entries.keys()
        if actual != dots:
            return f"{field.decode()} is {sorted(dots)}, not {sorted(actual)}"
    creates = field_of(row, b"creates")
    dots = {_pair(one) for one in creates} if isinstance(creates, list) else set()
    if dots != set(group.creates):
        return f"creates are {sorted(group.creates)}, not {sorted(dots)}"
    return ""


def _dots(spans: Reply) -> set[Dot]:
    """The counters of spans [region, from, to]."""
    found: set[Dot] = set()
    for span in spans if isinstance(spans, list) else []:
        assert isinstance(span, list)
        region, start, end = span
        assert isinstance(region, int) and isinstance(start, int) and isinstance(end, int)
        found.update((region, counter) for counter in range(start + 1, end + 1))
    return found


def _pair(create: Reply) -> Dot:
    assert isinstance(create, list) and isinstance(create[0], list)
    region, counter = create[0]
    assert isinstance(region, int) and isinstance(counter, int)
    return region, counter
