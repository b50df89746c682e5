"""Managers over real gRPC on loopback, with regions that are fakes. Nothing here depends on how long anything takes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Optional

import grpc
import grpc.aio
import pytest

from anabranch.region.engine.errors import StorageError
from anabranch.region.engine.settings import Settings
from anabranch.sync.carrier import METHOD, ConnectionLost, dial
from anabranch.sync.interfaces import Region
from anabranch.sync.manager import SyncManager
from tests.sync.fakes import NAMES, FakeEngine, FakeLog, FakeRow

GENEROUS_S = 60


class LiveRegion:
    """Commits when asked to step, as the process does."""

    def __init__(self, engine: FakeEngine, settings: Settings) -> None:
        self.engine = engine
        self.database: FakeLog = engine.log
        self.settings = settings
        self.on_committed: list[Callable[[int], None]] = []
        self._planned = False

    def now_ms(self) -> int:
        return int(time.time() * 1000)

    def stepped(self) -> None:
        if not self._planned and self.engine.pending:
            self._planned = True
            asyncio.get_running_loop().call_soon(self._commit)

    def _commit(self) -> None:
        self._planned = False
        self.engine.commit()
        for callback in list(self.on_committed):
            callback(self.engine.committed_position)

    def write(self, payload: str = "") -> None:
        self.engine.write(payload)
        self.stepped()


class Cluster:
    def __init__(self, *rids: int, **settings: Any) -> None:
        self.settings = Settings(
            {name.replace("_", "-"): value for name, value in settings.items()}
        )
        self.members = {rid: NAMES[rid] for rid in rids}
        self.regions = {
            rid: LiveRegion(FakeEngine(rid, self.members), self.settings) for rid in rids
        }
        self.managers: dict[int, SyncManager] = {}

    async def start(self, rid: int, receives_from: Sequence[int]) -> SyncManager:
        """Ports are the system's choice: addresses of regions started later are told when they are known."""
        peers = {NAMES[peer]: self.address(peer) for peer in receives_from}
        manager = self.managers[rid] = SyncManager(self.regions[rid], "127.0.0.1:0", peers)
        await manager.start()
        for other in self.managers.values():
            if rid in other.hub.links:
                other.set_peer(NAMES[rid], self.address(rid))
        return manager

    def address(self, rid: int) -> str:
        return f"127.0.0.1:{self.managers[rid].port}" if rid in self.managers else "127.0.0.1:1"

    def engine(self, rid: int) -> FakeEngine:
        return self.regions[rid].engine


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(GENEROUS_S):
        while not condition():
            await asyncio.sleep(0.005)


@asynccontextmanager
async def running(cluster: Cluster, links: dict[int, list[int]]) -> AsyncIterator[Cluster]:
    try:
        for rid, receives_from in links.items():
            await cluster.start(rid, receives_from)
        yield cluster
    finally:
        for manager in cluster.managers.values():
            await manager.stop()


MESH = {1: [2, 3], 2: [1, 3], 3: [1, 2]}


def same(cluster: Cluster, vector: dict[int, int]) -> bool:
    return all(region.engine.disk_vector == vector for region in cluster.regions.values())


def test_fakes_are_what_the_manager_expects() -> None:
    region: Region = LiveRegion(FakeEngine(1, {1: "us"}), Settings())
    assert region.engine.region_id == 1


async def test_three_regions_in_a_mesh() -> None:
    async with running(Cluster(1, 2, 3), MESH) as cluster:
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
        everything_up = {(2, True): "up", (3, True): "up", (2, False): "up", (3, False): "up"}
        await until(
            lambda: (
                {(one.peer, one.receiving): one.state for one in cluster.managers[1].status()}
                == everything_up
            )
        )


async def test_a_region_comes_back_and_catches_up_while_others_write() -> None:
    async with running(Cluster(1, 2), {1: [2], 2: [1]}) as cluster:
        cluster.regions[2].write("here")
        await until(lambda: same(cluster, {2: 1}))
        await cluster.managers.pop(2).stop()
        await until(lambda: cluster.engine(1).receivers == set())
        for _ in range(300):
            cluster.regions[1].write("w" * 10_000)
        await until(lambda: cluster.engine(1).disk_vector.get(1) == 300)
        await cluster.start(2, [1])
        cluster.regions[2].write("back")
        await until(lambda: same(cluster, {1: 300, 2: 2}))


async def test_large_blocks_small_messages_and_windows() -> None:
    cluster = Cluster(1, 2, crdt_batch_max_bytes=10_000, crdt_window_max_bytes=50_000)
    async with running(cluster, {1: [2], 2: [1]}):
        for size in (10, 3_000_000, 10, 40_000, 60_000):
            cluster.regions[1].write("L" * size)
        await until(lambda: same(cluster, {1: 5}))


