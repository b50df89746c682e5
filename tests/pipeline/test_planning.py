"""Where a query starts and ends, and its partitions, against an engine behind a socket."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from anabranch.crdt.encoding import Reader
from anabranch.crdt.keyspace import Keyspace
from anabranch.crdt.node import PackedNode
from anabranch.crdt.region_log import NodeLimits
from anabranch.crdt.scan import DELETED
from anabranch.pipeline import regions
from anabranch.pipeline.errors import DataLossError, OptionError, PipelineError, RegionsError
from anabranch.pipeline.filters import Bounds
from anabranch.pipeline.offsets import Range
from anabranch.pipeline.options import SourceOptions
from anabranch.pipeline.planning import Planner, check_order, grouped, ranges
from anabranch.pipeline.reading import answers
from anabranch.pipeline.regions import LogPart
from anabranch.pipeline.resp import Connection
from anabranch.region.engine.clock import EngineClock
from anabranch.region.engine.engine import Engine
from anabranch.region.engine.lifecycle import Lifecycle
from anabranch.region.engine.members import Member, Members
from anabranch.region.engine.settings import Settings
from tests.pipeline.serving import EngineServer, run
from tests.support.engines import engine_on, single


@pytest.fixture
def engine() -> Engine:
    return single(settings=Settings({"crdt-xadd-id-uniqueness-mode": "liberal"}))


@pytest.fixture
def server(engine: Engine) -> Iterator[EngineServer]:
    with EngineServer(engine) as one:
        yield one


def us_of_two() -> Engine:
    """The region us of a cluster with us and eu."""
    clock = EngineClock(1)
    return engine_on(
        Keyspace(1, NodeLimits()),
        Members("c", 1, "us", [Member(1, "us"), Member(2, "eu")]),
        Settings({"crdt-xadd-id-uniqueness-mode": "liberal"}),
        Lifecycle(1, 1, 0, clock, 0),
        clock,
        1,
    )


def add(server: EngineServer, key: str, count: int, first: int = 1) -> None:
    run(server, *(f"XADD {key} {n}-0 field value{n}" for n in range(first, first + count)))


def planner(*servers: EngineServer, is_streaming: bool = True, **more: str) -> Planner:
    return Planner(options(*servers, is_streaming=is_streaming, **more))


def options(*servers: EngineServer, is_streaming: bool = True, **more: str) -> SourceOptions:
    endpoints = ",".join(f"127.0.0.1:{one.port}" for one in servers)
    given = {"endpoints": endpoints, "streams": "s", "timeoutSeconds": "1", **more}
    found = SourceOptions(given, is_streaming)
    # One answer may take a while on a busy machine.
    found.step_s = 20.0
    return found


def counters_in(answer: bytes, wanted: Range) -> list[int]:
    """The counters of the present entries in an answer of CRDT.NODES."""
    counters = []
    reader = Reader(answer, 1)
    while not reader.at_end():
        base_counter = reader.varint()
        node = PackedNode(reader.bytes_(), base_counter)
        node.data = bytearray(reader.bytes_())
        scan = node.scan()
        while scan.step():
            if wanted.after < scan.counter <= wanted.end and not scan.flags & DELETED:
                counters.append(scan.counter)
    return counters


def read(wanted: Range, found: SourceOptions) -> list[int]:
    """The counters of the entries of a range, as a task reads them."""
    return [one for answer in answers(wanted, found) for one in counters_in(answer, wanted)]


# -- streams and offsets


def test_a_stream_that_is_not_there(server: EngineServer) -> None:
    with pytest.raises(PipelineError, match="there is no stream 's'"):
        planner(server).start()
    assert planner(server, streams="s*").start() == {}


def test_globs_find_streams_that_come_later(server: EngineServer) -> None:
    add(server, "s:1", 3)
    plan = planner(server, streams="s:*")
    start = plan.start()
    assert start == {"s:1": {}}
    add(server, "s:2", 2)
    add(server, "other", 2)
    assert plan.latest(start) == {"s:1": {"us": 7}, "s:2": {"us": 7}}


def test_names_that_are_not_utf8(server: EngineServer) -> None:
    session = server.engine.clients.connect("127.0.0.1:9", "127.0.0.1:2", 1)
    server.execute(session, [b"XADD", b"s\xff", b"1-0", b"a", b"1"])
    plan = planner(server, streams="s?")
    (one,) = ranges(plan.start(), plan.latest({}))
    assert one.stream == "s\udcff"
    assert read(one, options(server)) == [1]


def test_starting_offsets(server: EngineServer) -> None:
    add(server, "s", 3)
    assert planner(server).start() == {"s": {}}
    assert planner(server, startingOffsets="latest").start() == {"s": {"us": 3}}
    assert planner(server, startingOffsets='{"s": {"us": 2}}').start() == {"s": {"us": 2}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"t": {"us": 1}}', "names the stream 't', which is not read; the streams are s"),
        ('{"s": {"eu": 1}}', "names the region 'eu', which is no member of the cluster"),
    ],
)
def test_offsets_of_nothing(server: EngineServer, text: str, message: str) -> None:
    add(server, "s", 3)
    with pytest.raises(OptionError, match=message):
        planner(server, startingOffsets=text).start()


def test_a_streaming_query_does_not_start_above_a_log(server: EngineServer) -> None:
    """It would skip the entries up to the place without a word, because offsets never go back."""
    add(server, "s", 3)
    assert planner(server, startingOffsets='{"s": {"us": 3}}').streaming_start() == {"s": {"us": 3}}
    assert planner(server, startingOffsets="latest").streaming_start() == {"s": {"us": 3}}
    message = "startingOffsets: 4 lies above the end of the log of us in 's', which is 3 in the"
    with pytest.raises(OptionError, match=message):
        planner(server, startingOffsets='{"s": {"us": 4}}').streaming_start()


def test_offsets_never_go_back() -> None:
    """A region that takes over may have applied less than the one that was read before."""
    with EngineServer(us_of_two()) as server:
        add(server, "s", 3)
        assert planner(server).latest({"s": {"us": 2, "eu": 9}}) == {"s": {"eu": 9, "us": 3}}


def test_a_region_that_has_issued_less_than_was_read(server: EngineServer) -> None:
    """After a cluster was made anew, entries up to the old offset were skipped without a word."""
    add(server, "s", 3)
    start = {"s": {"us": 4}}
    with pytest.raises(DataLossError, match="read up to 4, and us has effects up to 3: the clus"):
        planner(server).latest(start)
    assert planner(server, failOnDataLoss="false").latest(start) == start


def test_a_log_of_no_member(server: EngineServer) -> None:
    """A range of a region that the cluster does not have was left out without a word."""
    add(server, "s", 3)
    with pytest.raises(PipelineError, match="the log of tokyo, and the regions are us: its check"):
        planner(server).partitions([Range("s", "us", 0, 3), Range("s", "tokyo", 0, 90)])


def test_a_log_without_entries_of_a_new_stream() -> None:
    """The end of a new stream named all logs. A region that lacked the stream had applied all of
    its own log, so its answer, that there is no such key, was taken for a stream that is gone."""
    with EngineServer(us_of_two()) as server:
        run(server, "XADD other 1-0 a 1", "XGROUP CREATE s g $ MKSTREAM")
        assert planner(server, streams="s*").latest({}) == {"s": {}}


@pytest.mark.parametrize("fails", ["true", "false"])
def test_a_stream_that_is_gone_between_two_questions(server: EngineServer, fails: str) -> None:
    """The query ended with a refused request, also without `failOnDataLoss`."""
    add(server, "s:a", 3)
    add(server, "s:b", 3)
    plan = planner(server, streams="s:*", failOnDataLoss=fails)
    end = plan.latest({})
    wanted = plan.ranges({}, end)
    found = plan.regions.logs

    def logs_before_it_is_gone(stream: str) -> object:
        facts = found(stream)
        if stream == "s:a":
            run(server, "DEL s:a")
        return facts

    plan.regions.logs = logs_before_it_is_gone  # type: ignore[method-assign,assignment]
    cut = plan.partitions(wanted)
    if fails == "true":
        with pytest.raises(DataLossError, match="'s:a' was deleted, or expired"):
            covered(plan, cut)
    else:
        assert covered(plan, cut) == [4, 5, 6]
    assert plan.limited({}, end, 2)["s:b"] == {"us": 5}


def test_a_query_for_what_there_is_now_goes_on_without_a_deleted_stream(
    server: EngineServer,
) -> None:
    """The query was told that the stream was never there, also without `failOnDataLoss`."""
    add(server, "s", 3)
    start = planner(server).latest({})
    run(server, "DEL s")
    assert planner(server, failOnDataLoss="false").latest(start) == start
    assert planner(server).latest({}) == {}, "what Spark asks for its progress"


def test_a_stream_of_which_nothing_was_read(server: EngineServer) -> None:
    """A region that is behind lacks it, and nothing says that it was deleted."""
    assert planner(server, streams="s*").latest({"s": {}}) == {"s": {}}


def test_a_stream_that_was_deleted(server: EngineServer) -> None:
    add(server, "s", 3)
    plan = planner(server, streams="s*")
    start = plan.latest({})
    run(server, "DEL s")
    with pytest.raises(DataLossError, match="the stream 's' is gone"):
        plan.latest(start)
    assert planner(server, streams="s*", failOnDataLoss="false").latest(start) == start


def test_a_name_that_a_checkpoint_does_not_have(server: EngineServer) -> None:
    """A misspelt name read nothing, without a word, once there was a checkpoint."""
    add(server, "s", 3)
    with pytest.raises(PipelineError, match="there is no stream 'order'"):
        planner(server, streams="s,order").latest({"s": {"us": 3}})
    assert planner(server, streams="s,order*").latest({"s": {"us": 3}}) == {"s": {"us": 3}}


def test_a_stream_that_has_not_come_yet(server: EngineServer) -> None:
    """A region that is behind lacks a stream. It was said to be deleted, or it was skipped."""
    add(server, "other", 2)
    for fails in ("true", "false"):
        plan = planner(server, streams="s*", failOnDataLoss=fails)
        assert plan.latest({"s": {"us": 5}}) == {"s": {"us": 5}}
        (cut,) = plan.partitions([Range("s", "us", 0, 5)])
        assert (cut.after, cut.end) == (0, 5)
        with pytest.raises(RegionsError, match="has not applied the effects of us up to 5"):
            read(cut, plan.options)


def test_a_log_without_news_stays_where_it_was(server: EngineServer) -> None:
    """Effects in other streams made a micro-batch each, also those of the query's own sink."""
    add(server, "s", 3)
    plan = planner(server)
    start = plan.latest({})
    add(server, "copies", 50)
    assert plan.latest(start) == start
    add(server, "s", 1, 4)
    assert plan.latest(start) == {"s": {"us": 54}}
    run(server, "XTRIM s MAXLEN 0")
    with pytest.raises(DataLossError, match="above 3 and up to 54"):
        plan.partitions(plan.ranges(start, plan.latest(start)))


