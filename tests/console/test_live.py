"""Changes reach a page soon; a slow page, a page that left and an idle console cost nothing."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import urllib.request
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import redis.asyncio
from starlette.requests import Request

from anabranch.console import live as live_module
from anabranch.console.app import Console
from anabranch.console.live import Wanted
from anabranch.console.poller import StatePoller, Watcher
from anabranch.console.regions import Line, RegionDown
from anabranch.console.stream import Window
from tests.console.conftest import TOKEN, ConsoleProcess
from tests.console.support import FakeLinks, places
from tests.support.cluster import LiveCluster

pytestmark = pytest.mark.live
PATIENCE_S = 30.0


@asynccontextmanager
async def console_of(cluster: LiveCluster) -> AsyncIterator[Console]:
    made = Console(
        places({name: region.address for name, region in cluster.regions.items()}),
        None,
        FakeLinks(),
        True,
    )
    try:
        yield made
    finally:
        await made.close()


class Reader:
    """A page that takes events, and can stop taking them."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Any]] = []
        self.takes = asyncio.Event()
        self.takes.set()
        self.leaves = asyncio.Event()
        self.sends = 0
        self.status = 0

    async def send(self, message: Any) -> None:
        self.sends += 1
        await self.takes.wait()
        if message["type"] == "http.response.start":
            self.status = message["status"]
            return
        for event in message["body"].decode().split("\n\n"):
            if event.startswith("event: "):
                head, _, data = event.partition("\n")
                self.events.append((head.removeprefix("event: "), json.loads(data[6:])))

    async def receive(self) -> Any:
        await self.leaves.wait()
        return {"type": "http.disconnect"}

    def newest(self, name: str) -> Any:
        """The newest event of a name; None if there was none."""
        return next((facts for one, facts in reversed(self.events) if one == name), None)

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not holds():
                await asyncio.sleep(0.01)


@asynccontextmanager
async def reading(console: Console, key: str) -> AsyncIterator[Reader]:
    reader = Reader()
    request = Request({"type": "http", "headers": []}, reader.receive)
    wanted = Wanted(Window(key.encode()), console.regions, "")
    task = asyncio.create_task(console.live.serve(request, wanted, reader.send))
    try:
        yield reader
    finally:
        reader.leaves.set()
        reader.takes.set()
        await task


def rows(reader: Reader) -> list[Any]:
    stream = reader.newest("stream")
    return stream["rows"] if stream is not None else []


def names(reader: Reader) -> list[str]:
    keys = reader.newest("keys")
    return [one["name"] for one in keys["keys"]] if keys is not None else []


def text_of(entry_id: object) -> str:
    """The ID in the answer to an XADD."""
    assert isinstance(entry_id, bytes)
    return entry_id.decode()


async def test_a_write_reaches_the_page(cluster: LiveCluster) -> None:
    async with console_of(cluster) as console, reading(console, "live") as page:
        await page.until(lambda: page.newest("stream") is not None)
        async with redis.asyncio.Redis(port=cluster["us"].resp_port) as client:
            added = text_of(await client.xadd("live", {"a": "1"}))
            await page.until(
                lambda: any(
                    row["id"] == added
                    and all(one["state"] == "present" for one in row["in"].values())
                    for row in rows(page)
                )
            )
            await client.xdel("live", added)
            await page.until(
                lambda: any(
                    row["id"] == added
                    and all(
                        one.get("by", "").startswith("XDEL in us") for one in row["in"].values()
                    )
                    for row in rows(page)
                )
            )
        await page.until(lambda: "live" in names(page))


