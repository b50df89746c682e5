"""Clients that look at the whole state of streams and groups, as dashboards do.

They keep nothing: the twin judges what they get (`taped`).
"""

from __future__ import annotations

from typing import Final

from anabranch.chaos.clients import Client
from anabranch.chaos.consumers import GROUP
from anabranch.chaos.producers import JOBS, KEYS

_MEAN_S: Final = 1.0
LOOKS: Final = (
    ("XPENDING", JOBS, GROUP, "-", "+", "1000"),
    ("XPENDING", JOBS, GROUP),
    ("XINFO", "CONSUMERS", JOBS, GROUP),
    ("XINFO", "GROUPS", JOBS),
    ("CRDT.GROUPS", JOBS),
    *(("XINFO", "STREAM", key, "FULL") for key in KEYS),
)


class Looker(Client):
    """Looks at one region."""

    def act(self) -> None:
        words = self.random.choice(LOOKS)
        self.ask(self.home, lambda client: client.execute_command(*words))
        self.pause(_MEAN_S)
