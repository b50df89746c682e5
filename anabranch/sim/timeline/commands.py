"""The points of clients' commands.

A command that waits makes two points: one when it begins to wait, one when it has its reply. A
transaction whose commands no other event interrupts is one point.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Optional

from anabranch.region.engine.commands.introspection import keys_of
from anabranch.region.engine.registry import commands
from anabranch.region.engine.replies import CommandError
from anabranch.sim.history import Operation, Words
from anabranch.sim.timeline.replies import command_text, reply_text
from anabranch.sim.world.trace import plain
from anabranch.study.diagram.model import COMMAND, LATE, WAITS, Moment, Point
from anabranch.study.diagram.texts import cut

Label = Callable[[int], Optional[int]]
"""client number → its label in the drawing, 0 for none; None: its commands are not drawn."""


class Commands:
    """The points so far, in order. `label_of` chooses the clients that are drawn."""

    def __init__(self, label_of: Label) -> None:
        self._label_of = label_of
        self.points: list[Point] = []
        # How many events other than commands were recorded so far.
        self.others = 0
        # operation number → place of its point
        self._places: dict[int, int] = {}
        # operation number → when a command began to wait, its row, and the events before it
        self._waiting: dict[int, tuple[Moment, str, int]] = {}
        # client → places of the points of its open transaction, and the events before it
        self._framed: dict[int, tuple[list[int], int]] = {}

    def waits(self, number: int, now: Moment, row: str) -> None:
        """An operation begins to wait."""
        self._waiting[number] = now, row, self._events()

    def framed(
        self, now: Moment, region: int, client: int, argv: Words, reply: Any, row: str
    ) -> None:
        """A command that frames a transaction, or is queued in one, has its reply."""
        label = self._label_of(client)
        if label is None:
            return
        name = argv[0].upper()
        if name == b"MULTI":
            self._framed[client] = [], self._events()
        if client in self._framed:
            self._framed[client][0].append(len(self.points))
        text = reply_text(argv, plain(reply))
        self.points.append(
            Point(
                now,
                region,
                COMMAND,
                command_text(argv),
                text,
                keys=_keys([argv]),
                client=label,
                row=row,
            )
        )

    def executed(self, operation: Operation, now: Moment, row: str) -> None:
        """A region has computed a reply."""
        label = self._label_of(operation.client)
        waited = self._waiting.pop(operation.number, None)
        if label is None:
            return
        first, last = operation.effects() if operation.after is not None else (1, 0)
        text = command_text(operation.argv)
        reply = plain(operation.reply)
        shown = reply_text(operation.argv, reply)
        if operation.queued and isinstance(reply, list) and len(reply) == len(operation.queued):
            each = [
                reply_text(argv, one) for argv, one in zip(operation.queued, reply, strict=True)
            ]
            shown = f"[{', '.join(each)}]"
        keys = _keys([operation.argv, *operation.queued])
        point = Point(
            now, operation.region, COMMAND, text, cut(shown, 160), first, last, keys, label, row
        )
        if operation.queued:
            point = self._whole_transaction(operation, point)
        elif waited is not None:
            since, former_row, events = waited
            if events < self._events():
                self.points.append(
                    replace(
                        point, when=since, kind=WAITS, reply="", first=1, last=0, row=former_row
                    )
                )
                point = replace(point, kind=LATE)
        self._places[operation.number] = len(self.points)
        self.points.append(point)

    def issued(self, number: int, own: Point) -> bool:
        """The operation issued the effects of this point; False if its commands are not drawn."""
        place = self._places.get(number)
        if place is not None:
            self.points[place] = replace(
                self.points[place], first=own.first, last=own.last, lost_from=own.lost_from
            )
        return place is not None

    def _whole_transaction(self, operation: Operation, point: Point) -> Point:
        """The EXEC; with the commands before it, if no other event came in between."""
        places, events = self._framed.pop(operation.client, ([], 0))
        if not places or events + len(places) != self._events():
            return point
        texts = [self.points[place].text for place in places]
        del self.points[places[0] :]
        return replace(point, text="; ".join([*texts, point.text]))

    def _events(self) -> int:
        return len(self.points) + self.others

    def lost(self, operation: Operation, now_is_end: bool) -> None:
        """The client will never have the reply."""
        label = self._label_of(operation.client)
        place = self._places.get(operation.number)
        if label is None:
            return
        if place is not None:
            point = self.points[place]
            if not now_is_end:
                self.points[place] = replace(point, reply=f"{point.reply} (the answer is lost)")
            return
        waited = self._waiting.pop(operation.number, None)
        if waited is not None:
            since, row, _ = waited
            text = command_text(operation.argv)
            keys = _keys([operation.argv])
            self.points.append(
                Point(since, operation.region, WAITS, text, keys=keys, client=label, row=row)
            )


def note_lost(points: list[Point], region: int, last: int) -> None:
    """A process found only its effects up to `last` on its disk: later ones are lost."""
    for place, point in enumerate(points):
        if point.region == region and point.last > last and not point.lost_from:
            if point.first <= point.last:
                points[place] = replace(point, lost_from=max(point.first, last + 1))


def _keys(every: Sequence[Sequence[bytes]]) -> tuple[bytes, ...]:
    """The keys that commands name, each once."""
    table = commands()
    found: list[bytes] = []
    for argv in every:
        command = table.get(argv[0].upper())
        if command is not None and command.subcommands:
            name = argv[1].upper() if len(argv) > 1 else b""
            command = command.subcommands.get(name)
        if command is not None:
            with suppress(CommandError):  # a wrong command names no keys
                found += keys_of(command, list(argv))
    return tuple(dict.fromkeys(found))
