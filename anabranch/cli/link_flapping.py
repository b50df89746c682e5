"""`anabranch link flap`: cuts and mends links in turn, and leaves them as they were found."""

from __future__ import annotations

import time
from dataclasses import replace

from anabranch.cli.errors import CliError
from anabranch.cli.interrupting import Interruption
from anabranch.cli.link_control import Condition, Control, Direction, change


class Flapping:
    """Links that flap together. CliError if one of them is cut already, or does not exist."""

    def __init__(self, control: Control, directions: list[Direction]) -> None:
        self._control = control
        self._before = {direction: control.read(direction) for direction in directions}
        for direction, found in self._before.items():
            if found.is_cut:
                raise CliError(f"the link {direction} is cut already: heal it first")
        # What this object has done, as it was read afterwards.
        self._expected = dict(self._before)
        self._is_ours = True

    def run(self, up_ms: int, down_ms: int, seconds: float) -> int:
        """Flaps until the time is over or a signal ends it; returns the number of cuts.

        CliError if somebody else changes a link meanwhile: such a link is left as it is.
        """
        end_s = time.monotonic() + seconds
        cuts = 0
        with Interruption() as interruption:

            def sleep(ms: int) -> None:
                interruption.sleep(min(ms / 1000, end_s - time.monotonic()))

            try:
                while not interruption.is_noted and time.monotonic() < end_s:
                    self._set(is_cut=True)
                    cuts += 1
                    sleep(down_ms)
                    self._set(is_cut=False)
                    sleep(up_ms)
            finally:
                self._mend()
        return cuts

    def _set(self, is_cut: bool) -> None:
        self._check()
        # An error finds the links between two conditions, both of them ours.
        self._is_ours = False
        change(self._control, self._before, lambda found: replace(found, is_cut=is_cut))
        self._expected = {direction: self._control.read(direction) for direction in self._before}
        self._is_ours = True

    def _check(self) -> None:
        """CliError if a link is not as this object left it."""
        for direction, expected in self._expected.items():
            found = self._control.read(direction)
            if found != expected:
                raise _Changed(
                    f"flapping stopped: somebody else changed the link {direction}, or its region"
                    f" started again (it was {_words(expected)}, and is {_words(found)})"
                )

    def _mend(self) -> None:
        """Brings every link back that nobody else has changed."""
        stands = []
        for direction, before in self._before.items():
            try:
                found = self._control.read(direction)
                untouched = replace(found, is_cut=False) == before
                if found != before and untouched and self._may_mend(direction, found):
                    self._control.write(direction, before)
            except CliError as error:
                stands.append(f"{direction} may still be cut: {error}")
        if stands:
            raise CliError("; ".join(stands))

    def _may_mend(self, direction: Direction, found: Condition) -> bool:
        return not self._is_ours or found == self._expected[direction]


class _Changed(CliError):
    """Somebody else has changed a link."""


def _words(condition: Condition) -> str:
    parts = ["cut" if condition.is_cut else "whole"]
    if condition.delay_ms:
        parts.append(f"delayed by {condition.delay_ms} ms")
    if condition.limit_bytes_s:
        parts.append(f"limited to {condition.limit_bytes_s} bytes/s")
    return ", ".join([*parts, *condition.others])
