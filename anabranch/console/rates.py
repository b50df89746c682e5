"""How many effects and bytes a region takes in each second, from its counters."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, Final

JsonObject = dict[str, Any]

# The counters of `# CRDT`, and the names of their rates: effects that clients of the region caused,
# effects of other regions that it applied, and the bytes of these.
COUNTERS: Final = {
    "issued": "crdt_effects_issued",
    "merged": "crdt_effects_merged",
    "merged_bytes": "crdt_sync_bytes_merged",
}
# The time between two samples, and the samples over which a rate is taken.
SAMPLE_S: Final = 1.0
_SAMPLES: Final = 3
NONE: Final[Mapping[str, float]] = dict.fromkeys(COUNTERS, 0.0)


class Rates:
    """The rates of one region over the last seconds. They change once a second at most."""

    def __init__(self) -> None:
        self._samples: Final[deque[tuple[float, dict[str, int]]]] = deque(maxlen=_SAMPLES)
        # In a second, by the names of `COUNTERS`; two digits of each are kept.
        self.now: Mapping[str, float] = NONE

    def note(self, info: Mapping[str, str], steady_s: float) -> bool:
        """Takes an INFO of the region; an empty one if it did not answer.

        Returns whether the rates have changed. `steady_s` is a clock that never goes back.
        """
        if self._samples and info and steady_s - self._samples[-1][0] < SAMPLE_S:
            return False
        counters = {name: int(info.get(field, 0)) for name, field in COUNTERS.items()}
        # A region that was started again counts from 0.
        if self._samples and any(counters[one] < self._samples[-1][1][one] for one in COUNTERS):
            self._samples.clear()
        if info:
            self._samples.append((steady_s, counters))
        former, self.now = self.now, self._rates()
        return former != self.now

    def _rates(self) -> Mapping[str, float]:
        if len(self._samples) < 2:
            return NONE
        (begin_s, old), (end_s, new) = self._samples[0], self._samples[-1]
        return {name: _rounded((new[name] - old[name]) / (end_s - begin_s)) for name in COUNTERS}


def _rounded(rate: float) -> float:
    return float(f"{rate:.2g}")
