"""The links between regions: reading and changing their condition.

The command `anabranch console` brings the implementation, which is that of `anabranch link`: it
changes links inside the regions, or at a toxiproxy server. A link has one direction.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Final, Protocol

DELAY_MAX_MS: Final = 60_000
ACTIONS: Final = ("cut", "heal", "delay")


class LinkError(Exception):
    """A link could not be changed. The text says why, and what stands."""


@dataclass(frozen=True)
class LinkChange:
    """A change of the link by which `receiver` receives from `sender`, or of both directions."""

    action: str
    sender: str
    receiver: str
    both: bool
    delay_ms: int = 0


@dataclass(frozen=True)
class OutsideCondition:
    """What was done to a link outside of the regions."""

    sender: str
    receiver: str
    is_cut: bool
    delay_ms: int


class LinkController(Protocol):
    """Changes links. The methods block, so the console calls them in a thread."""

    @property
    def is_outside(self) -> bool:
        """Whether links are changed outside of the regions, where the regions cannot tell it."""

    def change(self, wanted: LinkChange) -> None:
        """Changes a link. Raises LinkError."""

    def outside(self) -> list[OutsideCondition]:
        """The condition of all links outside of the regions. Raises LinkError."""


class Links:
    """The links as the console uses them: one change at a time, in a thread."""

    def __init__(self, controller: LinkController) -> None:
        self._controller: Final = controller
        self._lock: Final = asyncio.Lock()
        self.is_outside: Final = controller.is_outside

    async def change(self, wanted: LinkChange) -> None:
        """Changes a link. Raises LinkError."""
        async with self._lock:
            await asyncio.to_thread(self._controller.change, wanted)

    async def outside(self) -> list[OutsideCondition]:
        """The condition of the links outside of the regions. Raises LinkError."""
        return await asyncio.to_thread(self._controller.outside) if self.is_outside else []


def wanted_change(body: dict[str, Any], names: list[str]) -> LinkChange:
    """The change that a request asks for; LinkError if it is wrong."""
    action, sender, receiver = body.get("action"), body.get("sender"), body.get("receiver")
    if action not in ACTIONS:
        raise LinkError(f"action must be one of {', '.join(ACTIONS)}")
    if sender not in names or receiver not in names or sender == receiver:
        raise LinkError(f"sender and receiver must be two of the regions {', '.join(names)}")
    delay_ms = body.get("delay_ms", 0)
    if isinstance(delay_ms, bool) or not isinstance(delay_ms, int):
        raise LinkError("delay_ms must be a number of milliseconds")
    if not 0 <= delay_ms <= DELAY_MAX_MS:
        raise LinkError(f"delay_ms must be between 0 and {DELAY_MAX_MS}")
    return LinkChange(str(action), str(sender), str(receiver), body.get("both") is True, delay_ms)
