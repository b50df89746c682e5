"""Records the commands of clients in a simulated run: when each was sent, and the IDs returned.

A story consists of these commands and the faults.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import Any, Final

from anabranch.region.engine.replies import Reply
from anabranch.sim.history import Checker, Operation, Words
from anabranch.sim.world.draining import FIRST_NUMBER

ANYTHING: Final = "…"


@dataclass
class Told:
    """The commands that one client sent together. No commands: the client gave up its connection.

    `returns`: place of a command → its replies as a table writes them, for commands whose reply
    contains a generated ID.
    """

    at_ms: int
    client: int
    region: int
    commands: tuple[Words, ...] = ()
    returns: dict[int, tuple[str, ...]] = field(default_factory=dict)


class Notes:
    """The record of a run; the world gets `judge` among its judges, and `tell`."""

    def __init__(self) -> None:
        self.told: list[Told] = []
        # client number → its commands that have not run yet, in order
        self._to_run: defaultdict[int, deque[tuple[Told, int]]] = defaultdict(deque)

        class ReplyObserver(Checker):
            """Sees the replies that regions compute."""

            name = "reply observer"

            def executed(_, operation: Operation) -> None:
                self._executed(operation)

        self.judge: type[Checker] = ReplyObserver

    def tell(self, line: tuple[Any, ...]) -> None:
        """Records a line of the trace."""
        at_ms, region, what, *details = line
        if what == "posts" and details[0] < FIRST_NUMBER:
            told = Told(at_ms, details[0], region, tuple(details[1]))
            self.told.append(told)
            self._to_run[told.client] += [(told, place) for place in range(len(told.commands))]
        elif what == "gives up":
            self.told.append(Told(at_ms, details[0], region))
        elif what == "frames":
            self._next(details[0], details[1])

    def _executed(self, operation: Operation) -> None:
        found = self._next(operation.client, operation.argv)
        if found is None:
            return
        told, place = found
        commands = operation.commands()
        replies = (
            operation.reply
            if operation.queued and isinstance(operation.reply, list)
            else [operation.reply]
        )
        shown = tuple(_shown(words, reply) for words, reply in zip(commands, replies, strict=False))
        if any(each != ANYTHING for each in shown):
            told.returns[place] = shown

    def _next(self, client: int, argv: Words) -> tuple[Told, int] | None:
        """The recorded command that has run; commands before it were lost on their way."""
        to_run = self._to_run[client]
        while to_run:
            told, place = to_run.popleft()
            if told.commands[place] == argv:
                return told, place
        return None


def _shown(words: Words, reply: Reply) -> str:
    generated = words[0].upper() == b"XADD" and b"*" in words[2:] and isinstance(reply, bytes)
    return reply.decode() if generated and isinstance(reply, bytes) else ANYTHING
