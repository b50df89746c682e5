"""Faults in a cell, such as ``Kill 300 ms`` or ``Fault: one-way cut to eu 300 ms draw 12345``.

Dashes around them are allowed. The fault strikes the cell's region; `to` names the other region of
a fault that strikes two. A fault that is a state ends after its time; `draw` is the seed of the
fault's random decisions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Optional

from anabranch.sim.asked_faults import CLOCK_LEAP, EMPTIED_DIRECTORY, ERRORS, FORGOTTEN_RESTORE
from anabranch.sim.draw import FAULTS
from anabranch.sim.plan import OF_TWO, Fault

# The names of `sim.world.faults.KINDS`, whose import needs apsw. Live runs need no simulator.
KINDS: Final = (*FAULTS, FORGOTTEN_RESTORE, *ERRORS, EMPTIED_DIRECTORY, CLOCK_LEAP)

SHORT: Final = {
    "kill": "kill",
    "restart": "clean restart",
    "pause": "pause",
    "power cut": "power cut",
}
"""The kinds that are written without ``Fault:``: word → kind."""
_WRITTEN: Final = re.compile(
    r"(?:fault:\s*(?P<kind>\S.*?)|(?P<short>kill|restart|pause|power cut))"
    r"(?:\s+to\s+(?P<to>[\w-]+))?(?:\s+(?P<number>\d+)\s*(?P<unit>ms|s))?"
    r"(?:\s+draw\s+(?P<draw>\d+))?",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class CellFault:
    """A fault as a cell writes it; `to` is the name of a region, or empty."""

    kind: str
    to: str
    duration_ms: int
    draw: int


def fault_of(cell: str) -> Optional[CellFault]:
    """The fault in a cell without emphasis; None if the cell holds none.

    ValueError for a kind that does not exist.
    """
    found = _WRITTEN.fullmatch(cell.strip().strip("—–-").strip())
    if found is None:
        return None
    kind = SHORT[found["short"].lower()] if found["short"] else found["kind"]
    if kind not in KINDS:
        raise ValueError(f"there is no fault '{kind}'; there are: {', '.join(KINDS)}")
    if (kind in OF_TWO) != bool(found["to"]):
        raise ValueError(
            f"'{kind}' strikes two regions: say `to NAME`"
            if kind in OF_TWO
            else f"'{kind}' strikes one region: no `to`"
        )
    duration_ms = int(found["number"] or 0) * (1000 if (found["unit"] or "").lower() == "s" else 1)
    return CellFault(kind, found["to"] or "", duration_ms, int(found["draw"] or 0))


def written(fault: Fault, name_of_other: str) -> str:
    """A fault as a cell writes it; `name_of_other`: the second region of a fault that has two."""
    short = next((word for word, kind in SHORT.items() if kind == fault.kind), "")
    words = [short.capitalize() if short else f"Fault: {fault.kind}"]
    if fault.kind in OF_TWO:
        words.append(f"to {name_of_other}")
    if fault.duration_ms:
        words.append(f"{fault.duration_ms} ms")
    if fault.draw and fault.kind not in ("kill", "clean restart", "pause"):
        words.append(f"draw {fault.draw}")
    return f"— {' '.join(words)} —"