def test_globs_leave_out_the_streams_of_sinks(server: EngineServer) -> None:
    add(server, "s", 1)
    add(server, "anabranch:sink:wait", 1)
    assert list(planner(server, streams="*").latest({})) == ["s"]
    assert list(planner(server, streams="anabranch:sink:*").latest({})) == ["anabranch:sink:wait"]


def test_a_batch_that_ends_before_it_starts() -> None:
    check_order({"s": {"us": 2}}, {"s": {"us": 2}})
    with pytest.raises(OptionError, match=r"startingOffsets \(3\) lie above endingOffsets \(2\)"):
        check_order({"s": {"us": 3}}, {"s": {"us": 2}})


# -- limits


def test_a_limit_is_kept_exactly(server: EngineServer) -> None:
    add(server, "s", 250)
    run(server, "XDEL s 2-0 3-0")
    plan = planner(server)
    end = plan.latest({})
    assert plan.limited({}, end, 248) == end
    assert plan.limited({}, end, 247) == {"s": {"us": 249}}
    assert plan.limited({}, end, 1) == {"s": {"us": 1}}
    assert plan.limited({"s": {"us": 1}}, end, 1) == {"s": {"us": 4}}


def test_a_limit_is_shared_by_size(server: EngineServer) -> None:
    add(server, "s:a", 300)
    add(server, "s:b", 10)
    plan = planner(server, streams="s:*")
    start, end, sizes = plan.start(), plan.latest({}), []
    found = options(server)
    while start != end:
        after = plan.limited(start, end, 40)
        counts = [len(read(one, found)) for one in ranges(start, after)]
        assert 0 < sum(counts) <= 40
        sizes.append(counts)
        start = after
    assert sizes[0] == [32, 8]
    assert sum(map(sum, sizes)) == 310


