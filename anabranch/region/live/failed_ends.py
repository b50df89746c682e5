"""The ends of a region by an error of its own, noted in a file of the data directory (S13.10).

A start replays the log, so an end by an error is safe. If the error comes back at the same place,
further starts are of no use: after `ENDS_MAX` ends the region is not started again. A place is what
the log holds, and the release that runs. So a new effect on disk or another release begins anew.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from anabranch import build

ENDS_NAME: Final = "region.ends"
ENDS_MAX: Final = 3
"""Ends at one place after which the region is not started again."""
# An end this long after the one before it begins the count anew, in seconds.
_APART_S: Final = 3600.0


class RegionFailed(Exception):
    """The region ended because of an error in the program itself, or without its last changes."""


class StepFailed(RegionFailed):
    """An error in a step ended the region (S13.10). A start replays its log."""


class NotStartedAgain(RegionFailed):
    """The region has ended at one place of its log too often (`FailedEnds`)."""


class FailedEnds:
    """The file with the ends of the region in one data directory."""

    def __init__(self, directory: Path) -> None:
        self._path: Final = directory / ENDS_NAME
        # All ends of this data directory.
        self.total = 0
        # The newest ends, all at one place: their number, the place, and the row that it names.
        self._times = 0
        self._place = ""
        self._row = 0
        self._error = ""
        self._at_s = 0.0
        self._load()

    def _load(self) -> None:
        """Reads the file. One that is absent or cannot be read counts as no ends."""
        with suppress(OSError, ValueError, KeyError, TypeError):
            found = json.loads(self._path.read_text(encoding="utf-8"))
            self.total, self._times = int(found["total"]), int(found["times"])
            self._place, self._row = str(found["place"]), int(found["row"])
            self._error, self._at_s = str(found["error"]), float(found["at_s"])

    def refusal(self) -> str:
        """Why the region is not started again, in words; empty if it may be."""
        if self._times < ENDS_MAX or not self._place.startswith(_release()):
            return ""
        return (
            f"the region has ended {self._times} times at row {self._row} of its log by the same"
            f" kind of error, and is not started again: {self._error}. Nothing on its disk is"
            " harmed: the log holds every write that was answered. Another release may start it; to"
            f" try this one again, remove {self._path}"
        )

    def note(self, row: int, vector: Mapping[int, int], error: BaseException) -> None:
        """Notes an end.

        Args:
            row: The row of the log at which the region ended: the last one on disk, or the one that
                could not be replayed.
            vector: The vector on disk.
            error: The error that ended it.

        Raises:
            OSError: The file cannot be written.
        """
        counters = ",".join(f"{one}:{counter}" for one, counter in sorted(vector.items()))
        place = f"{_release()} {counters}"
        now_s = time.time()
        again = place == self._place and now_s - self._at_s < _APART_S
        self._times = self._times + 1 if again else 1
        self.total += 1
        self._place, self._row, self._at_s = place, row, now_s
        self._error = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        text = json.dumps(
            {
                "total": self.total,
                "times": self._times,
                "place": self._place,
                "row": self._row,
                "error": self._error,
                "at_s": self._at_s,
            }
        )
        part = self._path.with_name(f"{ENDS_NAME}.part")
        part.write_text(text, encoding="utf-8")
        os.replace(part, self._path)


def _release() -> str:
    """The release that runs, as the beginning of a place."""
    return f"{build.version()}:"
