"""Names, times and effects as words."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final, Optional

from anabranch.crdt.vector import Vector

# Rules of a region that issue effects without a command, by the kind of the effect.
_RULES: Final = {
    "expire": "the removal of an expired key",
    "remove-observed": "the removal of what was left of a key",
    "acknowledge": "an announced acknowledgement",
}
CONFLICT: Final = "IDMP CONFLICT"
VALUE_MAX: Final = 160
"""Characters of a name or value that are shown."""


def short(value: Any) -> str:
    """A name or value, or its beginning if it is long."""
    text = str(value)
    return text if len(text) <= VALUE_MAX else f"{text[:VALUE_MAX]}…"


def local_time(at_ms: int) -> str:
    """A time as ``2026-11-23 14:05:09.250 (1795446309250 ms)``, in the zone of this machine."""
    try:
        at = datetime.fromtimestamp(at_ms / 1000)
    except (OverflowError, ValueError, OSError):
        return f"{at_ms} ms"
    return f"{at:%Y-%m-%d %H:%M:%S}.{at_ms % 1000:03d} ({at_ms} ms)"


def moment(at_ms: Optional[int]) -> str:
    """``at`` and a local time; words for a time that is not known."""
    return "at a time that is not known" if at_ms is None else f"at {local_time(at_ms)}"


class Names:
    """Region names for ids."""

    def __init__(self, names: dict[int, str]) -> None:
        self._names: Final = names

    def region(self, region_id: Any) -> str:
        """A region's name, or its id if no region told the name."""
        return self._names.get(int(region_id), f"region {region_id}")

    def effect(self, dot: Any) -> str:
        """A dot as ``effect 42 of us``."""
        return f"effect {dot[1]} of {self.region(dot[0])}"

    def vector(self, vector: Vector) -> str:
        """A vector as ``us up to 5, eu up to 3``."""
        parts = [f"{self.region(one)} up to {counter}" for one, counter in sorted(vector.items())]
        return ", ".join(parts) or "nothing"

    def listed(self, region_ids: list[int]) -> str:
        """Names as ``us, eu and ap``."""
        return joined([self.region(region_id) for region_id in region_ids])

    def act(self, facts: dict[str, Any]) -> str:
        """Who did what: ``DEL in eu (effect 7 of eu)``."""
        if facts["kind"] == "snapshot":
            return f"a snapshot of {self.region(facts['source'])}"
        command = facts["command"]
        if command == CONFLICT:
            doing = "the rule for two idempotent adds of one pair"
        elif not command:
            doing = _RULES.get(facts["kind"], facts["kind"])
        elif facts["kind"] == "trim" and command == "XADD":
            doing = "XADD with MAXLEN or MINID"
        elif facts["kind"] == "destroy-group" and "group" in facts:
            doing = f"{command} {facts['group']}"
        else:
            doing = command
        effect = facts["effect"]
        return f"{doing} in {self.region(effect[0])} ({self.effect(effect)})"


def joined(words: list[str]) -> str:
    """Words as ``a, b and c``."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"