async def test_a_slow_page_makes_nothing_grow(cluster: LiveCluster) -> None:
    """However much changes meanwhile, one event waits, and the next one is the newest state."""
    async with console_of(cluster) as console, reading(console, "slow") as page:
        await page.until(lambda: page.newest("stream") is not None)
        page.takes.clear()
        sends = page.sends
        async with redis.asyncio.Redis(port=cluster["us"].resp_port) as client:
            await client.xadd("slow", {"n": "first"})
            await page.until(lambda: page.sends > sends)
            stuck = page.sends
            for n in range(200):
                added = text_of(await client.xadd("slow", {"n": str(n)}))
            await asyncio.sleep(1)
            assert page.sends == stuck
            events = len(page.events)
            page.takes.set()
            await page.until(lambda: bool(rows(page)) and rows(page)[0]["id"] == added)
        streams = [one for one, _ in page.events[events:] if one == "stream"]
        assert 1 <= len(streams) < 20


async def test_a_page_that_takes_nothing_is_dropped(
    cluster: LiveCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_module, "SEND_PATIENCE_S", 0.2)
    async with console_of(cluster) as console, reading(console, "stuck") as page:
        await page.until(lambda: page.newest("stream") is not None)
        page.takes.clear()
        async with redis.asyncio.Redis(port=cluster["us"].resp_port) as client:
            await client.xadd("stuck", {"a": "1"})
        await page.until(lambda: console.live.pages == 0)


async def test_a_question_can_be_cancelled_at_every_step(cluster: LiveCluster) -> None:
    """redis-py sent within asyncio.wait_for, which loses a cancellation that comes as it ends.

    So a poller went on for ever, and the console hung as it closed.
    """
    (place,) = places({"us": cluster["us"].address})
    for steps in range(40):
        line = Line(place, None)
        await line.ask("PING")

        async def asks(line: Line = line) -> None:
            while True:
                await line.ask("PING")

        task = asyncio.create_task(asks())
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        _, running = await asyncio.wait([task], timeout=2)
        task.cancel()
        await line.close()
        assert not running, f"a cancellation after {steps} steps was lost"


async def test_without_pages_nothing_is_asked(cluster: LiveCluster) -> None:
    async with console_of(cluster) as console:
        async with reading(console, "idle") as page:
            await page.until(lambda: page.newest("stream") is not None)
            assert console.poller.is_polling
        assert console.live.pages == 0 and not console.poller.is_polling


async def test_pages_are_counted(cluster: LiveCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_module, "PAGES_MAX", 1)
    async with console_of(cluster) as console, reading(console, "a") as one:
        await one.until(lambda: one.newest("stream") is not None)
        async with reading(console, "b") as other:
            await other.until(lambda: other.status == 503)


async def test_a_region_goes_and_comes_back(new_cluster: Callable[..., LiveCluster]) -> None:
    cluster = new_cluster(["us", "eu"])
    cluster.start_all()

    def state(page: Reader) -> str:
        overview = page.newest("overview")
        found = [one["state"] for one in overview["regions"] if one["name"] == "eu"]
        return str(found[0])

    async with console_of(cluster) as console, reading(console, "k") as page:
        await page.until(lambda: page.newest("stream") is not None and state(page) == "serving")
        await asyncio.to_thread(cluster.kill, "eu")
        await page.until(lambda: state(page) == "unreachable")
        overview = page.newest("overview")
        unknown = [link for link in overview["links"] if link["receiver"] == "eu"]
        assert [link["state"] for link in unknown] == ["unknown"]
        async with redis.asyncio.Redis(port=cluster["us"].resp_port) as client:
            await client.xadd("k", {"a": "1"})
        await page.until(lambda: len(rows(page)) == 1 and list(rows(page)[0]["in"]) == ["us"])
        await asyncio.to_thread(cluster.start, "eu")
        await page.until(lambda: state(page) == "serving")
        await page.until(lambda: rows(page)[0]["in"].get("eu", {}).get("state") == "present")


