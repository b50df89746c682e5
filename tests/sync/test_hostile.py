"""Well-formed messages in any order, on either side.

A link may be refused, and nothing else happens.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.crdt.gossip import StartQuestion
from anabranch.region.engine.clock import SteadyClock
from anabranch.region.engine.settings import Settings
from anabranch.sync.session import messages as m
from anabranch.sync.session.hub import Hub
from tests.sync.fakes import NAMES, FakeEngine
from tests.sync.test_codec import downs, ups, vectors

TABLE = {1: NAMES[1], 2: NAMES[2]}
small = st.dictionaries(st.integers(1, 3), st.integers(1, 5), max_size=3)
hellos = st.builds(
    lambda vector, dialled, life, window: m.Hello(
        m.VERSION, "c", TABLE, 2, "eu", dialled, life, vector, {}, frozenset(), window
    ),
    vectors | small,
    st.sampled_from([1, 1, 1, 9]),
    st.integers(0, 3),
    st.integers(1, 10_000),
)
welcomes = st.builds(
    lambda vector, life: m.Welcome(m.VERSION, "c", TABLE, 2, "eu", life, vector, {}),
    small,
    st.integers(0, 3),
)
snapshots = st.one_of(
    st.builds(m.SnapshotBegin, st.integers(1, 2), small, st.just({})),
    st.builds(m.SnapshotChunk, st.integers(1, 2), st.integers(0, 2), st.just(b"x")),
    st.builds(m.SnapshotEnd, st.integers(1, 2), st.integers(0, 2)),
)


def hub(log_is_short: bool = False) -> tuple[Hub, FakeEngine]:
    """A region that starts and has one effect, which its log may not reach back to any more."""
    engine = FakeEngine(1, TABLE)
    engine.merge = lambda blocks, source, now_ms: None  # type: ignore[method-assign]
    engine.join = lambda chunks, source, now_ms: None  # type: ignore[method-assign]
    engine.question = StartQuestion(1, {1: 1})
    engine.write("mine")
    engine.commit()
    if log_is_short:
        engine.log.truncate(0)
    settings = Settings({"crdt-window-max-bytes": 5000})
    return Hub(engine, settings, [2], engine.log.tail, SteadyClock(1000)), engine


def drive(one: Hub, engine: FakeEngine, number: int, message: Any, now_ms: int) -> None:
    one.received(number, message, now_ms)
    one.tick(now_ms)
    for _ in range(3):
        one.merge_some(1000, now_ms)
    engine.commit()
    one.committed(now_ms)
    one.ask_for_start()
    for asker, request in one.take_work().requests:
        one.answered(asker, request, engine.log.answer(request), now_ms)
    for connection in (number, 1, 2):
        while one.next_message(connection) is not None:
            pass
    one.take_work()


@given(st.lists(ups | hellos, max_size=12), st.booleans())
@settings(max_examples=300)
def test_whatever_a_dialler_says(said: list[Any], log_is_short: bool) -> None:
    one, engine = hub(log_is_short)
    number = one.accepted(1000)
    for place, message in enumerate(said):
        if one.finished(number):
            number = one.accepted(1000)
        drive(one, engine, number, message, 1000 + 300 * place)
    assert engine.receivers <= {2}


@given(st.lists(downs | welcomes | snapshots, max_size=12))
@settings(max_examples=300)
def test_whatever_who_was_dialled_says(said: list[Any]) -> None:
    one, engine = hub()
    for place, message in enumerate([m.Welcome(m.VERSION, "c", TABLE, 2, "eu", 1, {}, {}), *said]):
        now_ms = 1000 + 300 * place
        link = one.links[2]
        if link.connection is None:
            one.dial_opened(2, now_ms)
        assert link.connection is not None
        drive(one, engine, link.connection.number, message, now_ms)
