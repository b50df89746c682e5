"""A session on a live cluster, recorded act by act, so that it can be written as a scenario.

Links are closed but in Sync acts, as in scenarios. Acts run one after the other: each command waits
for its answer, and a moment passes between two commands, so that IDs that regions generate ascend
in the order of the commands here and in virtual time.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from itertools import combinations
from typing import Final, Union

from anabranch.region.engine.settings import Settings
from anabranch.region.resp.decoder import DecodedReply
from anabranch.sim.history import Words
from anabranch.sim.plan import shape_of
from anabranch.sim.scenario.admins import ANSWER_PATIENCE_S
from anabranch.sim.scenario.cluster import Ticket
from anabranch.sim.scenario.live import MODE_SETTING, LiveCluster
from anabranch.sim.scenario.model import CLIENT_MAX, Call, Cut, Heal, Scenario, Sync, connection
from anabranch.sim.scenario.refusals import Refused, check_words
from anabranch.sim.scenario.runner import Run
from anabranch.sim.scenario.transcript import (
    Act,
    Answered,
    Gap,
    Left,
    Said,
    Together,
    write_session,
    written_reply,
)
from anabranch.sim.world.environment import EPOCH_MS

# Time between two commands: IDs of two regions then differ in their ms.
_APART_S: Final = 0.002
# How long an act waits for the answers that it brings to commands that wait.
_ANSWER_S: Final = 0.02
# Settings that change replies; values other than the defaults go into the header.
_SETTINGS: Final = (
    "stream-node-max-entries",
    "stream-node-max-bytes",
    "stream-idmp-duration",
    "stream-idmp-maxsize",
    "crdt-expiry-grace-ms",
)
# How often a clock is read at most.
_CLOCK_READINGS: Final = 20
# Clocks that differ by less are taken as equal.
_CLOCKS_EQUAL_MS: Final = 20

# Commands after which the time that passes matters.
_TIMED: Final = frozenset(b"EXPIRE PEXPIRE EXPIREAT PEXPIREAT XCLAIM XAUTOCLAIM".split())
_ABSOLUTE: Final = re.compile(rb"\d{12,}(-\d+|-\*)?")


class Blocked:
    """The command waits; `Session.poll` brings its answer."""


class _Waiting:
    """A command that waits for its answer."""

    def __init__(self, call: Call, ticket: Ticket) -> None:
        self.call: Final = call
        self.ticket: Final = ticket


class Session:
    """The recorder. It begins on an empty cluster; `close` opens its links and keeps its data.

    `notes` receives remarks for the user about acts that may not be repeated exactly.
    """

    def __init__(self, cluster: LiveCluster, title: str) -> None:
        self.cluster: Final = cluster
        self.names: Final = {one: end.name for one, end in sorted(cluster.endpoints.items())}
        self.acts: Final[list[Act]] = []
        self.notes: Final[list[str]] = []
        self.title: Final = title
        self._modes = {one: cluster.setting(one, MODE_SETTING) for one in self.names}
        self._settings = {
            one: {name: cluster.setting(one, name) for name in _SETTINGS} for one in self.names
        }
        regions = tuple(self.names)
        self._scenario: Final = Scenario(
            path="",
            title=title,
            steps=(),
            columns=regions,
            members=len(regions),
            own_settings=tuple((one, MODE_SETTING, mode) for one, mode in self._modes.items()),
            regions=regions,
            links=shape_of("mesh", regions),
        )
        self._waiting: dict[int, _Waiting] = {}
        # The answers to commands that waited, until `take_answer`.
        self._answers: dict[int, tuple[int, int, DecodedReply]] = {}
        self._is_timed = False
        self._is_absolute = False
        cluster.prepare(self._scenario)
        self._run: Final = Run(self._scenario, cluster)
        self._clocks_ms = {one: self._measure_clock(one) for one in self.names}
        self._begun_ms = int(time.time() * 1000)
        self._ended_s = time.monotonic()

    def _measure_clock(self, region: int) -> int:
        """How far the clock of a region is ahead of this machine's, in ms.

        An answer can come late. The one that took the shortest time tells it best.
        """
        found: list[tuple[float, float]] = []
        for _ in range(_CLOCK_READINGS):
            begun_ms = time.time() * 1000
            reply = self.cluster.ask(region, "TIME")
            ended_ms = time.time() * 1000
            assert isinstance(reply, list)
            numbers = [int(part) for part in reply if isinstance(part, bytes)]
            theirs_ms = numbers[0] * 1000 + numbers[1] / 1000
            found.append((ended_ms - begun_ms, theirs_ms - (begun_ms + ended_ms) / 2))
            if ended_ms - begun_ms < _CLOCKS_EQUAL_MS / 2:
                break
        return int(min(found)[1])

    # -- acts

    def command(self, region: int, client: int, words: Words) -> Union[DecodedReply, Blocked]:
        """Sends a command and records it; `client` 0 is the region's own client.

        Raises:
            Refused: A scenario cannot hold it; nothing was sent.
        """
        whose = connection(region, client)
        self._check(whose, client, words)
        blocks = _blocks(words) and whose not in self._run.queued
        number = self.look(region, client, (b"CLIENT", b"ID")) if blocks else None
        self._pass_time()
        call = Call(0, "", region, words, None, client=client, blocks=blocks)
        recorded = _for_ever(words) if blocks else words
        queued = tuple(self._run.queued.get(whose, ()))
        (ticket,) = self.cluster.post(region, client, [words], at_once=False)
        self._note_kinds(words)
        if blocks and self._waits(region, ticket, number):
            self.acts.append(Said(region, client, recorded, None))
            self._waiting[whose] = _Waiting(call, ticket)
            self._ended()
            return Blocked()
        self.cluster.settle(ticket)
        if ticket.is_open or ticket.lost or ticket.refused:
            self.acts.append(Left(region, client))
            self._run.queued.pop(whose, None)
            self._ended()
            raise Refused(f"{self.names[region]} closed the connection")
        if blocks and ticket.reply is None:
            # Its time was over at once. With BLOCK 0 it would wait for ever.
            recorded = _at_once(words)
        shape = self._run.shape_of(call, list(words), ticket.reply)
        expected = written_reply(words, shape, queued)
        self.acts.append(Said(region, client, recorded, expected))
        self._ended()
        self._answer_others()
        return ticket.reply

    def _waits(self, region: int, ticket: Ticket, number: DecodedReply) -> bool:
        """Whether the command of the client with this number waits.

        Without an answer, it waits only if the region says so: a busy one may just be slow.
        """
        deadline_s = time.monotonic() + ANSWER_PATIENCE_S
        while self.cluster.is_blocked(ticket):
            listed = self.cluster.ask(region, "CLIENT", "LIST", "ID", str(number))
            if not isinstance(listed, bytes) or re.search(rb" flags=[A-Za-z]*b", listed):
                return True
            if time.monotonic() > deadline_s:
                return True
        return False

    def look(self, region: int, client: int, words: Words) -> DecodedReply:
        """Sends a command that changes nothing, without recording it.

        Raises:
            Refused: The client waits for an answer, or the command acts on other connections.
        """
        self._check(connection(region, client), client, words)
        (ticket,) = self.cluster.post(region, client, [words], at_once=False)
        self.cluster.settle(ticket)
        return ticket.reply

    def is_in_transaction(self, region: int, client: int) -> bool:
        """Whether the client has begun a transaction."""
        return connection(region, client) in self._run.queued

    def hang_up(self, region: int, client: int) -> None:
        """The client closes its connection."""
        whose = connection(region, client)
        self.cluster.hang_up(region, client)
        self._run.queued.pop(whose, None)
        if self._waiting.pop(whose, None) is not None or client == 0:
            self.acts.append(Left(region, client))
        self._ended()

    def sync(self, regions: Sequence[int] = ()) -> None:
        """The regions become level; cut links stay closed."""
        self._together("Sync", regions)

    def cut(self, regions: Sequence[int]) -> None:
        """The links among the regions stay closed, in Sync acts, too."""
        self._together("Cut", regions)

    def heal(self, regions: Sequence[int] = ()) -> None:
        """Ends cuts of the links among the regions."""
        self._together("Heal", regions)

    def _together(self, kind: str, regions: Sequence[int]) -> None:
        chosen = tuple(sorted(regions or self.names))
        if len(chosen) < 2:
            raise Refused(f"{kind.lower()} needs two regions or more")
        self._pass_time()
        if kind == "Sync" and self._waiting and len(chosen) > 2:
            self._sync_in_pairs(chosen)
        else:
            self._perform(kind, chosen)

    def _perform(self, kind: str, regions: tuple[int, ...]) -> None:
        step = {"Sync": Sync, "Cut": Cut, "Heal": Heal}[kind](0, "", regions)
        self._run.perform(step)
        self.acts.append(Together(kind, regions))
        self._ended()
        self._answer_others()

    def _sync_in_pairs(self, regions: tuple[int, ...]) -> None:
        """Makes regions level two at a time.

        A command that waits is answered as soon as some effects arrive. If they came from two
        regions at once, the file could not say which come first.
        """
        pairs = [pair for pair in combinations(regions, 2) if frozenset(pair) not in self._run.cut]
        wanted = pairs
        while wanted:
            for pair in wanted:
                self._perform("Sync", pair)
            vectors = self.cluster.vectors(regions)
            wanted = [(one, other) for one, other in pairs if vectors[one] != vectors[other]]

    def _answer_others(self) -> bool:
        """Lets the answers come that the last act brings, so that they stand behind it."""
        if self._waiting:
            time.sleep(_ANSWER_S)
        return self.poll()

    def answers(self) -> list[tuple[int, int]]:
        """(region, client) of those whose command has waited and is answered."""
        return [(region, client) for region, client, _ in self._answers.values()]

    def take_answer(self, region: int, client: int) -> DecodedReply:
        """The answer to the command of a client among `answers`."""
        return self._answers.pop(connection(region, client))[2]

    def poll(self) -> bool:
        """Records the answers to commands that waited; whether there was one."""
        if not self._waiting:
            return False
        self.cluster.gather([])
        found = False
        for whose, waiting in list(self._waiting.items()):
            call, ticket = waiting.call, waiting.ticket
            if ticket.is_open:
                continue
            del self._waiting[whose]
            found = True
            self._answers[whose] = (call.region, call.client, ticket.reply)
            if ticket.lost or ticket.reply is None:
                # A time-out changes nothing, so the file ends the connection instead.
                self.cluster.hang_up(call.region, call.client)
                self.acts.append(Left(call.region, call.client))
                self.notes.append(
                    f"{call.argv[0].decode()} in {self.names[call.region]} timed out; the file"
                    " closes its connection there instead"
                )
                continue
            shape = self._run.shape_of(call, list(call.argv), ticket.reply)
            expected = written_reply(call.argv, shape, ())
            self.acts.append(Answered(call.region, call.client, expected))
            self._ended()
        return found

    # -- checks and time

    def _check(self, whose: int, client: int, words: Words) -> None:
        if not 0 <= client <= CLIENT_MAX:
            raise Refused(f"a client's label is a number up to {CLIENT_MAX}")
        if whose in self._waiting:
            raise Refused("this client waits for an answer; use another client")
        check_words(words)

    def _note_kinds(self, words: Words) -> None:
        name = words[0].upper()
        upper = [word.upper() for word in words]
        if name in _TIMED or (name == b"XPENDING" and b"IDLE" in upper):
            self._is_timed = True
        if name == b"XADD" and (b"IDMP" in upper or b"IDMPAUTO" in upper):
            self._is_timed = True
        if name in (b"EXPIREAT", b"PEXPIREAT"):
            self._is_absolute = True
        if name in (b"XADD", b"XSETID") and any(_ABSOLUTE.fullmatch(one) for one in words[2:]):
            self._is_absolute = True

    def _pass_time(self) -> None:
        """Waits until a command may follow the last one, and records the time since that."""
        self.poll()
        time.sleep(_APART_S)
        gap_ms = int((time.monotonic() - self._ended_s) * 1000)
        self.acts.append(Gap(gap_ms))

    def _ended(self) -> None:
        self._ended_s = time.monotonic()

    # -- the end

    def close(self) -> None:
        """Opens the links again, restores settings, and closes the connections. Data stays."""
        self.cluster.release()

    def text(self) -> str:
        """The session as a scenario file. Clients that still wait close their connections there."""
        calls = [waiting.call for waiting in self._waiting.values()]
        acts = [*self.acts, *(Left(call.region, call.client) for call in calls)]
        return write_session(self.title, self.names, self._header(), acts, self._is_timed)

    def _header(self) -> list[str]:
        lines: list[str] = []
        for name, values in [
            ("id-mode", self._modes),
            *(
                (name, {one: its[name] for one, its in self._settings.items()})
                for name in _SETTINGS
            ),
        ]:
            lines += self._values(name, values)
        lowest = min(self._clocks_ms.values())
        base_ms = self._begun_ms - EPOCH_MS if self._is_absolute else 0
        for one, ahead_ms in self._clocks_ms.items():
            apart_ms = ahead_ms - lowest if ahead_ms - lowest > _CLOCKS_EQUAL_MS else 0
            if base_ms + apart_ms:
                lines.append(f"clock {self.names[one]}: {base_ms + apart_ms} ms")
        return lines

    def _values(self, name: str, values: dict[int, str]) -> list[str]:
        """A setting's lines; none where the default is in force."""
        default = "strict" if name == "id-mode" else default_of(name)
        if set(values.values()) == {default}:
            return []
        if len(set(values.values())) == 1:
            value = values[min(values)]
            return [f"id-mode: {value}" if name == "id-mode" else f"set {name}: {value}"]
        setting = MODE_SETTING if name == "id-mode" else name
        return [f"set {self.names[one]} {setting}: {value}" for one, value in values.items()]


def default_of(name: str) -> str:
    """The default of a setting, as CONFIG GET shows it."""
    return str(Settings({}).values[name])


def _blocks(words: Words) -> bool:
    upper = [word.upper() for word in words]
    if upper[0] not in (b"XREAD", b"XREADGROUP") or b"STREAMS" not in upper:
        return False
    return b"BLOCK" in upper[: upper.index(b"STREAMS")]


def _at_once(words: Words) -> Words:
    """The command without BLOCK."""
    place = [word.upper() for word in words].index(b"BLOCK")
    return (*words[:place], *words[place + 2 :])


def _for_ever(words: Words) -> Words:
    """The command with BLOCK 0: in virtual time no other time passes than the table's."""
    place = [word.upper() for word in words].index(b"BLOCK")
    return (*words[: place + 1], b"0", *words[place + 2 :])
