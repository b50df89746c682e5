"""Healthy regions never refuse each other as malformed, as strangers, or for a gap (S2.2).

The simulation sends no wrong messages. So a link that closes for such a reason shows a fault of the
product, even if the regions converge over other links.
"""

from __future__ import annotations

from typing import Final

from anabranch.sim.calls import REFUSED, Call
from anabranch.sim.history import Checker, Setup

_WRONG: Final = frozenset({"malformed", "gap", "not-a-member", "cluster", "region", "version"})


class Refusals(Checker):
    """The judge."""

    name = "refusals"

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)

    def called(self, call: Call) -> None:
        """A link was closed, or another call returned."""
        if call.kind == REFUSED and call.how in _WRONG:
            self.fail(call.at_ms, call.region, f"a link was closed for the reason {call.how!r}")
