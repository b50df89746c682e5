"""Clients that look at the whole state of streams and groups, as dashboards do.

They keep nothing: the twin judges what they get (`taped`).
"""

from __future__ import annotations

from typing import Any, Final

from anabranch.chaos.clients import Client
from anabranch.chaos.consumers import GROUP
from anabranch.chaos.producers import JOBS, KEYS

_MEAN_S: Final = 0.5
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
        self.ask(self.home, lambda client: look(client, words))
        self.pause(_MEAN_S)


def look(client: Any, words: tuple[str, ...]) -> None:
    """Sends one of `LOOKS` with a redis-py client, which must know what XPENDING returns.

    A stream may not exist yet.
    """
    import redis

    has_range = words[0] == "XPENDING" and len(words) > len(("XPENDING", JOBS, GROUP))
    try:
        client.execute_command(*words, **({"parse_detail": True} if has_range else {}))
    except redis.exceptions.ResponseError as error:
        if "no such key" not in str(error):
            raise
