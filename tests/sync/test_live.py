"""Managers over real gRPC on loopback, with regions that are fakes.

Nothing here depends on how long anything takes.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Optional

import grpc
import grpc.aio
import pytest

from anabranch.region.engine.settings import Settings
from anabranch.sync.live.carrier import METHOD, ConnectionLost, dial
from anabranch.sync.live.manager import ServedRegion, SyncManager
from anabranch.sync.session.codec import decode_down, encode_up
from anabranch.sync.session.hub import Hub
from anabranch.sync.session.messages import VERSION, Hello, Refusal
from tests.sync.fakes import NAMES, FakeDriver, FakeEngine

GENEROUS_S = 60


class Clock:
    """A clock of milliseconds on which no time passes while the process is held up.

    A busy machine can hold up a process for seconds, which is no silence of a peer.
    """

    STEP_MS_MAX = 50

    def __init__(self) -> None:
        self._ms = time.time_ns() // 1_000_000
        self._read_ms = time.monotonic_ns() // 1_000_000

    def __call__(self) -> int:
        now_ms = time.monotonic_ns() // 1_000_000
        self._ms += min(now_ms - self._read_ms, self.STEP_MS_MAX)
        self._read_ms = now_ms
        return self._ms


class LiveRegion:
    """Steps when asked to, and every few milliseconds, as the process does."""

    def __init__(self, engine: FakeEngine, settings: Settings, peers: Sequence[int] = ()) -> None:
        self.engine = engine
        self.driver = FakeDriver(engine, settings, peers, Clock())
        self.manager: Optional[SyncManager] = None
        self.failures: list[BaseException] = []
        self._planned = False
        self._ticker: Optional[asyncio.TimerHandle] = None

    async def start(self, listen: str, addresses: dict[int, str]) -> SyncManager:
        manager = self.manager = SyncManager(self, listen, addresses)
        await manager.start()
        self._tick()
        return manager

    async def stop(self) -> None:
        if self._ticker is not None:
            self._ticker.cancel()
        if self.manager is not None:
            manager, self.manager = self.manager, None
            await manager.stop()

    def fail(self, error: BaseException) -> None:
        self.failures.append(error)

    def stepped(self) -> None:
        if not self._planned:
            self._planned = True
            asyncio.get_running_loop().call_soon(self._step)

    def _tick(self) -> None:
        self._ticker = asyncio.get_running_loop().call_later(0.005, self._tick)
        self.driver.hub.tick(self.driver.clock())
        self.stepped()

    def _step(self) -> None:
        self._planned = False
        work = self.driver.step()
        for event in work.events:
            logging.getLogger("tests.sync").log(event.level, event.line(self.engine.name))
        if self.manager is not None:
            self.manager.perform(work.dials, work.closes)

    def write(self, payload: str = "") -> None:
        self.engine.write(payload)
        self.stepped()


class Cluster:
    """`links`: region → the regions that it receives from."""

    def __init__(self, links: dict[int, list[int]], **settings: Any) -> None:
        self.settings = Settings(
            {name.replace("_", "-"): value for name, value in settings.items()}
        )
        self.links = links
        self.members = {rid: NAMES[rid] for rid in links}
        self.regions = {rid: self._region(FakeEngine(rid, self.members)) for rid in links}
        self.managers: dict[int, SyncManager] = {}

    def _region(self, engine: FakeEngine) -> LiveRegion:
        return LiveRegion(engine, self.settings, self.links[engine.region_id])

    async def start(self, rid: int) -> SyncManager:
        """The system chooses the ports.

        Regions that run already are told the address of one that starts later.
        """
        addresses = {peer: self.address(peer) for peer in self.links[rid]}
        manager = self.managers[rid] = await self.regions[rid].start("127.0.0.1:0", addresses)
        for other, other_manager in self.managers.items():
            if rid in self.links[other]:
                other_manager.addresses[rid] = self.address(rid)
        return manager

    async def restart(self, rid: int) -> None:
        """The process ends, and another goes on with what is on the disk."""
        await self.regions[rid].stop()
        del self.managers[rid]
        self.regions[rid] = self._region(self.engine(rid))

    def hub(self, rid: int) -> Hub:
        return self.regions[rid].driver.hub

    def address(self, rid: int) -> str:
        return f"127.0.0.1:{self.managers[rid].port}" if rid in self.managers else "127.0.0.1:1"

    def engine(self, rid: int) -> FakeEngine:
        return self.regions[rid].engine


async def passes(cluster: Cluster, ms: int) -> None:
    """Waits until so much time has passed on the clocks of all regions."""
    clocks = [region.driver.clock for region in cluster.regions.values()]
    ends = [clock() + ms for clock in clocks]
    await until(lambda: all(clock() >= end for clock, end in zip(clocks, ends, strict=True)))


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(GENEROUS_S):
        while not condition():
            await asyncio.sleep(0.005)


@asynccontextmanager
async def running(cluster: Cluster, *rids: int) -> AsyncIterator[Cluster]:
    """Starts these regions, all if none is named."""
    try:
        for rid in rids or cluster.regions:
            await cluster.start(rid)
        yield cluster
    finally:
        for region in cluster.regions.values():
            await region.stop()


PAIR = {1: [2], 2: [1]}
MESH = {1: [2, 3], 2: [1, 3], 3: [1, 2]}


def same(cluster: Cluster, vector: dict[int, int]) -> bool:
    return all(region.engine.disk_vector == vector for region in cluster.regions.values())


def test_fakes_are_what_the_manager_expects() -> None:
    region: ServedRegion = LiveRegion(FakeEngine(1, {1: "us"}), Settings())
    assert region.driver.compression() == "zstd"


async def test_an_error_of_the_driver_ends_the_region() -> None:
    """The link alone used to end, and the region went on with what the call had half done."""

    def breaks(*_: object) -> None:
        raise MemoryError

    async with running(Cluster(PAIR)) as cluster:
        await until(lambda: all(one.state == "up" for one in cluster.hub(1).links.values()))
        region = cluster.regions[1]
        region.driver.received = breaks  # type: ignore[method-assign, assignment]
        cluster.regions[2].write("here")
        await until(lambda: bool(region.failures))
        assert isinstance(region.failures[0], MemoryError)
    assert len(region.failures) == 1, "the driver is not called again"


async def test_three_regions_in_a_mesh() -> None:
    async with running(Cluster(MESH)) as cluster:
        for number in range(20):
            for region in cluster.regions.values():
                region.write(str(number))
            await asyncio.sleep(0)
        await until(lambda: same(cluster, {1: 20, 2: 20, 3: 20}))
        await until(
            lambda: all(
                acks == {1: 20, 2: 20, 3: 20} for acks in cluster.engine(1).peer_acks.values()
            )
        )
        await until(lambda: cluster.engine(1).receivers == {2, 3})
        await until(lambda: all(link.state == "up" for link in cluster.hub(1).links.values()))
        for connection in cluster.hub(1).sending.values():
            assert connection.is_open


async def test_a_region_comes_back_and_catches_up_while_others_write() -> None:
    async with running(Cluster(PAIR)) as cluster:
        cluster.regions[2].write("here")
        await until(lambda: same(cluster, {2: 1}))
        await cluster.restart(2)
        await until(lambda: cluster.engine(1).receivers == set())
        for _ in range(300):
            cluster.regions[1].write("w" * 10_000)
        await until(lambda: cluster.engine(1).disk_vector.get(1) == 300)
        await cluster.start(2)
        cluster.regions[2].write("back")
        await until(lambda: same(cluster, {1: 300, 2: 2}))


async def test_large_blocks_small_messages_and_windows() -> None:
    cluster = Cluster(PAIR, crdt_batch_max_bytes=10_000, crdt_window_max_bytes=50_000)
    async with running(cluster):
        for size in (10, 3_000_000, 10, 40_000, 60_000):
            cluster.regions[1].write("L" * size)
        await until(lambda: same(cluster, {1: 5}))


async def test_a_snapshot_over_the_wire() -> None:
    cluster = Cluster(PAIR, crdt_batch_max_bytes=50, crdt_snapshot_patience_ms=50)
    for number in range(100):
        cluster.engine(1).write(str(number))
    cluster.engine(1).commit()
    cluster.engine(1).log.truncate(3)
    async with running(cluster):
        await until(lambda: same(cluster, {1: 100}))
        assert cluster.engine(2).joins == 1
        cluster.regions[1].write("afterwards")
        await until(lambda: same(cluster, {1: 101}))


async def test_link_down_up_and_delay() -> None:
    async with running(Cluster(PAIR)) as cluster:
        await until(lambda: cluster.engine(2).states[1][0] == "up")
        cluster.engine(2).link(1, "DOWN")
        cluster.regions[1].write("w")
        await until(
            lambda: (
                cluster.engine(2).states[1][0] == "down" and cluster.engine(1).receivers == set()
            )
        )
        assert cluster.engine(2).vector == {}
        cluster.engine(2).link(1, "DELAY", 30)
        cluster.engine(2).link(1, "UP")
        await until(lambda: same(cluster, {1: 1}))


async def test_a_limited_link_reads_no_more_than_it_holds() -> None:
    """Heartbeats every millisecond fill a link of one byte per second: it must not grow or die."""
    cluster = Cluster(PAIR, crdt_heartbeat_interval_ms=1, crdt_link_silence_ms=4000)
    async with running(cluster):
        await until(lambda: cluster.engine(2).states[1][0] == "up")
        link = cluster.hub(2).links[1]
        connection = link.connection
        cluster.engine(2).link(1, "LIMIT", 1)
        await until(lambda: link.held.is_full)
        cluster.regions[1].write("w")
        held = link.held.size
        await passes(cluster, 5000)
        assert link.held.size <= held and link.connection is connection
        cluster.engine(2).link(1, "LIMIT", 0)
        await until(lambda: same(cluster, {1: 1}))
        assert link.connection is connection


async def test_a_refusal_shows_on_both_sides(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster(PAIR)
    cluster.engine(2).cluster = "another"
    async with running(cluster):
        await until(
            lambda: (
                cluster.engine(1).states[2][0] == "refused"
                and cluster.engine(2).states[1][0] == "refused"
            )
        )
        assert (
            "cluster" in cluster.engine(1).states[2][1]
            and "another" in cluster.engine(2).states[1][1]
        )
    assert any("event=link_refused region=us" in record.message for record in caplog.records)


async def test_nobody_there_and_a_peer_that_speaks_nonsense() -> None:
    async with running(Cluster(PAIR), 1) as cluster:
        await until(
            lambda: (
                "127.0.0.1:1" in cluster.engine(1).states[2][1]
                or "unavailable" in cluster.engine(1).states[2][1]
            )
        )
        stream = await dial(cluster.address(1))
        await stream.send(b"\xff\xff\xff nonsense")
        answer = await stream.receive()
        assert answer is not None
        refusal = decode_down(answer)
        assert isinstance(refusal, Refusal) and refusal.reason == "malformed"
        assert await stream.receive() is None
        await stream.close()
        await cluster.start(2)
        cluster.regions[1].write("still well")
        await until(lambda: same(cluster, {1: 1}))


async def test_dialling_what_is_no_sync_server() -> None:
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    with pytest.raises(ConnectionLost):
        await dial(f"127.0.0.1:{port}")
    server.close()


async def test_stop_leaves_no_task_and_frees_the_port() -> None:
    before = asyncio.all_tasks()
    cluster = Cluster(PAIR)
    async with running(cluster):
        await until(lambda: cluster.engine(1).states[2][0] == "up")
        port = cluster.managers[1].port
    assert not [
        task
        for task in asyncio.all_tasks() - before
        if not task.done() and "sync" in repr(task.get_coro())
    ]
    again = SyncManager(cluster.regions[1], f"127.0.0.1:{port}", {})
    await again.start()
    assert again.port == port
    await again.stop()


async def test_a_port_that_is_taken() -> None:
    async with running(Cluster({1: [], 2: []}), 1) as cluster:
        taken = SyncManager(cluster.regions[2], cluster.address(1), {})
        with pytest.raises(RuntimeError):
            await taken.start()
        await taken.stop()


async def test_a_peer_that_never_reads_costs_one_batch() -> None:
    cluster = Cluster({1: [], 2: []}, crdt_batch_max_bytes=10_000)
    async with running(cluster, 1):
        channel = grpc.aio.insecure_channel(cluster.address(1))
        call: Optional[Any] = channel.stream_stream(METHOD)()
        assert call is not None
        hello = Hello(VERSION, "c", cluster.members, 2, "eu", 1, 1, {}, {}, frozenset(), 1 << 40)
        await call.write(encode_up(hello))
        await until(lambda: cluster.engine(1).receivers == {2})
        for _ in range(500):
            cluster.regions[1].write("w" * 5000)
            await asyncio.sleep(0)
        sender = cluster.hub(1).sending[2].sender
        assert sender is not None
        assert sum(len(row.block.body) for row in sender.log._rows) <= 20_000
        call.cancel()
        await channel.close()


async def test_a_stop_in_order_waits_until_peers_have_ended_their_links(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Peers hear of it amid traffic, and no link is lost."""
    caplog.set_level(logging.INFO, "tests.sync")
    cluster = Cluster(MESH)
    async with running(cluster):
        await until(lambda: all(len(cluster.engine(rid).receivers) == 2 for rid in MESH))
        for _ in range(200):
            for region in cluster.regions.values():
                region.write("w" * 100)
        await cluster.managers[1].stop(in_order=True)
        await until(lambda: caplog.text.count("event=link_ended") == 2)
        assert caplog.text.count("peer=us text=") == 2
        assert "link_lost" not in caplog.text
