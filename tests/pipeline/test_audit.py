"""The audit, without Spark: two or three engines behind sockets, driven by hand."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from anabranch.crdt.spans import Spans
from anabranch.pipeline.errors import OptionError, PipelineError
from anabranch.pipeline.jobs.audit.differences import Difference
from anabranch.pipeline.jobs.audit.job import catch_up, planned, tasks_of
from anabranch.pipeline.jobs.audit.report import Result, report
from anabranch.pipeline.jobs.audit.task import Job, Note, audit
from anabranch.pipeline.jobs.beginning import begin
from anabranch.pipeline.options import SourceOptions
from anabranch.region.engine.replies import Reply
from anabranch.region.engine.session import Session
from tests.pipeline.serving import EngineServer
from tests.support.engine_cluster import Place, carry, cluster, sync

# How long a task asks again after a connection broke, as when an answer takes a second on a busy
# machine. It was 0.2 s, and an audit without one of its regions found nothing.
PATIENCE_S = 3.0


@contextmanager
def served(*places: Place) -> Iterator[list[EngineServer]]:
    """Servers of engines; the clock of a server goes on from that of its engine."""
    with ExitStack() as stack:
        servers = [
            stack.enter_context(EngineServer(place.engine, rows=place.rows)) for place in places
        ]
        for server, place in zip(servers, places, strict=True):
            server._now_ms = place.now_ms
        yield servers


def given(servers: list[EngineServer], streams: str = "*", more: str = "") -> dict[str, str]:
    endpoints = ",".join(f"127.0.0.1:{one.port}" for one in servers) + more
    return {"endpoints": endpoints, "streams": streams, "timeoutSeconds": "20"}


def audited(
    servers: list[EngineServer], streams: str = "*", more: str = ""
) -> tuple[list[Difference], Result]:
    """What the steps of an audit find, one after another in this process."""
    options = given(servers, streams, more)
    found = SourceOptions(options, False)
    begun = begin(found)
    catch_up(begun, 0.2)
    names, pieces = planned(begun, found.streams)
    regions = [(name, client.address) for name, client in begun.clients.items()]
    job = Job(options, regions, begun.target, begun.names, PATIENCE_S, not begun.behind)
    result = Result(begun.names, begun.down, begun.target, begun.vectors, begun.behind, len(names))
    differences: list[Difference] = []
    for task in tasks_of(pieces, 2):
        for one in audit(task, job):
            if isinstance(one, Note):
                result.take_note(one)
            else:
                differences.append(one)
    for client in begun.clients.values():
        client.close()
    for one in differences:
        key = (one.stream, one.cause)
        result.counts[key] = result.counts.get(key, 0) + 1
    result.explain_digests()
    return differences, result


def pair() -> tuple[Place, Place]:
    """Two regions that hold the same: entries of both, removals, a group, a window, a deadline."""
    us, eu = cluster(2)
    for n in range(40):
        us.ok("XADD", "s", "*", "n", n)
    us.ok("XGROUP", "CREATE", "s", "g", "0")
    us.ok("XCFGSET", "s", "IDMP-DURATION", 100, "IDMP-MAXSIZE", 50)
    us.ok("PEXPIREAT", "s", 4_000_000_000_000)
    sync(us, eu)
    for n in range(20):
        eu.ok("XADD", "s", "*", "other", n)
    eu.ok("XDEL", "s", eu.ids("s")[3])
    eu.ok("XREADGROUP", "GROUP", "g", "c", "COUNT", 10, "STREAMS", "s", ">")
    eu.ok("XACK", "s", "g", *eu.ids("s")[:10])
    sync(us, eu)
    return us, eu


def short(found: list[Difference]) -> list[tuple[str, str, str, str, str]]:
    return [(one.part, one.name, one.cause, one.has, one.lacks) for one in found]


def test_equal_regions() -> None:
    us, eu = pair()
    with served(us, eu) as servers:
        found, result = audited(servers)
    assert found == [] and result.passed
    assert (result.entries, result.groups, result.streams) == (59, 1, 1)
    assert result.digests == {"s": "equal"}
    assert report(result).lines[0] == "us and eu hold the same"


def plant(us: Place, eu: Place) -> None:
    """Five differences: the state of eu is changed behind its back, and its vector stays."""
    us.ok("XADD", "s", "*", "amount", "number-100")
    us.ok("XGROUP", "CREATE", "s", "h", "$")
    sync(us, eu)
    stream = eu.engine.keyspace.keys[b"s"]
    log = stream.logs[1]
    # An entry is missing.
    log.remove(10)
    # A removed entry still stands: the log of us was not there when the removal was applied.
    logs = stream._log, stream._logs
    stream._log = stream._logs = None
    us.ok("XDEL", "s", us.ids("s")[20])
    carry(us, eu)
    stream._log, stream._logs = logs
    # A field has another value.
    node = log.node_map.nodes[-1]
    log.changing(node)
    node.before_change()
    at = node.data.index(b"number-100")
    node.data[at : at + 10] = b"number-700"
    # A group is missing.
    del stream.groups[b"h"]
    # An acked span is missing.
    for create in stream.groups[b"g"].creates.values():
        create.acked[1] = Spans()
    assert us.engine.vector == eu.engine.vector


FIVE = [
    ("acked span", "g", "lost", "us", "eu"),
    ("entry", "", "damaged", "us", "eu"),
    ("entry", "", "lost", "us", "eu"),
    ("entry", "", "stands", "eu", "us"),
    ("group", "h", "lost", "us", "eu"),
]


def test_five_planted_differences() -> None:
    """Exactly those are found, with their causes."""
    us, eu = pair()
    removed = us.ids("s")[20]
    plant(us, eu)
    ids = us.ids("s")
    with served(us, eu) as servers:
        found, result = audited(servers)
    assert sorted(short(found)) == FIVE
    assert not result.passed and result.digests == {"s": "differs"}
    by_cause = {(one.part, one.cause): one for one in found}
    stands = by_cause["entry", "stands"]
    assert stands.entry_id == removed
    assert "it still stands in eu" in stands.detail and "(XDEL, effect" in stands.detail
    assert by_cause["entry", "lost"].counter == 10 and by_cause["entry", "lost"].region == "us"
    assert by_cause["entry", "damaged"].entry_id == ids[-1]
    assert by_cause["entry", "damaged"].detail == "field 'amount' differs between us and eu"
    assert "(0, " in by_cause["acked span", "lost"].detail
    lines = report(result).lines
    assert lines[0] == "us and eu differ: 5 differences in 1 stream"


def test_a_difference_that_only_digests_show() -> None:
    """A digest that differs is never passed over, whatever the comparison found."""
    us, eu = pair()
    node = eu.engine.keyspace.keys[b"s"].logs[1].node_map.nodes[0]
    with served(us, eu) as servers:
        audited(servers)
        assert node.share is not None
        eu.engine.keyspace.keys[b"s"].logs[1].share_total += 1
        eu.engine.keyspace.keys[b"s"].share = None
        found, result = audited(servers)
    assert found == [] and not result.passed
    assert [one.cause for one in result.differences] == ["unexplained"]


def test_what_was_not_received() -> None:
    """A cut link: the audit waits, then names what has not arrived, and a removal on its way."""
    us, eu = pair()
    removed = eu.ids("s")[0]
    us.ok("XADD", "s", "*", "new", "1")
    us.ok("XDEL", "s", removed)
    us.commit()
    with served(us, eu) as servers:
        found, result = audited(servers)
    assert sorted(short(found)) == [
        ("entry", "", "not-received", "us", "eu"),
        ("entry", "", "removal-not-received", "eu", "us"),
        ("header", "", "not-received", "us", "eu"),
    ]
    assert result.behind == {"eu": {"us": 2}} and not result.passed
    assert "eu has not received effects that others had at the start: 2 of us" in (
        report(result).lines
    )


def test_names_that_are_not_utf8() -> None:
    us, eu = cluster(2)
    us.ok("XADD", b"s\xff", "*", b"n\xfe", "1")
    us.ok("XGROUP", "CREATE", b"s\xff", b"g\xfd", "0")
    sync(us, eu)
    with served(us, eu) as servers:
        assert audited(servers)[1].passed
        # U+FFFD would hide that this name of a field is another one.
        node = eu.engine.keyspace.keys[b"s\xff"].logs[1].node_map.nodes[0]
        node.names = node.names.replace(b"\xfe", b"\xfc")
        del eu.engine.keyspace.keys[b"s\xff"].groups[b"g\xfd"]
        found, _ = audited(servers, "s?")
    assert sorted(short(found)) == [
        ("entry", "", "damaged", "us", "eu"),
        ("group", "g\udcfd", "lost", "us", "eu"),
    ]
    assert found[0].stream == "s\udcff"


def test_three_regions() -> None:
    """Each difference is one row that names all regions."""
    places = cluster(3)
    us, eu, ap = places
    for n in range(30):
        us.ok("XADD", "s", "*", "n", n)
    sync(*places)
    for place, counter in ((eu, 4), (ap, 4), (us, 9)):
        place.engine.keyspace.keys[b"s"].logs[1].remove(counter)
    with served(*places) as servers:
        found, _ = audited(servers)
    assert [(one.counter, one.has, one.lacks) for one in found] == [
        (4, "us", "eu,ap"),
        (9, "eu,ap", "us"),
    ]


def test_a_trimmed_stream_and_a_deleted_one() -> None:
    us, eu = pair()
    us.ok("XTRIM", "s", "MAXLEN", 5)
    eu.ok("XADD", "t", "*", "a", "1")
    sync(us, eu)
    us.ok("DEL", "t")
    sync(us, eu)
    with served(us, eu) as servers:
        found, result = audited(servers, "s,t*")
        assert found == [] and result.passed and (result.entries, result.streams) == (5, 1)
        with pytest.raises(PipelineError, match="there is no stream 't' in any region"):
            audited(servers, "s,t")


def test_an_expired_stream() -> None:
    """A stream that only one region hides is no difference: clocks differ."""
    us, eu = cluster(2)
    us.ok("XADD", "s", "*", "n", "1")
    us.ok("PEXPIREAT", "s", 50_000)
    sync(us, eu)
    us.at(60_000)
    with served(us, eu) as servers:
        found, result = audited(servers)
        assert found == [] and result.passed
        assert result.hidden == {"s": "us"}
        assert any("'s' is hidden by its deadline in us" in one for one in report(result).lines)
        eu.at(60_000)
        servers[1]._now_ms = 60_000
        assert audited(servers)[1].streams == 0
        assert audited(servers, "s")[1].hidden == {"s": "us,eu"}


def test_a_region_that_is_down() -> None:
    us, eu = pair()
    with served(us, eu) as servers:
        found, result = audited(servers, more=",ap=127.0.0.1:1")
        assert found == [] and list(result.down) == ["ap"] and not result.passed
        assert report(result).lines[1] == "ap was not compared: connection refused"
        with pytest.raises(PipelineError, match="compares two regions or more, and 1 answers; ap"):
            audited(servers[:1], more=",ap=127.0.0.1:1")
        with pytest.raises(OptionError, match="two addresses are of the region us"):
            audited([servers[0], servers[0]])


def test_a_region_that_stops_answering() -> None:
    """It is named as not compared, and the audit ends."""
    us, eu, ap = cluster(3)
    for name in ("s", "t"):
        us.ok("XADD", name, "*", "n", "1")
    sync(us, eu, ap)
    with served(us, eu, ap) as servers:
        servers[2].answers_left = 1
        found, result = audited(servers)
    assert found == [] and not result.passed
    assert "stopped answering during the audit" in result.down["ap"]


def test_a_region_that_stops_answering_before_the_tasks() -> None:
    us, eu, ap = cluster(3)
    us.ok("XADD", "s", "*", "n", "1")
    sync(us, eu, ap)
    with served(us, eu) as servers, EngineServer(ap.engine, 1, "SCAN") as server:
        found, result = audited([*servers, server])
    assert found == [] and not result.passed and list(result.down) == ["ap"]
    assert result.entries == 1


@pytest.mark.parametrize("command", [b"CRDT.NODES", b"CRDT.EXPLAIN", b"CRDT.DIGEST"])
def test_a_connection_that_breaks(command: bytes) -> None:
    """The region comes back: what was observed is observed anew, and counts once."""
    us, eu = pair()

    def break_off() -> None:
        server.answers_left = 0
        timer = threading.Timer(0.05, setattr, (server, "answers_left", None))
        timer.start()

    with served(us) as servers, Meddler(eu, command, break_off) as server:
        found, result = audited([*servers, server])
    assert found == [] and result.passed
    assert (result.entries, result.groups, result.digests) == (59, 1, {"s": "equal"})


def test_regions_of_different_clusters() -> None:
    told = "not of one cluster: us is of test with us=1,eu=2"
    with served(cluster(2)[0], cluster(3)[1]) as servers, pytest.raises(PipelineError, match=told):
        audited(servers)


# -- traffic, step by step


class Meddler(EngineServer):
    """A server that does something before it answers a command for the first time."""

    def __init__(self, place: Place, command: bytes, meddle: Callable[[], object]) -> None:
        super().__init__(place.engine)
        self._now_ms = place.now_ms
        self._command, self._meddle = command, meddle

    def execute(self, session: Session, command: list[bytes]) -> Reply:
        if command[0] == self._command:
            self._command = b""
            self._meddle()
        return super().execute(session, command)


@pytest.mark.parametrize("command", [b"CRDT.NODES", b"CRDT.EXPLAIN", b"CRDT.DIGEST"])
def test_traffic_between_the_readings(command: bytes) -> None:
    """Between the reading of us and that of eu, both change: nothing is a difference."""
    us, eu = pair()

    def traffic() -> None:
        us.ok("XADD", "s", "*", "late", "1")
        eu.ok("XDEL", "s", *eu.ids("s")[5:9])
        eu.ok("XGROUP", "DESTROY", "s", "g")
        eu.ok("XGROUP", "CREATE", "s", "new", "$")
        us.ok("XTRIM", "s", "MAXLEN", 30)
        eu.ok("PERSIST", "s")
        sync(us, eu)

    with served(us) as servers, Meddler(eu, command, traffic) as server:
        found, result = audited([*servers, server])
    assert found == [] and result.passed
