"""The sink without Spark: pairs, windows, progress, and one task that adds rows."""

from __future__ import annotations

import inspect
import random
import re
from collections.abc import Iterator

import pytest

from anabranch.pipeline import pairs as pairs_module
from anabranch.pipeline.adding import Adder, Task
from anabranch.pipeline.errors import OptionError, PipelineError, RegionsError
from anabranch.pipeline.options import RegionOptions
from anabranch.pipeline.pairs import Pairs, RowToAdd
from anabranch.pipeline.progress import Done, begin, finish, progress_key, read_progress, region_ms
from anabranch.pipeline.resp import Connection
from anabranch.pipeline.sink_options import SINK_OPTIONS, SinkOptions
from anabranch.pipeline.window import WindowError, checked_window
from anabranch.region.engine.engine import Engine
from anabranch.region.resp.request import word_bytes
from tests.pipeline.serving import EngineServer
from tests.support.engines import single

WINDOW = "XCFGSET s IDMP-DURATION 3600 IDMP-MAXSIZE 10000"


@pytest.fixture
def engine() -> Engine:
    return single()


@pytest.fixture
def server(engine: Engine) -> Iterator[EngineServer]:
    with EngineServer(engine) as one:
        yield one


def connected(server: EngineServer) -> Connection:
    return Connection(("127.0.0.1", server.port), "", "", 5.0)


def run(server: EngineServer, *lines: str) -> list[object]:
    connection = connected(server)
    replies: list[object] = [connection.call(*line.split()) for line in lines]
    connection.close()
    return replies


def options(*servers: EngineServer, **more: str) -> SinkOptions:
    endpoints = ",".join(f"127.0.0.1:{one.port}" for one in servers) or "127.0.0.1:1"
    given = {"endpoints": endpoints, "stream": "s", "timeoutSeconds": "20", **more}
    return SinkOptions({name: value for name, value in given.items() if value})


def rows(*values: str, first: int = 1, stream: str = "s", ids: bool = False) -> list[RowToAdd]:
    return [
        RowToAdd(n, stream.encode(), 1, word_bytes("v", value), value.encode() if ids else b"")
        for n, value in enumerate(values, first)
    ]


def task(query: str = "q", batch: int = 0, begun_ms: int = 0) -> Task:
    return Task(f"batch {batch}, partition 0", query, batch, begun_ms)


def add(
    found: SinkOptions, some: list[RowToAdd], one: Task | None = None, prefix: str = "q/0/0"
) -> int:
    """Adds rows as one task does; returns how many it confirmed."""
    adder = Adder(found, one or task(), Pairs(prefix, bool(found.id_column)))
    adder.begin()
    adder.add(some)
    return adder.rows


def values(server: EngineServer, stream: str = "s") -> list[str]:
    reply = run(server, f"XRANGE {stream} - +")[0]
    assert isinstance(reply, list)
    return [fields[1].decode() for _, fields in reply]


# -- options


def test_options() -> None:
    found = options()
    assert (found.window_s, found.sets_window, found.in_flight_max) == (3600, False, 2000)
    assert (found.wait, found.adds_lapsed, found.producer) == (0, False, "")
    assert (
        SinkOptions({"endpoints": "us=h:1,eu=h:2", "writeRegion": "eu", "checkpointLocation": "/c"})
        .endpoints[0]
        .port
        == 2
    )


def test_the_table_of_options_has_every_option() -> None:
    source = inspect.getsource(RegionOptions) + inspect.getsource(SinkOptions)
    found = set(re.findall(r"self\._\w+\(\s*\"([a-zA-Z]+)\"", source))
    assert found | {"writeRegion"} == set(SINK_OPTIONS)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"streams": "s"}, "there is no option 'streams'; did you mean stream?"),
        ({"producer": "p"}, "producer has no effect without idColumn"),
        ({"windowSeconds": "90000"}, "windowSeconds must be between 1 and 86400"),
        ({"lapsedWindow": "no"}, "lapsedWindow must be one of fail, add"),
        ({"batchSize": "1"}, "batchSize must be between 2 and 100000"),
        ({"writeRegion": "ap"}, "writeRegion: no endpoint has the name ap"),
    ],
)
def test_wrong_options(more: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=re.escape(message)):
        options(**more)


# -- pairs


def test_rows_are_known_in_any_order() -> None:
    """A repeated task gets rows of a shuffle in another order: each must have the same pair."""
    some = rows(*(str(n % 70) for n in range(300)))
    shuffled = list(some)
    random.Random(7).shuffle(shuffled)
    one, other = Pairs("q/0/0", False), Pairs("q/0/0", False)
    assert {one.pair(row) for row in some} == {other.pair(row) for row in shuffled}
    assert one.sum == other.sum
    assert len({Pairs("q/0/1", False).pair(row) for row in some[:70]}) == 70