def test_a_limit_lets_every_log_go_on(server: EngineServer) -> None:
    """The first log by name got all, and one with an entry nothing, as long as it had enough."""
    add(server, "s:a", 100)
    add(server, "s:b", 1)
    plan = planner(server, streams="s:*")
    after = plan.limited({}, plan.latest({}), 10)
    counts = [len(read(one, plan.options)) for one in ranges({}, after)]
    assert counts == [9, 1]


def test_a_limit_of_a_new_stream_that_was_trimmed(server: EngineServer) -> None:
    """The offset left out a log whose entries were all trimmed, and that was false data loss."""
    add(server, "s:a", 3)
    run(server, "XTRIM s:a MAXLEN 0")
    add(server, "s:b", 5)
    plan = planner(server, streams="s:*")
    after = plan.limited({}, plan.latest({}), 2)
    assert after["s:a"] == {"us": 3}
    assert plan.partitions(plan.ranges(after, plan.latest(after))) != []


def test_a_limit_over_a_stream_that_is_deleted(server: EngineServer) -> None:
    add(server, "s", 9)
    plan = planner(server, failOnDataLoss="false")
    end = plan.latest({})
    run(server, "DEL s")
    assert plan.limited({}, end, 2) == end
    assert plan.partitions(plan.ranges({}, end)) == []


