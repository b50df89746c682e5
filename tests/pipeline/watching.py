"""A watch of the job `lag` during which a test does something."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Self

import pytest

from anabranch.pipeline.jobs.lag import from_watch
from anabranch.pipeline.jobs.lag.watching import Watcher
from tests.support.processes import eventually


def act_in_the_watch(monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
    """The next watches call `act` once they have a sample of each region.

    The seconds of a watch begin when `act` is over. So no delay moves `act` out of the watch.
    """

    class Acting(Watcher):
        def __enter__(self) -> Self:
            super().__enter__()
            try:
                eventually(
                    lambda: all(one.vectors for one in self.samples.values()),
                    60,
                    "a sample of each region",
                )
                act()
            except BaseException:
                self.__exit__(*sys.exc_info())
                raise
            return self

    monkeypatch.setattr(from_watch, "Watcher", Acting)
