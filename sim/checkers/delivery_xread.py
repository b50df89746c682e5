"""The required replies of XREAD (S7.2), and the reads from which late arrivals are counted."""

from __future__ import annotations

from anabranch.region.engine.replies import ErrorReply, Reply
from anabranch.sim.checkers import delivery_steps as steps
from anabranch.sim.checkers.delivery_arguments import ReadRequest, last_id
from anabranch.sim.checkers.delivery_model import RegionModel, text_of
from anabranch.sim.history import Operation, Words
from anabranch.sim.oracle.arguments import MAX_ID, entry_id
from anabranch.sim.oracle.state import KeyState
from anabranch.sim.replies import entries_by_key


def xread(
    model: RegionModel, operation: Operation, words: Words, reply: Reply, relaxed: bool
) -> str:
    """XREAD: returns exactly the entries above the ID (S7.2).

    `relaxed`: the reader was woken in the middle of the step. Returns the fault, or "".
    """
    if isinstance(reply, ErrorReply):
        return ""
    request = ReadRequest(words)
    parts = entries_by_key(reply)
    for key, text in zip(request.keys, request.ids, strict=True):
        entries: list[Reply] = []
        if parts and parts[0][0] == key:
            entries = parts.pop(0)[1]
        state = model.state.keys.get(key)
        if state is None or model.is_hidden(key, operation.clock_ms):
            if entries and not relaxed:
                return f"{steps.ids_of(entries)} read of {key.decode()}, which does not exist"
            continue
        wrong = _read_above(model, state, text, request.count, entries, relaxed, operation.waited)
        if wrong:
            return wrong
        shown = [last_id(entries)] if entries else []
        model.note_read(key, max([model.xread_highest.get(key, -1), *shown]))
        if relaxed and entries and (len(model.came) > 1 or model.went):
            # More came after the read, or the rest of the step removed the key: the region then
            # forgets the read.
            model.late_is_exact = False
    return f"the reply has key {parts[0][0].decode()} out of order" if parts else ""


def _read_above(
    model: RegionModel,
    state: KeyState,
    text: bytes,
    count: int,
    entries: list[Reply],
    relaxed: bool,
    waited: bool,
) -> str:
    """One key of XREAD; returns the fault, or ""."""
    above = _above(state, text, entries, waited)
    if text == b"+" and not waited:
        count = 0
    expected = state.between(above + 1, MAX_ID) if above < MAX_ID else []
    optional = steps.NOTHING
    if relaxed:
        passing = {
            dot: add for dot, add in {**model.came, **model.went}.items() if add.key == state.key
        }
        expected += [
            add for dot, add in passing.items() if dot not in state.adds and add.entry_id > above
        ]
        expected.sort(key=steps.order)
        optional = frozenset(passing)
    left_out, taken = steps.walk(expected, entries, count, optional)
    if len(taken) < len(entries):
        return (
            f"read {steps.ids_of([entries[len(taken)]])} where "
            f"{'nothing' if left_out is None else text_of(left_out)} came next"
        )
    return (
        ""
        if left_out is None
        else f"left out {text_of(left_out)} (token {left_out.token().decode()})"
    )


def _above(state: KeyState, text: bytes, entries: list[Reply], waited: bool) -> int:
    """The ID above which XREAD reads.

    For a blocked read the last ID at its begin is unknown; the value that fits the reply is used.
    """
    if text not in (b"$", b"+"):
        return entry_id(text)
    if waited:
        return last_id(entries[:1]) - 1 if entries else MAX_ID
    return state.stream[-1][0] - 1 if text == b"+" and state.stream else MAX_ID
