"""Any input of clients against engines: refused or executed, and never an exception.

An exception inside a step ends the process (S13.10), so no input of a client may raise one. Each
history runs drawn commands (`tests/support/drawn_commands.py`) in one of two regions, alone and in
pipelines, inside and outside MULTI, while time goes on and the regions exchange their blocks.
Beyond the exception it checks that a command that is answered with an error has changed nothing,
and that the log of a region, replayed, is what the region holds.

`python -m tests.engine.any_input --cases 1000000` runs more commands than the test does.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from collections import Counter
from random import Random

from anabranch.region.driver.client_limits import ClientCounters, ClientLimits
from anabranch.region.driver.command_execution import CommandExecution
from anabranch.region.engine.replies import ErrorReply, NoReply, Reply, ReplyLater
from anabranch.region.engine.rows import BlockRow, RecordsRow
from anabranch.region.engine.session import Session
from anabranch.region.resp.encoder import encode
from anabranch.region.resp.parser import RequestParser
from anabranch.region.resp.request import command
from tests.driver.regions import SetClock
from tests.support.drawn_commands import DrawnCommands
from tests.support.engine_cluster import Place, carry, cluster, tell
from tests.support.engines import answer_questions, execute

COMMANDS = 250
"""Commands of a history. Settings that clients changed and flags that they set end with it."""
_SESSIONS = 4
_PIPELINE_MAX = 40
_OPENING = (
    "XADD s * f v",
    "XADD s * f v g w",
    "XADD t 1 f v",
    "XADD u MAXLEN 0 * f v",
    "XGROUP CREATE s g 0",
    "XGROUP CREATE s h $",
    "XGROUP CREATE v g 0 MKSTREAM",
    "XREADGROUP GROUP g c COUNT 1 STREAMS s >",
    "XADD s IDMP p 1 * f v",
    "PEXPIRE t 3000",
)


class Found(AssertionError):
    """An input with an outcome that must not be. Its text tells how to see it again."""


class History:
    """One history; `answers` counts answers by their kind."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.answers: Counter[str] = Counter()
        self._draw = Random(seed)
        self._commands = DrawnCommands(self._draw)
        self._places = cluster(
            2,
            1_700_000_000_000,
            crdt_xadd_id_uniqueness_mode=self._draw.choice(["strict", "semi-strict", "liberal"]),
            stream_node_max_entries=self._draw.choice(["2", "100"]),
            crdt_unit_max_bytes=self._draw.choice(["1mb", "64mb"]),
        )
        self.place = self._places[0]
        self._sessions: list[Session] = []
        self._limits = ClientLimits(self.place.settings, 1000)
        # The last inputs, for the text of `Found`.
        self._last: list[object] = []
        for line in _OPENING:
            self.place.ok(*line.split())

    def run(self) -> None:
        """Runs the history. Raises `Found`."""
        try:
            self._run()
        except Found:
            raise
        except Exception as error:
            raise Found(self._told(f"it raises {error!r}", traceback.format_exc())) from error

    def _told(self, *what: str) -> str:
        shown = [repr(one)[:600] for one in self._last[-3:]]
        return "\n".join([f"history {self.seed}:", *shown, *what])

    def _run(self) -> None:
        draw, place, other = self._draw, *self._places
        left = COMMANDS
        while left > 0:
            if draw.random() < 0.1:
                count = draw.randint(2, _PIPELINE_MAX)
                self._pipeline(count, is_transaction=draw.random() < 0.4)
                left -= count
            else:
                self._single()
                left -= 1
            if draw.random() < 0.1:
                self._pass_time()
            if draw.random() < 0.03:
                self._exchange(place, other)
        self._settled()
        if place.engine.state.lifecycle.serves:
            digest = place.engine.keyspace.digest()
            place.restart(place.now_ms)
            if place.engine.keyspace.digest() != digest:
                raise Found(self._told("the log, replayed, is not what the region held"))

    # -- time, commits and the other region

    def _pass_time(self) -> None:
        for place in self._places:
            place.at(place.now_ms + self._draw.choice([1, 50, 1000, 70_000]))
            place.commit()
        self._settled()

    def _exchange(self, place: Place, other: Place) -> None:
        other("XADD", self._draw.choice("st"), "*", "f", "v")
        if self._draw.random() < 0.3:
            other("XGROUP", "CREATE", "t", "g", "0")
        carry(other, place)
        carry(place, other)
        tell(other, place)
        self._settled()

    def _settled(self) -> None:
        """What waits is committed and answered, and sessions that end are removed."""
        place = self.place
        engine = place.engine
        place.commit()
        answer_questions(engine, place.rows)
        engine.peers.links.take_requests()
        engine.take_sleep_ms()
        for late in engine.clients.take_replies():
            self._take(late.session, late.reply)
        ended = set(engine.clients.take_sessions_to_close())
        for session in list(self._sessions):
            if session.session_id in ended or session.closing:
                self._leave(session)

    def _leave(self, session: Session) -> None:
        self._sessions.remove(session)
        self.place.engine.clients.disconnect(session)

    def _session(self) -> Session:
        """A session that does not wait."""
        engine, now_ms = self.place.engine, self.place.now_ms
        for session in list(self._sessions):
            if session.waiting and self._draw.random() < 0.3:
                self._leave(session)
        free = [one for one in self._sessions if not one.waiting]
        if free and len(self._sessions) >= _SESSIONS:
            return self._draw.choice(free)
        session = engine.clients.connect("127.0.0.1:5", "127.0.0.1:7001", now_ms)
        session.authenticated = True
        self._sessions.append(session)
        return session

    # -- commands

    def _single(self) -> None:
        """One command. Nothing is uncommitted before it, so a commit shows what it has changed."""
        place, session = self.place, self._session()
        engine = place.engine
        words = self._commands.next()
        self._last.append(words)
        place.now_ms += self._draw.choice([0, 1, 5])
        engine.tick(place.now_ms)
        self._settled()
        if session not in self._sessions or session.waiting:
            return
        before = self._facts()
        argv = list(words)
        reply = execute(engine, session, argv, place.now_ms)
        if isinstance(reply, ErrorReply):
            self._unchanged(before, reply)
        engine.clients.note_slow(session, argv, None, 1, 10, place.now_ms)
        self._take(session, reply)
        self._settled()

    def _facts(self) -> tuple[object, ...]:
        engine = self.place.engine
        return (
            engine.keyspace.digest(),
            dict(engine.vector),
            engine.state.journal.effects_issued,
            dict(engine.settings.values),
        )

    def _unchanged(self, before: tuple[object, ...], reply: ErrorReply) -> None:
        after = self._facts()
        if after != before:
            names = ("digest", "vector", "effects", "settings")
            changed = [
                name for name, one, two in zip(names, before, after, strict=True) if one != two
            ]
            raise Found(self._told(f"refused with {reply.message!r}, it changed {changed}"))
        commit = self.place.commit()
        rows = [] if commit is None else commit.rows
        if any(isinstance(row, (BlockRow, RecordsRow)) for row in rows):
            raise Found(self._told(f"refused with {reply.message!r}, it made the rows {rows}"))

    def _take(self, session: Session, reply: Reply) -> None:
        """Encodes a reply, and keeps the ID that it may be."""
        if isinstance(reply, (ReplyLater, NoReply)):
            self.answers["later or nothing"] += 1
            return
        out: list[bytes] = []
        encode(reply, session.protocol, out)
        data = b"".join(out)
        if not data.endswith(b"\r\n"):
            raise Found(self._told(f"the reply {data[:200]!r} does not end"))
        kind = data[:1].decode()
        code = data[1:].split(b" ")[0].decode("ascii", "replace")
        self.answers[code if kind == "-" else kind] += 1
        if kind == "$" and b"-" in data and len(data) < 60:
            self._commands.ids.append(data.split(b"\r\n")[1])

    def _pipeline(self, count: int, is_transaction: bool) -> None:
        """Several commands in one piece, which the parser makes batches of."""
        place, session = self.place, self._session()
        engine = place.engine
        lines = [self._commands.next() for _ in range(count)]
        if self._draw.random() < 0.5:
            # Commands that are alike go together.
            lines = [
                [*line[:-1], self._draw.choice([line[-1], b"7", b"\xff", b""])]
                for line in lines[:3]
                for _ in range(self._draw.choice([1, 2, 20]))
            ]
        if is_transaction:
            lines = [[b"MULTI"], *lines[:5], [b"EXEC"]]
        self._last.append(lines)
        parser = RequestParser(1 << 29, shapes=engine.clients.shapes)
        parser.authenticated = True
        parser.feed(b"".join(command(*line) for line in lines))
        clock = SetClock(place.now_ms)
        turns = CommandExecution(
            engine.clients, clock, self._limits, ClientCounters(), lambda _: None
        )
        for _ in range(4 * len(lines)):
            out: list[bytes] = []
            has_more = turns.turn(session, parser, out)
            self.answers["of pipelines"] += len(out)
            if session.waiting or session.closing or not has_more:
                break
        else:
            raise Found(self._told("the pipeline does not end"))
        self._settled()


def run(cases: int, seed: int) -> Counter[str]:
    """Runs histories with about `cases` commands together; returns the answers by their kind."""
    answers: Counter[str] = Counter()
    for number in range(max(1, cases // COMMANDS)):
        history = History(1_000_000 * seed + number)
        history.run()
        answers += history.answers
    return answers


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.engine.any_input", description=__doc__)
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    answers = run(given.cases, given.seed)
    print(f"{given.cases:,} commands, no exception; answers: {dict(answers.most_common())}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