# -- partitions


def covered(plan: Planner, found: list[Range]) -> list[int]:
    return [counter for one in found for counter in read(one, plan.options)]


def test_partitions_cover_everything_once(server: EngineServer) -> None:
    add(server, "s", 2000)
    for count in (1, 2, 7):
        plan = planner(server, minPartitions=str(count), fetchSize="4096")
        cut = plan.partitions(ranges({}, plan.latest({})))
        assert covered(plan, cut) == list(range(1, 2001))
        assert count <= len(cut) <= 2 * count


def test_ranges_without_entries_need_no_task(server: EngineServer) -> None:
    add(server, "s", 5)
    add(server, "other", 500)
    plan = planner(server)
    assert plan.partitions(ranges({"s": {"us": 5}}, plan.latest({}))) == []


def test_what_the_region_has_not_applied_is_a_task_for_another() -> None:
    """The region that plans may lack entries that a checkpoint knows of: they are never skipped."""
    one = Range("s", "us", 10, 90)
    (cut,) = grouped(one, [LogPart(90, 0, 0)], 1000, applied=50)
    assert (cut.after, cut.end) == (10, 90)
    assert grouped(one, [LogPart(90, 0, 0)], 1000, applied=90) == []


def test_pieces_are_joined_by_size() -> None:
    parts = [LogPart(counter, 10, 100) for counter in range(10, 101, 10)]
    cut = grouped(Range("s", "us", 0, 100), parts, 400, applied=100)
    assert [(one.after, one.end) for one in cut] == [(0, 30), (30, 60), (60, 90), (90, 100)]


def test_a_stream_that_is_gone_when_it_is_planned(server: EngineServer) -> None:
    add(server, "s", 5)
    run(server, "DEL s")
    with pytest.raises(DataLossError, match="gone"):
        planner(server).partitions([Range("s", "us", 0, 5)])
    assert planner(server, failOnDataLoss="false").partitions([Range("s", "us", 0, 5)]) == []


# -- trimmed entries


def test_earliest_is_where_a_stream_was_trimmed(server: EngineServer) -> None:
    """Entries that were trimmed before a query began are no loss of that query."""
    add(server, "s", 10)
    run(server, "XTRIM s MAXLEN 4")
    plan = planner(server)
    assert plan.start() == {"s": {"us": 6}}
    found = plan.partitions(plan.ranges(plan.start(), plan.latest({})))
    assert covered(plan, found) == [7, 8, 9, 10]
    assert plan.partitions(plan.ranges({}, plan.latest({})))[0].after == 6, "a new stream, too"


