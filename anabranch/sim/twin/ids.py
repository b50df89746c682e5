"""The IDs of new entries (S4)."""

from __future__ import annotations

from typing import Final, NoReturn

from anabranch.sim.twin.arguments import MAX_HALF, MAX_ID, entry_id, refuse
from anabranch.sim.twin.core import TwinCore

ZERO: Final = "ERR The ID specified in XADD must be greater than 0-0"
_TOO_SMALL: Final = (
    "ERR The ID specified in XADD is equal or smaller than the target stream top item"
)
_EXHAUSTED: Final = "ERR The stream has exhausted the last possible ID, unable to add more items"


def form(word: bytes) -> str:
    """The form of an ID: *, ms, ms-* or ms-seq; the error of a malformed one."""
    if word == b"*":
        return "*"
    if word.endswith(b"-*"):
        entry_id(word[:-2])
        return "ms-*"
    entry_id(word)
    return "ms-seq" if b"-" in word else "ms"


def count_id(twin: TwinCore, kind: str, new_id: int) -> None:
    """Counts what the ID of an add that ran shows."""
    seq = new_id & MAX_HALF
    if kind == "*":
        read_ms = twin.call.now_ms or twin.state.clock_ms
        if new_id >> 64 > read_ms or seq > 1000:
            twin.state.count("S4.1")
    elif kind == "ms-seq" or (kind == "ms" and seq == 0):
        twin.state.count("S4.2")


def _refuse_id(twin: TwinCore, text: str) -> NoReturn:
    twin.state.count("S4.3")
    refuse(text)


def id_for(twin: TwinCore, word: bytes, kind: str, last_id: int) -> int:
    """The ID of the new entry (S4.1 to S4.3)."""
    mode = twin.call.settings["crdt-xadd-id-uniqueness-mode"]
    last_ms, last_seq = last_id >> 64, last_id & MAX_HALF
    if kind == "*":
        ms = max(twin.state.clock_ms, last_ms, twin.facts.floor_ms)
        seq = _seq(twin.region, last_seq if ms == last_ms else -1)
        if seq > MAX_HALF:
            ms, seq = ms + 1, twin.region
        if ms > MAX_HALF:
            _refuse_id(twin, _EXHAUSTED)
        return ms << 64 | seq
    twin.modes.add(mode)
    if len(twin.modes) > 1:
        twin.state.count("S4.4")
    if last_id == MAX_ID:
        _refuse_id(twin, _EXHAUSTED)
    if kind == "ms-seq" or (kind == "ms" and mode == "liberal"):
        if kind == "ms-seq" and mode == "strict":
            twin.state.count("S4.2")
            refuse(
                "ERR full stream IDs (ms-seq) are not allowed in strict mode of "
                "crdt-xadd-id-uniqueness-mode; use *, ms or ms-*, or change the mode"
            )
        new_id = entry_id(word)
        if new_id == 0:
            _refuse_id(twin, ZERO)
        if new_id <= last_id:
            _refuse_id(twin, _TOO_SMALL)
        return new_id
    ms = int(word.split(b"-")[0])
    below = last_seq if ms == last_ms else -1
    seq = below + 1 if mode == "liberal" else _seq(twin.region, below)
    if ms == 0 and seq == 0:
        seq = 1
    if ms < last_ms or seq > MAX_HALF:
        _refuse_id(twin, _TOO_SMALL)
    return ms << 64 | seq


def _seq(region: int, below: int) -> int:
    """The smallest seq above `below` that is congruent to the region's id (S4.1)."""
    return below + 1 + (region - below - 1) % 1000