async def test_a_region_that_failed_a_look_is_asked_again(
    new_cluster: Callable[..., LiveCluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connection was one of before its restart. Nothing changed later, and the error stayed."""
    cluster = new_cluster(["us", "eu"])
    cluster.start_all()
    async with console_of(cluster) as console, reading(console, "k") as page:
        await page.until(lambda: page.newest("stream") is not None)

        async def fail(commands: Any) -> Any:
            raise RegionDown("the connection is closed")

        with monkeypatch.context() as failing:
            failing.setattr(console.regions[1].line, "ask_all", fail)
            async with redis.asyncio.Redis(port=cluster["us"].resp_port) as client:
                await client.xadd("k", {"a": "1"})
            await asyncio.to_thread(cluster.sync)
            await page.until(lambda: bool(page.newest("stream")["regions"][1]["error"]))
            await page.until(lambda: page.newest("keys")["silent"] == ["eu"])
            # The poller has told of the entry in eu.
            await page.until(lambda: page.newest("overview")["regions"][1]["entries"] == 1)
            await asyncio.sleep(0.5)
        await page.until(lambda: rows(page)[0]["in"].get("eu", {}).get("state") == "present")
        await page.until(lambda: page.newest("keys")["silent"] == [])


async def test_a_region_that_hangs_keeps_no_other_waiting(
    new_cluster: Callable[..., LiveCluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look at the stream and at the keys waited 5 s for it. A write was shown after 15 s."""
    cluster = new_cluster(["us", "eu"])
    cluster.start_all()
    process = cluster["eu"].process
    assert process is not None
    async with console_of(cluster) as console, reading(console, "k") as page:
        await page.until(lambda: page.newest("stream") is not None)
        process.send_signal(signal.SIGSTOP)
        try:
            async with redis.asyncio.Redis(port=cluster["us"].resp_port) as client:
                await client.xadd("k", {"a": "1"})
                await page.until(lambda: bool(page.newest("stream")["regions"][1]["error"]))
                await page.until(lambda: page.newest("keys")["silent"] == ["eu"])
                asked: list[object] = []
                for name in ("ask", "ask_all"):
                    monkeypatch.setattr(console.regions[1].line, name, asked.append)
                await client.xadd("k", {"a": "2"})
                await page.until(lambda: len(rows(page)) == 2)
                await client.xadd("other", {"a": "1"})
                await page.until(lambda: names(page) == ["k", "other"])
                assert asked == []
                monkeypatch.undo()
        finally:
            process.send_signal(signal.SIGCONT)
        await page.until(lambda: not page.newest("stream")["regions"][1]["error"])
        await page.until(lambda: all(len(row["in"]) == 2 for row in rows(page)))


async def test_a_page_that_leaves_while_something_changes_is_gone() -> None:
    """Before, `asyncio.wait_for` lost the cancellation, and the page was watched for ever."""
    for _ in range(200):
        watcher = Watcher()
        await watcher.wait(0.0)
        waiting = asyncio.create_task(watcher.wait(PATIENCE_S))
        await asyncio.sleep(0)
        watcher.notify()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting


async def test_a_watcher_that_never_reads_costs_one_flag(cluster: LiveCluster) -> None:
    async with console_of(cluster) as console:
        poller: StatePoller = console.poller
        async with poller.watch() as watcher:
            for _ in range(10_000):
                watcher.notify()
            assert await watcher.wait(1.0)
            assert not await watcher.wait(0.0)


def test_the_process_ends_while_pages_watch(cluster: LiveCluster, tmp_path: Path) -> None:
    one = ConsoleProcess(cluster, tmp_path / "console.log")
    try:
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        with opener.open(f"{one.url}/?token={TOKEN}", timeout=10) as answer:
            found = re.search(r'name="token" content="([\w-]+)"', answer.read().decode())
        assert found is not None
        with opener.open(f"{one.url}/api/live?key=k&token={found[1]}", timeout=30) as events:
            assert events.readline() == b"event: overview\n"
            one.process.terminate()
            assert one.process.wait(20) == -signal.SIGTERM
            assert b"data: " in events.read()
        log = one.log.read_text()
        assert "ERROR" not in log and "Traceback" not in log, log
    finally:
        one.close()