def test_a_new_stream_is_planned_at_a_region_that_lacks_its_trimming(server: EngineServer) -> None:
    """The region that told the end went away, and another one planned. The log began at 0 there,
    and the task, which read where the stream was trimmed, told of lost entries."""
    add(server, "s:b", 10)
    run(server, "XTRIM s:b MAXLEN 4")
    start = planner(server, streams="s:a*").start()
    end = planner(server, streams="s:*").latest(start)
    assert start == {}
    for there in ("s:a", "s:b"):  # The other region lacks the stream, or only its trimming.
        with EngineServer(single()) as behind:
            add(behind, there, 3)
            plan = planner(behind, streams="s:*")
            found = plan.partitions(plan.ranges(start, end))
            new = [one for one in found if one.stream == "s:b"]
            assert new[0].after == 0
            counters = [n for one in new for n in read(one, options(server, streams="s:*"))]
            assert counters == [7, 8, 9, 10], "what was trimmed before the query came is no loss"


def test_a_new_stream_is_trimmed_while_it_is_read(server: EngineServer) -> None:
    """A task of a new stream has read a part: from there on, what is trimmed is a loss."""
    add(server, "s", 3000)
    (cut,) = planner(server, streams="s*").ranges({}, {"s": {"us": 3000}})
    found = iter(answers(cut, options(server, fetchSize="4096")))
    next(found)
    run(server, "XTRIM s MAXLEN 10")
    with pytest.raises(DataLossError, match="and up to 2990"):
        list(found)


def test_entries_that_were_trimmed_before_they_were_read(server: EngineServer) -> None:
    add(server, "s", 10)
    run(server, "XDEL s 5-0 6-0")
    plan = planner(server)
    start = {"s": {"us": 4}}
    end = plan.latest(start)
    assert len(plan.partitions(plan.ranges(start, end))) == 1, "XDEL is no loss"
    run(server, "XTRIM s MINID 8")
    message = "us in the stream 's' were trimmed, or removed .* above 4 and up to 7"
    with pytest.raises(DataLossError, match=message):
        plan.partitions(plan.ranges(start, end))
    with pytest.raises(DataLossError, match=message):
        read(Range("s", "us", 4, 12), options(server))
    assert read(Range("s", "us", 7, 12), options(server)) == [8, 9, 10]
    lenient = planner(server, failOnDataLoss="false")
    found = lenient.partitions(lenient.ranges(start, end))
    assert covered(lenient, found) == [8, 9, 10]


def test_a_range_of_which_nothing_is_left(server: EngineServer) -> None:
    """No entry is there to make a task of, so the plan itself fails."""
    add(server, "s", 10)
    plan = planner(server)
    end = plan.latest({})
    run(server, "XTRIM s MAXLEN 0")
    with pytest.raises(DataLossError, match="above 0 and up to 10"):
        plan.partitions(plan.ranges({"s": {}}, end))


def test_trimming_behind_a_reader_is_no_loss(server: EngineServer) -> None:
    """A stream may be trimmed below what a task has read, while it reads."""
    add(server, "s", 2000)
    wanted, counters, answered = Range("s", "us", 0, 2000), list[int](), 0
    for answer in answers(wanted, options(server, fetchSize="4096")):
        counters += counters_in(answer, wanted)
        answered += 1
        run(server, f"XTRIM s MINID {counters[-1]}")
    assert counters == list(range(1, 2001)) and answered > 3


# -- regions that fail


def test_a_task_goes_on_at_another_region(engine: Engine) -> None:
    """A region that breaks off in the middle costs no entry, and no entry comes twice."""
    with EngineServer(engine, answers_left=3) as one, EngineServer(engine) as other:
        add(other, "s", 3000)
        found = options(one, other, fetchSize="4096")
        assert read(Range("s", "us", 0, 3000), found) == list(range(1, 3001))
        assert one.answers_left == 0
        asked = [command for command in other.commands if command[0] == b"CRDT.NODES"]
        assert int(asked[0][3]) > 0, "the other region was asked only for the rest"


