"""The bar of a job: what it does now, and how many of Spark's tasks have ended.

On a terminal it is a bar on stderr. Elsewhere it is a line on stderr for each phase, and one every
ten seconds.
"""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOOK_S: Final = 0.3
_PLAIN_EVERY_S: Final = 10.0


class Bar:
    """Shows the tasks of a session from a thread of its own while the `with` lasts."""

    def __init__(self, session: SparkSession) -> None:
        self._tracker: Final[Any] = session.sparkContext.statusTracker()
        self._console: Final = Console(file=sys.__stderr__)
        self._is_plain: Final = not self._console.is_terminal
        self._progress: Final = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("tasks"),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
            disable=self._is_plain,
        )
        self._task: Final = self._progress.add_task("", total=None)
        self._phase = ""
        self._ended = threading.Event()
        self._thread: Final = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._progress.start()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()
        self._progress.stop()

    def phase(self, text: str) -> None:
        """Says what the job does from now on, such as "reading 3 streams"."""
        self._phase = text
        self._progress.update(self._task, description=text, completed=0, total=None)
        if self._is_plain:
            self._say(text)

    def _say(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def _watch(self) -> None:
        told_s = time.monotonic()
        while not self._ended.wait(_LOOK_S):
            ended, total = self._tasks()
            if total:
                self._progress.update(self._task, completed=ended, total=total)
            if self._is_plain and time.monotonic() - told_s > _PLAIN_EVERY_S:
                told_s = time.monotonic()
                if total:
                    self._say(f"{self._phase}: {ended} of {total} tasks")

    def _tasks(self) -> tuple[int, int]:
        """The tasks that have ended, and all tasks, of the stages that run."""
        ended = total = 0
        try:
            for stage in self._tracker.getActiveStageIds():
                info = self._tracker.getStageInfo(stage)
                if info is not None:
                    ended += info.numCompletedTasks
                    total += info.numTasks
        except Exception:
            # Spark is stopping, so there is nothing to show.
            return 0, 0
        return ended, total