def test_different_rows_have_different_pairs() -> None:
    pairs = Pairs("q/0/0", False)
    names = [
        RowToAdd(1, b"s", 1, word_bytes("a", "bc"), b""),
        RowToAdd(2, b"s", 1, word_bytes("ab", "c"), b""),
    ]
    streams = [
        RowToAdd(3, b"s1", 1, word_bytes("a", "b"), b""),
        RowToAdd(4, b"s", 1, word_bytes("a", "b"), b""),
    ]
    same = rows("x", "x", "x")
    assert len({pairs.pair(row) for row in (*names, *streams, *same)}) == 7


def test_an_id_is_known_in_every_batch_and_task() -> None:
    one, other = Pairs("orders", True), Pairs("orders", True)
    assert one.pair(rows("7", ids=True)[0]) == other.pair(rows("7", first=9, ids=True)[0])


def test_more_rows_than_a_region_recognises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs_module, "MAXSIZE", 3)
    pairs = Pairs("q", True)
    for row in rows("a", "a", "a", ids=True):
        pairs.pair(row)
    with pytest.raises(PipelineError, match="at row 4: is idColumn the same for many rows"):
        pairs.pair(rows("a", first=4, ids=True)[0])


# -- the window


def test_a_short_window_is_refused(server: EngineServer) -> None:
    run(server, "XADD s * a b")
    advice = "type XCFGSET s IDMP-DURATION 3600 IDMP-MAXSIZE 10000, or give setWindow=true"
    with pytest.raises(WindowError, match=advice):
        checked_window(connected(server), b"s", options(server), True)
    run(server, "XCFGSET s IDMP-DURATION 7200 IDMP-MAXSIZE 100")
    with pytest.raises(WindowError, match="IDMP-DURATION 7200 IDMP-MAXSIZE 10000"):
        checked_window(connected(server), b"s", options(server), True)
    with pytest.raises(WindowError, match="does not exist yet: give setWindow=true"):
        checked_window(connected(server), b"t", options(server), True)


def test_a_window_is_set_when_asked(server: EngineServer) -> None:
    for stream in (b"s", b"new"):
        window = checked_window(connected(server), stream, options(server, setWindow="true"), True)
        assert (window.duration_s, window.maxsize, window.exists) == (3600, 10_000, True)
    assert run(server, "XLEN new") == [0], "the stream was made, and it is empty"


def test_a_window_is_not_set_while_there_are_pairs(server: EngineServer) -> None:
    """A change would clear them, and the batch that waits for its repetition would stand twice."""
    run(server, "XADD s IDMP p 1 * a b")
    with pytest.raises(WindowError, match="holds 1 pairs, which a change would clear"):
        checked_window(connected(server), b"s", options(server, setWindow="true"), True)
    run(server, "XADD s IDMP p 1 * a b")
    assert run(server, "XLEN s") == [1]


# -- progress


def test_progress(server: EngineServer) -> None:
    connection = connected(server)
    assert read_progress(connection, "q", 0).begun_ms is None
    for batch in range(3):
        begin(connection, "q", batch, 1000 + batch)
        begin(connection, "q", batch, 5000)
        assert not read_progress(connection, "q", batch).is_done
        finish(connection, "q", batch, Done(10, 1 << 63))
    found = read_progress(connection, "q", 1)
    assert (found.begun_ms, found.is_done) == (1001, True)
    assert found.done is not None and (found.done.rows, found.done.total) == (10, 1 << 63)
    assert not read_progress(connection, "q", 3).is_done
    assert not read_progress(connection, "other", 0).is_done


def test_the_notes_do_not_pile_up(server: EngineServer) -> None:
    connection = connected(server)
    for batch in range(100):
        begin(connection, "q", batch, 1)
        finish(connection, "q", batch, Done(1, 1))
    assert connection.call("XLEN", progress_key("q")) == 64
    found = read_progress(connection, "q", 5)
    assert found.is_done, "a later batch is done, so this one is"
    assert found.done is None


# -- one task


def test_a_task_that_is_repeated_adds_nothing(server: EngineServer) -> None:
    run(server, "XADD s * v first", WINDOW)
    some = [str(n % 90) for n in range(100)]
    for turn in range(3):
        random.Random(turn).shuffle(some)
        assert add(options(server, batchSize="8"), rows(*some)) == 100
    assert sorted(values(server)) == sorted(["first", *some])


@pytest.mark.parametrize("loses_last", [False, True])
@pytest.mark.parametrize("answers_left", [1, 7, 8, 50, 99])
def test_a_region_breaks_off(engine: Engine, answers_left: int, loses_last: bool) -> None:
    """The rows whose adds were not confirmed go to the next region, which recognises them."""
    with (
        EngineServer(engine, answers_left, "XADD", loses_last) as first,
        EngineServer(engine) as second,
    ):
        run(second, "XADD s * v first", WINDOW)
        some = [str(n) for n in range(100)]
        assert add(options(first, second, batchSize="10"), rows(*some)) == 100
        assert sorted(values(second)) == sorted(["first", *some])


