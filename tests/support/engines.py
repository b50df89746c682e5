"""Engines without a process: one that stands alone, or one on a keyspace that a test has built."""

from __future__ import annotations

from collections.abc import Sequence

from anabranch.crdt.keyspace import Keyspace
from anabranch.crdt.region_log import NodeLimits
from anabranch.region.engine import registry
from anabranch.region.engine.batch import Batch
from anabranch.region.engine.clock import EngineClock
from anabranch.region.engine.engine import Engine
from anabranch.region.engine.journal import Journal
from anabranch.region.engine.lifecycle import Lifecycle
from anabranch.region.engine.members import Member, Members
from anabranch.region.engine.questions import EffectsQuestion, HistoryQuestion
from anabranch.region.engine.replies import Reply
from anabranch.region.engine.rows import BlockRow, LogRow
from anabranch.region.engine.session import Session
from anabranch.region.engine.settings import Settings
from anabranch.region.engine.stable_time import StableTime
from anabranch.region.engine.state import EngineState
from anabranch.region.resp.parser import RequestParser


def engine_on(
    keyspace: Keyspace,
    members: Members,
    settings: Settings,
    lifecycle: Lifecycle,
    clock: EngineClock,
    disk_clock_ms: int,
    stable: StableTime | None = None,
) -> Engine:
    """An engine as `region.live.starting` makes it.

    `clock` is also the lifecycle's. `disk_clock_ms` is the clock that its disk has, `stable` the
    floor of IDs and the dates there.
    """
    journal = Journal(keyspace, keyspace.position, clock)
    return Engine(
        EngineState(
            members,
            settings,
            keyspace,
            journal,
            lifecycle,
            disk_clock_ms,
            registry.commands(),
            stable,
        )
    )


def single(region_id: int = 1, now_ms: int = 1, settings: Settings | None = None) -> Engine:
    """A region alone in its cluster, with nothing on its disk."""
    clock = EngineClock(now_ms)
    return engine_on(
        Keyspace(region_id, NodeLimits()),
        Members("single", region_id, "us", [Member(region_id, "us")]),
        settings or Settings(),
        Lifecycle(region_id, now_ms, 0, clock, 0),
        clock,
        now_ms,
    )


def batch_of(engine: Engine, *commands: list[bytes]) -> Batch:
    """The first batch that the parser makes of commands that a client sends in one piece."""
    parser = RequestParser(1 << 29, shapes=engine.clients.shapes)
    lines = [b"*%d\r\n" % len(words) + b"".join(map(_bulk, words)) for words in commands]
    parser.feed(b"".join(lines))
    batch = parser.next_batch(len(commands))
    assert batch is not None
    return batch


def _bulk(word: bytes) -> bytes:
    return b"$%d\r\n%b\r\n" % (len(word), word)


def execute(engine: Engine, session: Session, argv: list[bytes], now_ms: int) -> Reply:
    """Runs one command and returns its reply."""
    replies, taken = engine.clients.execute_batch(session, Batch(argv), now_ms)
    assert taken == 1 and len(replies) == 1
    return replies[0]


def answer_questions(engine: Engine, rows: Sequence[LogRow]) -> None:
    """Answers the questions of clients to the log, which consists of `rows`."""
    for question in engine.questions.take():
        if isinstance(question, EffectsQuestion):
            found = question.effects
            blocks = [row for row in rows if isinstance(row, BlockRow)]
            wanted = [row for row in blocks if row.block.origin == found.origin]
            found.take([row for row in wanted if row.block.last > found.up_to])
            engine.questions.answer_effects(question, {})
            continue
        assert isinstance(question, HistoryQuestion)
        question.history.take(list(rows))
        oldest = rows[0] if rows else LogRow(0, 0)
        engine.questions.answer(question, oldest.position, oldest.clock_ms, {})
