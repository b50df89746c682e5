"""The options of the Spark sink, parsed and checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from anabranch.pipeline.errors import OptionError
from anabranch.pipeline.options import ACCESS, ENDPOINTS, RegionOptions

# Name → meaning, as docs/pipeline.md shows it.
SINK_OPTIONS: Final = {
    **ENDPOINTS,
    "stream": "The stream that gets all rows. Default: the column `stream` names it for each row.",
    "writeRegion": "The name of the endpoint at which each task begins; the others are for "
    "fail-over. Default: the first.",
    "idColumn": "A column whose value identifies a row, whatever the batch and the task. Default: "
    "a row is recognised by its content within its batch and partition.",
    "producer": "With `idColumn` only: a name that queries share which must not add the same row "
    "twice. Default: the id of the query.",
    "windowSeconds": "How long an added row must be recognised, 1 to 86400. Default: 3600.",
    "setWindow": "`true` sets the window of a stream that recognises rows for a shorter time, if "
    "it holds no pairs yet. Default: `false`.",
    "lapsedWindow": "A batch that was begun longer ago than the window and is repeated: `fail` "
    "(default), or `add` its rows, some of them perhaps twice.",
    "batchSize": "Most rows in flight in a task, 2 to 100000. Default: 2000.",
    "wait": "So many other regions must have a row on disk before its task ends. Default: 0.",
    "waitTimeoutSeconds": "How long to wait for these regions. Default: 30.",
    "timeoutSeconds": "How long a task waits for a region that takes its rows. Default: 60.",
    **ACCESS,
}
_SPARK_OWN: Final = frozenset({"path", "checkpointlocation", "queryname"})
LAPSED: Final = ("fail", "add")


class SinkOptions(RegionOptions):
    """The options of one sink. Raises OptionError, whose message says what is right."""

    def __init__(self, given: Mapping[str, str]) -> None:
        super().__init__(given, SINK_OPTIONS, "writeRegion", _SPARK_OWN)
        self.stream: Final = self._text("stream", "")
        if "stream" in self._given and not self.stream:
            raise OptionError("stream: the name is empty; leave it out to use the column stream")
        self.id_column: Final = self._text("idColumn", "")
        self.producer: Final = self._text("producer", "").strip()
        if self.producer and not self.id_column:
            raise OptionError(
                "producer has no effect without idColumn: batches of two queries have the same "
                "numbers, so only a column can tell their rows apart"
            )
        self.window_s: Final = self._number("windowSeconds", 3600, 1, 86_400)
        self.sets_window: Final = self._flag("setWindow", False)
        self.adds_lapsed: Final = self._choice("lapsedWindow", LAPSED) == "add"
        self.in_flight_max: Final = self._number("batchSize", 2000, 2, 100_000)
        self.wait: Final = self._number("wait", 0, 0, 998)
        self.wait_s: Final = self._number("waitTimeoutSeconds", 30, 1, 86_400)
        if self.wait:
            self.step_s = self.step_s + self.wait_s
