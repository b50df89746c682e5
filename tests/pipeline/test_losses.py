"""A stream is removed as a whole before a query has read it: each loss is an error."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from anabranch.pipeline.errors import DataLossError, OptionError
from anabranch.pipeline.offsets import Offset
from anabranch.pipeline.options import SourceOptions
from anabranch.pipeline.planning import Planner
from anabranch.pipeline.sink_options import SinkOptions
from tests.pipeline.serving import EngineServer, run
from tests.pipeline.test_planning import add, options, planner, read, us_of_two
from tests.support.engines import single

# What removes the stream `s` as a whole. The commands of a case run one after the other.
REMOVALS = {
    "DEL": ["DEL s"],
    "FLUSHALL": ["FLUSHALL"],
    "RENAME": ["RENAME s t"],
    "RENAME over it": ["XADD t * a 1", "RENAME t s"],
    "expiry": ["PEXPIREAT s 5"],
}


@pytest.fixture
def server() -> Iterator[EngineServer]:
    with EngineServer(single()) as one:
        yield one


def write(server: EngineServer, count: int) -> None:
    run(server, *["XADD s * field value"] * count)


def read_some(plan: Planner, offset: Offset, count: int) -> tuple[Offset, list[int]]:
    """A micro-batch: its end, and the counters of the entries that its tasks read."""
    end = plan.limited(offset, plan.latest(offset), count)
    wanted = plan.partitions(plan.ranges(offset, end))
    return end, [counter for one in wanted for counter in read(one, plan.options)]


@pytest.mark.parametrize("removal", REMOVALS)
def test_a_stream_is_removed_and_added_to_again(server: EngineServer, removal: str) -> None:
    """Ten of 30 entries were read, and 20 were lost without an error (issue 47).

    The key was removed, and one entry was added. A region forgets with a key what it knows of its
    logs. So the next micro-batch read the new entry, as if there had been no others.
    """
    write(server, 30)
    plan = planner(server)
    offset, counters = read_some(plan, {}, 10)
    assert counters == list(range(1, 11))
    run(server, *REMOVALS[removal], "XADD s * field value")
    # Entries from 11 on are named. The removal may take part of them only by the name.
    with pytest.raises(DataLossError, match=r"with counters above 10 and up to \d+"):
        plan.latest(offset)
        read_some(plan, offset, 10)
    careless = planner(server, failOnDataLoss="false")
    end, counters = read_some(careless, offset, 10)
    assert counters and min(counters) > 30
    write(server, 2)
    assert len(read_some(planner(server), end, 10)[1]) == 2, "the loss is told once"


def test_a_stream_is_removed_between_planning_and_reading(server: EngineServer) -> None:
    """The task read an empty log from its place on, and that was no loss."""
    write(server, 30)
    plan = planner(server)
    offset, _ = read_some(plan, {}, 10)
    (one,) = plan.partitions(plan.ranges(offset, plan.latest(offset)))
    run(server, "FLUSHALL", "XADD s * field value")
    with pytest.raises(DataLossError, match=r"counters above 10 and up to \d+"):
        read(one, options(server))


def test_another_region_adds_to_a_stream_that_was_removed() -> None:
    """Only the log of us is there again. The log of eu had entries that were not read."""
    with EngineServer(us_of_two()) as server:
        add(server, "s", 3)
        offset: Offset = {"s": {"us": 3}}
        # eu's log was read up to 0 of its effects: nothing of it can be missed.
        assert planner(server).latest(offset) == offset
        run(server, "FLUSHALL", "XADD s 9-0 field value")
        with pytest.raises(DataLossError, match="of us with counters above 3 and up to 4 are gone"):
            planner(server).latest(offset)


def test_a_log_without_entries_is_not_missed() -> None:
    """`latest` named the end of logs that never had an entry, as if they had been read."""
    with EngineServer(us_of_two()) as server:
        run(server, "XGROUP CREATE s g $ MKSTREAM")
        start = planner(server, startingOffsets="latest").streaming_start()
        assert start == {"s": {}}
        add(server, "s", 3)
        assert planner(server).latest(start) == {"s": {"us": 4}}


def test_the_reader_of_a_new_name_reads_the_copies(server: EngineServer) -> None:
    """RENAME adds the entries anew under the other name, with new counters (S10.1)."""
    write(server, 3)
    run(server, "RENAME s t")
    plan = planner(server, streams="t")
    _, counters = read_some(plan, {}, 10)
    assert len(counters) == 3 and min(counters) > 3


def test_entries_that_were_deleted_are_no_loss() -> None:
    """XDEL takes single entries, as every reader sees it; the log of the stream stays."""
    with EngineServer(us_of_two()) as server:
        add(server, "s", 3)
        plan = planner(server)
        offset, _ = read_some(plan, {}, 1)
        run(server, "XDEL s 1-0 2-0 3-0")
        assert read_some(plan, offset, 10)[1] == []
        add(server, "s", 1, first=4)
        assert read_some(plan, offset, 10)[1] == [5]


@pytest.mark.parametrize("where", ["us=redis://me:sec,r=et@h:1", "sec:ret@h:1", "secret@h:1"])
def test_a_password_in_an_endpoint_is_not_shown(where: str) -> None:
    """The message showed the address with the password, and drivers keep such messages."""
    kinds: list[Callable[[], object]] = [
        lambda: SourceOptions({"endpoints": where, "streams": "s"}, True),
        lambda: SinkOptions({"endpoints": where, "stream": "s"}),
    ]
    for kind in kinds:
        with pytest.raises(OptionError, match="give username and passwordFile") as caught:
            kind()
        assert not any(part in str(caught.value) for part in ("sec", "ret", "et@"))
