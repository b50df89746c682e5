"""The base of all simulated clients: a region, a mix of acts, tokens, and known entry IDs."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, ClassVar, Final, Optional, TypeVar

from anabranch.region.engine.replies import ErrorReply, Reply
from anabranch.sim.history import Operation, Words
from anabranch.sim.load.arguments import SHAPES, Trims
from anabranch.sim.plan import ClientPlan
from anabranch.sim.replies import entries_by_key, entry_ids

Modes = Callable[[int], str]
Act = Callable[[Any, Random, int], list[Words]]
"""(client, draw, now_ms) → the commands to send."""
Acts = Sequence[tuple[int, Act]]
"""The acts of a kind, each with its weight: how often it is chosen."""

# Tokens of one client: its number times this, plus 1, 2, 3, …
TOKENS_OF_A_CLIENT: Final = 1_000_000
# How many entry IDs a client remembers of one key, and how many it takes from one reply.
KNOWN_IDS_MAX: Final = 24
LEARNT_IDS_MAX: Final = 8
# Errors that make a client turn to another region; any other error is the client's own mistake.
TROUBLES: Final = ("READONLY", "MISCONF", "LOADING", "MASTERDOWN")
# A client multiplies each weight of its kind by one of these. So some clients never do an act,
# and some do it most of the time.
MIX: Final = (0, 1, 1, 1, 4)

# The share of the acts of a client with pipelines that are pipelines, and the share of those whose
# commands are alike.
PIPELINES: Final = 0.5
ALIKE: Final = 0.5

T = TypeVar("T")


def pick(draw: Random, options: Sequence[T]) -> T:
    """One of the options, all equally likely."""
    return options[int(draw.random() * len(options))]


def below(draw: Random, limit: int) -> int:
    """An integer from 0 to `limit` - 1."""
    return int(draw.random() * limit)


class Client:
    """A simulated client: `act` returns the commands to send; the other calls report the outcome.

    `now_ms` is the client's own clock: Unix time in ms, as the regions' clocks show it. Clients
    use it only for values that real clients compute from the time: deadlines, IDs of their own.
    """

    acts: ClassVar[Acts] = ()

    def __init__(self, plan: ClientPlan, regions: tuple[int, ...], modes: Modes) -> None:
        self.number = plan.number
        self.home = plan.home
        self.region = plan.home
        self.keys = plan.keys
        self.regions = regions
        self.modes = modes
        traits = Random(plan.draw)
        self.draw = plan.draw
        self.patience_ms = pick(traits, (150, 600, 1500, 4000))
        # How many tokens it has used. Only this number outlives a crash.
        self.tokens = 0
        # Key → the entry IDs that replies showed, newest last.
        self.known: dict[bytes, deque[bytes]] = {}
        # Probabilities: to turn away from a region in trouble, and to do so without a reason.
        self.flight = pick(traits, (0.0, 0.5, 1.0))
        self.restlessness = pick(traits, (0.0, 0.01, 0.05))
        self.is_troubled = False
        # Probability that it uses the first of its keys.
        self.fidelity = pick(traits, (0.5, 0.8, 1.0))
        self.shape = pick(traits, SHAPES)
        # How many acts one pipeline has at most.
        self.depth = plan.depth
        self.trims = Trims(traits)
        self._menu = [act for _, act in self.acts]
        self._upto: list[float] = []
        self._total = 0.0
        weights = [weight * pick(traits, MIX) for weight, _ in self.acts]
        for weight in weights if any(weights) else [weight for weight, _ in self.acts]:
            self._total += weight
            self._upto.append(self._total)

    # -- called by the world

    def act(self, draw: Random, now_ms: int) -> list[Words]:
        """The commands to send now to `region`, as one pipeline; an empty list sends nothing."""
        chance = draw.random()
        if self.is_troubled:
            self.is_troubled = False
            if chance < self.flight:
                self.move(draw)
        elif self.region != self.home:
            if chance < 0.1:
                self.go(self.home)
        elif chance < self.restlessness:
            self.move(draw)
        if self.depth > 1 and draw.random() < PIPELINES:
            return self.pipeline(draw, now_ms, 1 + below(draw, self.depth))
        return self.intend(draw, now_ms)

    def answered(self, operation: Operation) -> None:
        """The client has the reply to `operation`."""
        reply = operation.reply
        if isinstance(reply, ErrorReply):
            if reply.message.startswith(TROUBLES):
                self.is_troubled = True
            self.failed(operation, reply.message)
        else:
            self.succeeded(operation, reply)

    def framed(self, argv: Words, reply: Reply) -> None:
        """The client has the reply to a command that is no operation of its own.

        Such commands frame a transaction (MULTI, DISCARD) or are queued in it.
        """

    def lost(self, operation: Operation) -> None:
        """No reply will come: the connection is closed, by either side."""
        # Otherwise the client had already left that region.
        if operation.region == self.region:
            self.is_troubled = True
            self.disconnected()

    def refused(self, now_ms: int) -> None:
        """A connection to the region could not be opened."""
        self.is_troubled = True
        self.disconnected()

    def crash(self) -> None:
        """The client's process dies and starts again in its home region, without any memory."""
        self.region = self.home
        self.is_troubled = False
        self.known = {}
        self.disconnected()
        self.forget()

    def pipeline(self, draw: Random, now_ms: int, size: int) -> list[Words]:
        """`size` acts in one pipeline: commands that are like the first one, or of all kinds."""
        if draw.random() < ALIKE:
            commands = self.alike(draw, now_ms, size)
            if commands:
                return commands
        return [one for _ in range(size) for one in self.intend(draw, now_ms)]

    # -- overridden by kinds

    def alike(self, draw: Random, now_ms: int, size: int) -> list[Words]:
        """`size` commands that the client sends one after the other and that are alike.

        Empty if its kind sends no such commands.
        """
        return []

    def intend(self, draw: Random, now_ms: int) -> list[Words]:
        """The commands to send to the present region: one of the acts, by the client's own mix."""
        return self.choose(draw)(self, draw, now_ms)

    def succeeded(self, operation: Operation, reply: Reply) -> None:
        """The client has a reply that is no error."""
        self.learn(operation.argv, reply)

    def failed(self, operation: Operation, message: str) -> None:
        """The client has an error reply."""

    def disconnected(self) -> None:
        """The connection is closed; state that was bound to it is void."""

    def forget(self) -> None:
        """Clears the memory of the kind; called by `crash`."""

    # -- tools

    def choose(self, draw: Random) -> Act:
        """One of the acts, by the client's own mix."""
        return self._menu[bisect_right(self._upto, draw.random() * self._total)]

    def go(self, region: int) -> None:
        """Connects to that region from now on."""
        if region != self.region:
            self.region = region
            self.disconnected()

    def move(self, draw: Random) -> None:
        """Fails over to another region, if there is one."""
        others = [region for region in self.regions if region != self.region]
        if others:
            self.go(pick(draw, others))

    def key(self, draw: Random) -> bytes:
        """One of the client's keys, most often the first."""
        return self.keys[0] if draw.random() < self.fidelity else pick(draw, self.keys)

    def two_keys(self, draw: Random) -> tuple[bytes, bytes]:
        """Two different keys; the same key twice if the client has only one."""
        first = below(draw, len(self.keys))
        if len(self.keys) == 1:
            return self.keys[0], self.keys[0]
        return self.keys[first], self.keys[
            (first + 1 + below(draw, len(self.keys) - 1)) % len(self.keys)
        ]

    def token(self) -> bytes:
        """A value that no other entry of the run bears."""
        self.tokens += 1
        return b"%d" % (self.number * TOKENS_OF_A_CLIENT + self.tokens)

    def fields(self, draw: Random) -> list[bytes]:
        """The fields and values of a new entry, the token first.

        Mostly the client's usual field names, so that entries share the master fields of a node.
        """
        words = [b"t", self.token()]
        for name in self.shape if draw.random() < 0.85 else pick(draw, SHAPES):
            words.append(name)
            words.append(self.value(draw))
        return words

    def value(self, draw: Random) -> bytes:
        """A value: mostly a small number, rarely empty, binary, or long enough to fill a node."""
        chance = draw.random()
        if chance < 0.9:
            return b"%d" % int(chance * 1000)
        if chance < 0.94:
            return b""
        if chance < 0.98:
            return b"\x00\r\n\xff"
        return b"x" * (20 + below(draw, 400))

    def learn(self, argv: Words, reply: Reply) -> None:
        """Remembers the entry IDs that a reply of XADD, a range or a read shows."""
        name = argv[0]
        if name == b"XADD":
            if isinstance(reply, bytes):
                self.know(argv[1], (reply,))
        elif name == b"XRANGE" or name == b"XREVRANGE":
            self.know(argv[1], entry_ids(reply, LEARNT_IDS_MAX))
        elif name == b"XREAD" or name == b"XREADGROUP":
            for key, entries in entries_by_key(reply):
                self.know(key, entry_ids(entries, LEARNT_IDS_MAX))

    def know(self, key: bytes, ids: Sequence[bytes]) -> None:
        """Remembers entry IDs of a key; the oldest are forgotten."""
        known = self.known.get(key)
        if known is None:
            known = self.known[key] = deque(maxlen=KNOWN_IDS_MAX)
        known.extend(ids)

    def known_id(self, draw: Random, key: bytes) -> Optional[bytes]:
        """An entry ID of the key that a reply showed; None without any."""
        known = self.known.get(key)
        return known[int(draw.random() * len(known))] if known else None

    def look(self, draw: Random, key: bytes) -> Words:
        """A range command that shows entry IDs."""
        count = b"%d" % (1 + below(draw, LEARNT_IDS_MAX))
        if draw.random() < 0.5:
            return (b"XRANGE", key, b"-", b"+", b"COUNT", count)
        return (b"XREVRANGE", key, b"+", b"-", b"COUNT", count)
