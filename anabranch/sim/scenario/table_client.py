"""A client of the simulated world that sends the commands of a scenario's table."""

from __future__ import annotations

from collections import deque

from anabranch.region.engine.replies import (
    ErrorReply,
    MapReply,
    NullArray,
    SetReply,
    SimpleString,
    VerbatimText,
)
from anabranch.region.engine.replies import Reply as EngineReply
from anabranch.region.resp.decoder import DecodedReply, ErrorText
from anabranch.region.resp.encoder import format_double
from anabranch.sim.history import Operation, Words
from anabranch.sim.load.client import Client
from anabranch.sim.plan import ClientPlan
from anabranch.sim.scenario.cluster import Ticket


class TableClient(Client):
    """A client of the table: sends the table's commands, and keeps a ticket for each."""

    def __init__(self, number: int, region: int) -> None:
        super().__init__(
            ClientPlan(number, "table client", region, (), 0), (region,), lambda _: "strict"
        )
        # Commands sent and not yet computed, in order.
        self.to_run: deque[Ticket] = deque()
        # operation number → ticket of a reply that is computed and on its way.
        self.tickets: dict[int, Ticket] = {}

    def framed(self, argv: Words, reply: EngineReply) -> None:
        """The reply to the next command has come at once."""
        ticket = self.to_run.popleft()
        ticket.computed(plain(reply))
        ticket.answered()

    def computed(self, operation: Operation) -> None:
        """A region has computed the reply to the next command."""
        ticket = self.to_run.popleft()
        ticket.computed(plain(operation.reply))
        self.tickets[operation.number] = ticket

    def answered(self, operation: Operation) -> None:
        """The reply has come."""
        self.tickets.pop(operation.number).answered()

    def lost(self, operation: Operation) -> None:
        """The reply is lost with the connection, and so are all replies on it."""
        self.lose()

    def lose(self) -> None:
        """Marks all open tickets as lost."""
        for ticket in (*self.tickets.values(), *self.to_run):
            ticket.lose()
        self.tickets = {}
        self.to_run.clear()


def plain(reply: EngineReply) -> DecodedReply:
    """A reply as RESP2 carries it."""
    if reply is None or isinstance(reply, (bytes, NullArray)):
        return reply if isinstance(reply, bytes) else None
    if isinstance(reply, (bool, int)):
        return int(reply)
    if isinstance(reply, list):
        return [plain(item) for item in reply]
    if isinstance(reply, ErrorReply):
        return ErrorText(reply.message)
    if isinstance(reply, (SimpleString, VerbatimText)):
        return reply.text
    if isinstance(reply, MapReply):
        return [plain(item) for item in reply.flat]
    if isinstance(reply, SetReply):
        return [plain(item) for item in reply.items]
    return format_double(reply) if isinstance(reply, float) else None
