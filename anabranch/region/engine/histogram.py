"""Histograms of measured times, as Prometheus takes them."""

from __future__ import annotations

from typing import Final

# Upper bounds of the buckets in µs.
BOUNDS_US: Final = (
    *(1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000),
    *(250_000, 500_000, 1_000_000, 2_500_000, 5_000_000, 10_000_000, 30_000_000, 60_000_000),
)
_MICROSECONDS: Final = 1_000_000


class Histogram:
    """How many times fell into each bucket, and their sum.

    The buckets are those of `BOUNDS_US` from `least_us` to `most_us`, both inclusive.
    """

    def __init__(self, least_us: int, most_us: int) -> None:
        self.bounds_us: Final = [bound for bound in BOUNDS_US if least_us <= bound <= most_us]
        # A bucket counts the times above the bound below it, up to its own. The last one, without
        # a bound, counts the times above all bounds.
        self.counts: Final = [0] * (len(self.bounds_us) + 1)
        self.sum_us = 0
        self.count = 0

    def observe(self, total_us: int, times: int = 1) -> None:
        """Counts `times` equal times, `total_us` in sum. A negative sum counts as 0."""
        if total_us < 0:
            total_us = 0
        # A loop, because most times are in the first buckets, and it compiles to few instructions.
        each_us = -(-total_us // times)
        place = 0
        for bound_us in self.bounds_us:
            if each_us <= bound_us:
                break
            place += 1
        self.counts[place] += times
        self.sum_us += total_us
        self.count += times

    def samples(self, labels: dict[str, str]) -> list[tuple[str, dict[str, str], float]]:
        """The samples for /metrics: suffix of the name, labels, value. Times are in seconds."""
        made: list[tuple[str, dict[str, str], float]] = []
        below = 0
        for bound_us, count in zip(self.bounds_us, self.counts, strict=False):
            below += count
            made.append(("_bucket", {**labels, "le": repr(bound_us / _MICROSECONDS)}, float(below)))
        made.append(("_bucket", {**labels, "le": "+Inf"}, float(self.count)))
        made.append(("_sum", labels, self.sum_us / _MICROSECONDS))
        made.append(("_count", labels, float(self.count)))
        return made