def test_no_region_answers(engine: Engine) -> None:
    with EngineServer(engine, 20, "XADD") as only:
        run(only, "XADD s * v first", WINDOW)
        with pytest.raises(RegionsError, match="no region answered for 1 s"):
            add(options(only, timeoutSeconds="1"), rows(*(str(n) for n in range(100))))


def test_rows_go_out_in_chunks(server: EngineServer) -> None:
    """After half of `batchSize` the region is asked whether all is on its disk."""
    run(server, "XADD s * v first", WINDOW)
    server.commands.clear()
    add(options(server, batchSize="10"), rows(*(str(n) for n in range(40))))
    sent = [one[0] for one in server.commands if one[0] in (b"XADD", b"CRDT.VECTOR")]
    chunks = b" ".join(sent[1:]).split(b" CRDT.VECTOR")
    assert [len(chunk.split()) for chunk in chunks] == [5] * 8 + [0]


def test_a_refused_row_is_named(server: EngineServer) -> None:
    run(server, "XADD s * v first", WINDOW)
    some = rows("a", "b", "c")
    some[1] = RowToAdd(2, b"s", 0, b"", b"")
    with pytest.raises(PipelineError, match="row 2 of batch 0, partition 0: the region refused"):
        add(options(server), some)


def test_a_row_that_no_request_can_hold(server: EngineServer) -> None:
    """A region closes the connection at such a request, which looks like an outage."""
    run(server, "XADD s * v first", WINDOW, "CONFIG SET client-query-buffer-limit 2000")
    fitting, large = "x" * 1500, "x" * 2000
    assert add(options(server), rows(fitting)) == 1
    before = len(server.commands)
    message = (
        r"row 2 of batch 0, partition 0 is too large for the stream 's': it has 2\d\d\d bytes as a "
        r"request, and client-query-buffer-limit is 2000 in the region \(the region at 127"
    )
    with pytest.raises(PipelineError, match=message):
        add(options(server), rows("1", large))
    assert b"XADD" not in [command[0] for command in server.commands[before:]]


def test_a_value_that_is_too_long(server: EngineServer) -> None:
    run(server, "XADD s * v first", WINDOW, "CONFIG SET proto-max-bulk-len 1024")
    fields = b"".join(word_bytes("v", "x" * 500) for _ in range(3))
    assert add(options(server), [RowToAdd(1, b"s", 3, fields, b"")]) == 1
    message = "row 1 .* has a value of 1025 bytes, and proto-max-bulk-len is 1024 in the region"
    with pytest.raises(PipelineError, match=message):
        add(options(server), rows("x" * 1025))


def test_a_batch_that_is_done_adds_nothing(server: EngineServer) -> None:
    """Its commit file was lost, and its pairs may have expired long ago."""
    run(server, "XADD s * v first", WINDOW)
    finish(connected(server), "q", 4, Done(2, 0))
    assert add(options(server), rows("a", "b"), task(batch=4)) == 2
    assert values(server) == ["first"]
    assert add(options(server), rows("a", "b"), task(batch=5), "q/5/0") == 2
    assert values(server) == ["first", "a", "b"]


def test_a_batch_that_was_begun_too_long_ago(server: EngineServer) -> None:
    """The stream has forgotten the rows that the first attempt added."""
    run(server, "XADD s * v first", WINDOW)
    connection = connected(server)
    begin(connection, "q", 0, region_ms(connection) - 3_601_000)
    with pytest.raises(PipelineError, match="was begun longer ago .* lapsedWindow=add"):
        add(options(server), rows("a"))
    assert values(server) == ["first"]
    add(options(server, lapsedWindow="add"), rows("a"))
    assert values(server) == ["first", "a"]


def test_the_first_task_notes_when_its_batch_was_begun(server: EngineServer) -> None:
    run(server, "XADD s * v first", WINDOW)
    for part in range(3):
        add(options(server), rows("a"), prefix=f"q/0/{part}")
    assert run(server, f"XLEN {progress_key('q')}") == [1]
    assert read_progress(connected(server), "q", 0).begun_ms is not None


def test_streams_of_a_column(server: EngineServer) -> None:
    """Each stream is checked before its first row; one that is new gets its window if asked."""
    run(server, "XADD s * v first", WINDOW)
    mixed = [row for n in range(10) for row in rows(f"{n}", stream=f"s{n % 3}")]
    with pytest.raises(WindowError, match="the stream 's0' recognises a row for 100 s"):
        add(options(server, stream=""), mixed)
    assert add(options(server, stream="", setWindow="true"), mixed) == 10
    assert [values(server, f"s{n}") for n in range(3)] == [
        ["0", "3", "6", "9"],
        ["1", "4", "7"],
        ["2", "5", "8"],
    ]


def test_waiting_for_regions_that_do_not_answer(server: EngineServer) -> None:
    run(server, "XADD s * v first", WINDOW)
    with pytest.raises(RegionsError, match="0 of 1 other regions .wait. had the rows on disk"):
        add(options(server, wait="1", waitTimeoutSeconds="1"), rows("a"))