def test_a_task_never_returns_less_than_its_range(server: EngineServer) -> None:
    """A region that has not applied the range does not count as one that has no entries there."""
    add(server, "s", 5)
    with pytest.raises(RegionsError, match="has not applied the effects of us up to 6"):
        read(Range("s", "us", 0, 6), options(server))


def test_what_was_lost_with_a_region() -> None:
    """A batch that was planned with effects that only a lost region had could never be read."""
    engine = us_of_two()
    with EngineServer(engine) as server:
        add(server, "s", 3)
        wanted = Range("s", "eu", 0, 6)
        with pytest.raises(RegionsError, match="has not applied the effects of eu up to 6"):
            read(wanted, options(server))
        run(server, "CRDT.MEMBER LOST eu")
        with pytest.raises(DataLossError, match="eu was declared lost, .* only up to 0: entries"):
            read(wanted, options(server))
        assert read(wanted, options(server, failOnDataLoss="false")) == []
        # A region that does not answer may have them.
        with EngineServer(engine) as other:
            found = options(server, other, failOnDataLoss="false")
        with pytest.raises(RegionsError, match="connection refused"):
            read(wanted, found)


def test_a_connection_that_ended_while_nobody_asked(engine: Engine) -> None:
    """The time without questions counted, so one broken connection ended the query."""
    with EngineServer(engine) as server, EngineServer(engine) as other:
        add(server, "s", 3)
        plan = planner(server, other)
        plan.latest({})
        connection = plan.regions._connection
        assert connection is not None
        connection.close()
        time.sleep(1.1)
        before = len(other.commands)
        assert plan.latest({}) == {"s": {"us": 3}}
        assert len(other.commands) == before, "the first region answers, so it is asked"