async def test_a_snapshot_over_the_wire() -> None:
    cluster = Cluster(1, 2, crdt_batch_max_bytes=50, crdt_snapshot_patience_ms=50)
    for number in range(100):
        cluster.engine(1).write(str(number))
    cluster.engine(1).commit()
    cluster.engine(1).log.truncate(3)
    async with running(cluster, {1: [2], 2: [1]}):
        await until(lambda: same(cluster, {1: 100}))
        assert cluster.engine(2).joins == 1
        cluster.regions[1].write("afterwards")
        await until(lambda: same(cluster, {1: 101}))


async def test_link_down_up_and_delay() -> None:
    async with running(Cluster(1, 2), {1: [2], 2: [1]}) as cluster:
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


async def test_a_refusal_shows_on_both_sides(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster(1, 2)
    cluster.engine(2).cluster = "another"
    async with running(cluster, {1: [2], 2: [1]}):
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
    assert any("us: sending to" in record.message for record in caplog.records)


async def test_nobody_there_and_a_peer_that_speaks_nonsense() -> None:
    async with running(Cluster(1, 2), {1: [2]}) as cluster:
        await until(
            lambda: (
                "127.0.0.1:1" in cluster.engine(1).states[2][1]
                or "unavailable" in cluster.engine(1).states[2][1]
            )
        )
        stream = await dial(cluster.address(1))
        await stream.send(b"\xff\xff\xff nonsense")
        answer = await stream.receive()
        assert answer is not None and b"malformed" in answer
        assert await stream.receive() is None
        await stream.close()
        await cluster.start(2, [1])
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
    cluster = Cluster(1, 2)
    async with running(cluster, {1: [2], 2: [1]}):
        await until(lambda: cluster.engine(1).states[2][0] == "up")
        port = cluster.managers[1].port
    assert not [
        task
        for task in asyncio.all_tasks() - before
        if not task.done() and "sync" in repr(task.get_coro())
    ]
    again = SyncManager(cluster.regions[1], f"127.0.0.1:{port}", {})
    await again.start()
    await again.stop()
    assert cluster.regions[1].on_committed == []


async def test_a_port_that_is_taken() -> None:
    async with running(Cluster(1, 2), {1: []}) as cluster:
        taken = SyncManager(cluster.regions[2], cluster.address(1), {})
        with pytest.raises(RuntimeError):
            await taken.start()
        await taken.stop()


def test_a_peer_that_is_no_member() -> None:
    with pytest.raises(ValueError, match="nowhere"):
        SyncManager(
            LiveRegion(FakeEngine(1, {1: "us", 2: "eu"}), Settings()),
            "127.0.0.1:0",
            {"nowhere": "127.0.0.1:1"},
        )


class BrokenLog(FakeLog):
    """Its first reads fail."""

    def __init__(self) -> None:
        super().__init__()
        self.failures = 2

    async def rows_after(self, position: int, bytes_max: int) -> list[FakeRow]:
        if self.failures:
            self.failures -= 1
            raise StorageError("unreadable")
        return await super().rows_after(position, bytes_max)


async def test_a_log_that_cannot_be_read_costs_the_connection_only(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = Cluster(1, 2)
    log = cluster.engine(1).log = BrokenLog()
    cluster.regions[1].database = log
    async with running(cluster, {1: [], 2: [1]}):
        cluster.regions[1].write("w")
        await until(lambda: cluster.engine(2).vector == {1: 1})
    assert log.failures == 0
    assert any("unreadable" in str(record.exc_info) for record in caplog.records)


async def test_clients_are_served_between_turns_of_merging() -> None:
    """While a backlog is merged, whatever else the loop has ready gets its turn after about 256 KiB."""
    cluster = Cluster(1, 2)
    for _ in range(200):
        cluster.engine(1).write("w" * 100_000)
    cluster.engine(1).commit()
    sizes: list[int] = []
    merge = cluster.engine(2).merge

    def counted(blocks: Any, source: int, now_ms: int) -> None:
        sizes.append(sum(len(block.body) for block in blocks))
        merge(blocks, source, now_ms)

    cluster.engine(2).merge = counted  # type: ignore[method-assign]
    async with running(cluster, {1: [], 2: [1]}):
        await until(lambda: cluster.engine(2).disk_vector == {1: 200})
    assert max(sizes) <= 256 << 10


async def test_a_peer_that_never_reads_costs_one_batch() -> None:
    cluster = Cluster(1, 2, crdt_batch_max_bytes=10_000)
    async with running(cluster, {1: []}):
        from anabranch.sync.codec import encode_up
        from anabranch.sync.messages import VERSION, Hello

        channel = grpc.aio.insecure_channel(cluster.address(1))
        call: Optional[Any] = channel.stream_stream(METHOD)()
        assert call is not None
        await call.write(
            encode_up(
                Hello(VERSION, "c", cluster.members, 2, "eu", 1, 1, {}, {}, frozenset(), 1 << 40)
            )
        )
        await until(lambda: cluster.engine(1).receivers == {2})
        for _ in range(500):
            cluster.regions[1].write("w" * 5000)
            await asyncio.sleep(0)
        sender = cluster.managers[1].hub.sending[2].sender
        assert sender is not None
        assert sum(len(row.block.body) for row in sender._rows if row.block) <= 20_000
        call.cancel()
        await channel.close()
