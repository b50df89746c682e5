"""The classes of the rows in the table of figures.

A row says once what a figure is called, what it means and how it is read. INFO, /metrics and the
docs derive from it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from anabranch.region.engine.contents import Contents
from anabranch.region.engine.figures.shared import fact
from anabranch.region.engine.histogram import Histogram
from anabranch.region.engine.state import EngineState

# A sample: suffix of the metric's name (empty but for histograms), labels, value.
Sample = tuple[str, dict[str, str], float]
# A metric for `region.live.http`: name, help, type, samples.
Metric = tuple[str, str, str, list[Sample]]
# The values of a figure with labels.
Values = list[tuple[dict[str, str], float]]
Histograms = list[tuple[dict[str, str], Histogram]]

PREFIX: Final = "anabranch_"
GAUGE: Final = "gauge"
COUNTER: Final = "counter"
HISTOGRAM: Final = "histogram"


class View:
    """A region at the moment at which its figures are read."""

    def __init__(self, state: EngineState) -> None:
        self.state: Final = state
        self.held: Final[Contents] = state.contents.read(state.clock.now_ms)


class Figure:
    """A row of the table.

    `metric` is the name in /metrics without `PREFIX`, empty if the figure is in INFO only. `info`
    is the field of INFO, empty if the figure is in /metrics only. `kind` is the Prometheus type,
    `unit` the unit of the values, empty for plain numbers and for 1 or 0. `text` is a sentence.
    """

    def __init__(
        self, metric: str, info: str, kind: str, unit: str, text: str, labels: tuple[str, ...] = ()
    ) -> None:
        self.metric: Final = metric
        self.info: Final = info
        self.kind: Final = kind
        self.unit: Final = unit
        self.text: Final = text
        self.labels: Final = labels

    @property
    def name(self) -> str:
        """The full name of the metric; counters end in _total. Empty: there is no metric."""
        if not self.metric:
            return ""
        return PREFIX + self.metric + ("_total" if self.kind == COUNTER else "")

    def samples(self, view: View) -> list[Sample]:
        """The samples for /metrics."""
        raise NotImplementedError

    def info_text(self, view: View) -> str:
        """The value for INFO, of a figure that has a field there."""
        raise NotImplementedError


class Number(Figure):
    """A figure that is one number. INFO shows it without its fraction."""

    def __init__(
        self, metric: str, info: str, kind: str, unit: str, text: str, read: Callable[[View], float]
    ) -> None:
        super().__init__(metric, info, kind, unit, text)
        self._read: Final = read

    def samples(self, view: View) -> list[Sample]:
        return [("", {}, float(self._read(view)))]

    def info_text(self, view: View) -> str:
        return str(int(self._read(view)))


class Fact(Number):
    """A number that only the process knows: its fact with the name `info`."""

    def __init__(self, metric: str, info: str, kind: str, unit: str, text: str) -> None:
        super().__init__(metric, info, kind, unit, text, lambda view: fact(view.state, info))


class Labelled(Figure):
    """A figure with a number for each combination of labels that `read` returns.

    INFO shows those with a field `info` as ``label=number,…``.
    """

    def __init__(
        self,
        metric: str,
        kind: str,
        unit: str,
        text: str,
        labels: tuple[str, ...],
        read: Callable[[View], Values],
        info: str = "",
    ) -> None:
        super().__init__(metric, info, kind, unit, text, labels)
        self._read: Final = read

    def samples(self, view: View) -> list[Sample]:
        return [("", labels, float(value)) for labels, value in self._read(view)]

    def info_text(self, view: View) -> str:
        return ",".join(
            [f"{'/'.join(labels.values())}={int(value)}" for labels, value in self._read(view)]
        )


class Distribution(Figure):
    """A histogram of times, for each combination of labels that `read` returns."""

    def __init__(
        self, metric: str, text: str, labels: tuple[str, ...], read: Callable[[View], Histograms]
    ) -> None:
        super().__init__(metric, "", HISTOGRAM, "seconds", text, labels)
        self._read: Final = read

    def samples(self, view: View) -> list[Sample]:
        return [
            sample for labels, histogram in self._read(view) for sample in histogram.samples(labels)
        ]