def test_a_region_that_hangs_costs_one_task_of_a_process(
    server: EngineServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each task began with the region that hung, and waited 20 s for it."""
    add(server, "s", 3)
    with socket.create_server(("127.0.0.1", 0)) as hung:
        hung.setblocking(False)
        where = f"127.0.0.1:{hung.getsockname()[1]}"

        def connected(
            address: tuple[str, int], username: str, password: str, timeout_s: float
        ) -> Connection:
            """A connection that waits long for the region that answers."""
            is_hung = address == hung.getsockname()
            return Connection(address, username, password, 0.5 if is_hung else timeout_s)

        monkeypatch.setattr(regions, "Connection", connected)
        found = options(server, endpoints=f"{where},127.0.0.1:{server.port}")
        assert read(Range("s", "us", 0, 3), found) == [1, 2, 3]
        hung.accept()[0].close()
        assert read(Range("s", "us", 0, 3), found) == [1, 2, 3]
        with pytest.raises(BlockingIOError):
            hung.accept()
        # Later it is asked first again.
        regions._silent_until_s[f"the region at {where}"] = time.monotonic()
        assert read(Range("s", "us", 0, 3), found) == [1, 2, 3]
        hung.accept()[0].close()


def test_a_region_that_answers_again_is_not_silent(server: EngineServer) -> None:
    add(server, "s", 3)
    where = f"the region at 127.0.0.1:{server.port}"
    regions._silent_until_s[where] = time.monotonic() + 1000
    assert planner(server).latest({}) == {"s": {"us": 3}}, "there is no other"
    assert where not in regions._silent_until_s


def test_a_region_without_room_for_clients(engine: Engine) -> None:
    refusing = socket.create_server(("127.0.0.1", 0))

    def refuse() -> None:
        client, _ = refusing.accept()
        with client:
            client.sendall(b"-ERR max number of clients reached\r\n")

    thread = threading.Thread(target=refuse)
    thread.start()
    with EngineServer(engine) as other:
        add(other, "s", 3)
        given = {
            "endpoints": f"127.0.0.1:{refusing.getsockname()[1]},127.0.0.1:{other.port}",
            "streams": "s",
        }
        assert Planner(SourceOptions(given, True)).latest({}) == {"s": {"us": 3}}
    thread.join()
    refusing.close()


def test_no_region_answers(engine: Engine) -> None:
    with EngineServer(engine) as one:
        found = options(one)
    with pytest.raises(RegionsError, match=r"timeoutSeconds\): .*connection refused"):
        Planner(found).latest({})


def test_a_stream_that_is_deleted_while_it_is_read(server: EngineServer) -> None:
    add(server, "s", 5)
    run(server, "DEL s")
    with pytest.raises(DataLossError, match="was deleted, or expired, while it was read"):
        read(Range("s", "us", 0, 5), options(server))
    assert read(Range("s", "us", 0, 5), options(server, failOnDataLoss="false")) == []


def test_passwords(tmp_path: object) -> None:
    locked = single(settings=Settings({"requirepass": "secret"}))
    with EngineServer(locked) as one:
        with pytest.raises(PipelineError, match="asks for a password: give passwordFile"):
            planner(one).latest({})
        file = f"{tmp_path}/password"
        with open(file, "w") as out:
            out.write("wrong\n")
        with pytest.raises(PipelineError, match="refused username and password"):
            planner(one, passwordFile=file, streams="s*").latest({})
        with open(file, "w") as out:
            out.write("secret\n")
        assert planner(one, passwordFile=file, streams="s*").latest({}) == {}


# -- filters


class EqualTo:
    def __init__(self, name: str, value: object) -> None:
        self.attribute = (name,)
        self.value = value


class In(EqualTo):
    pass


class GreaterThan(EqualTo):
    pass


class LessThanOrEqual(EqualTo):
    pass


class StringStartsWith(EqualTo):
    pass


def narrowed(server: EngineServer, *filters: EqualTo) -> list[tuple[int, int]]:
    bounds = Bounds()
    for one in filters:
        bounds.take(one)
    found = bounds.narrowed([Range("s", "us", 0, 100)], planner(server).regions)
    return [(one.after, one.end) for one in found]


def time_of(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def test_filters_narrow_ranges(server: EngineServer) -> None:
    """The entry with the counter n has the ID n-0."""
    add(server, "s", 100)
    assert narrowed(server) == [(0, 100)]
    assert narrowed(server, EqualTo("stream", "s"), EqualTo("region", "us")) == [(0, 100)]
    assert narrowed(server, EqualTo("stream", "t")) == []
    assert narrowed(server, In("region", ("eu", "ap"))) == []
    assert narrowed(server, In("region", ("eu", "us")), EqualTo("region", "eu")) == []
    assert narrowed(server, EqualTo("counter", 40)) == [(39, 41)]
    assert narrowed(server, GreaterThan("counter", 40), LessThanOrEqual("counter", 49)) == [
        (39, 50)
    ]
    assert narrowed(server, EqualTo("id", "40-0")) == [(39, 40)]
    assert narrowed(server, In("id", ("40-0", "45-0"))) == [(39, 45)]
    assert narrowed(server, GreaterThan("ts", time_of(40))) == [(39, 100)]
    assert narrowed(server, LessThanOrEqual("ts", time_of(40))) == [(0, 40)]
    assert narrowed(server, GreaterThan("ts", time_of(500))) == []
    assert narrowed(server, EqualTo("ts", time_of(7))) == [(6, 7)]


def test_filters_that_are_left_to_spark(server: EngineServer) -> None:
    add(server, "s", 100)
    for one in (
        GreaterThan("id", "40-0"),
        StringStartsWith("id", "4"),
        EqualTo("user", "u7"),
        GreaterThan("ts", datetime(2100, 1, 1)),
        EqualTo("region", None),
    ):
        assert narrowed(server, one) == [(0, 100)]
    assert narrowed(server, EqualTo("id", "no id")) == []


def test_a_region_that_lags_does_not_narrow_by_time(server: EngineServer) -> None:
    """It does not know the IDs of the entries that it lacks."""
    add(server, "s", 50)
    assert narrowed(server, GreaterThan("ts", time_of(500))) == [(0, 100)]


def test_a_stream_that_the_options_no_longer_name(server: EngineServer) -> None:
    """It stays where it was in the offset, whether it is there or not."""
    add(server, "s", 3)
    start = {"s": {"us": 1}, "t": {"us": 4}}
    assert planner(server).latest(start) == {"s": {"us": 3}, "t": {"us": 4}}
    add(server, "t", 3)
    assert planner(server).latest(start) == {"s": {"us": 6}, "t": {"us": 4}}
    assert planner(server, streams="[st]").latest(start) == {"s": {"us": 6}, "t": {"us": 6}}
