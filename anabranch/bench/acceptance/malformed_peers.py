"""Malformed messages at the port where regions meet: nothing breaks, and log and memory stay small.

Regions us and eu run. The program plays everybody else: clients that send bytes of any protocol,
calls of gRPC with malformed messages, calls that say nothing, and member ap, which greets correctly
and then sends garbage, over the links that it dials and over those on which it is dialled.
Meanwhile us answers PING and XADD, and eu receives what is added.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import os
import random
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import grpc.aio

from anabranch.bench.acceptance import malformed_messages as malformed
from anabranch.bench.harness import Figures, percentile, resident_bytes, show_build
from anabranch.cluster.client import RespClient
from anabranch.cluster.errors import ClusterError, ConnectionFailed
from anabranch.cluster.ports import HOST
from anabranch.cluster.regions import ProcessCluster, RegionProcess
from anabranch.crdt.errors import PeerError
from anabranch.sync.live.carrier import METHOD, ConnectionLost, Listener, PeerStream
from anabranch.sync.session import messages as m
from anabranch.sync.session.codec import decode_up, encode_down, encode_up

US, EU = "us", "eu"
KEY = "meanwhile"
CONNECTIONS = 24
HUGE_AT_ONCE = 2
SILENT_MAX = 100
ANSWER_S = 0.3
CALL_PATIENCE_S = 20.0
SAMPLE_S = 0.1
GROWTH_MAX = 192 << 20
LINES_PER_MINUTE = 240
# Lines of links that work, each a second after the last one at most, and here more often.
LINK_LINES = ("event=link_up", "event=snapshot_begun")
SILENCE_PATIENCE_S = 120.0
FLAGS = {
    "crdt-start-patience-ms": "300",
    "crdt-snapshot-patience-ms": "50",
    # Region ap is refused again and again, and is to be dialled soon after.
    "crdt-reconnect-max-ms": "60",
}


class Bystander(threading.Thread):
    """A client of us: PING and XADD over and over. `added` counts, `latencies_s` are of both."""

    def __init__(self, region: RegionProcess) -> None:
        super().__init__(name="bystander", daemon=True)
        self.added = 0
        self.latencies_s: list[float] = []
        self.failure = ""
        self.resident: list[int] = []
        self._region = region
        self._over = threading.Event()

    def run(self) -> None:
        try:
            with self._region.connect(CALL_PATIENCE_S) as client:
                while not self._over.wait(SAMPLE_S):
                    self._ask(client)
                    self.resident.append(resident_bytes(self._region.pid()))
        except (ConnectionFailed, ClusterError, OSError) as error:
            self.failure = str(error)

    def _ask(self, client: RespClient) -> None:
        begun_s = time.monotonic()
        if client.call("PING") != b"PONG":
            raise ClusterError("PING was not answered")
        reply = client.call("XADD", KEY, "*", "n", str(self.added))
        if not isinstance(reply, bytes):
            raise ClusterError(f"XADD answered {reply!r}")
        self.added += 1
        self.latencies_s.append(time.monotonic() - begun_s)

    def stop(self) -> None:
        """Ends the thread."""
        self._over.set()
        self.join()


class Attack:
    """The attack on one region. `sent` counts the malformed messages by kind."""

    def __init__(self, cluster: ProcessCluster, messages: int, seed: int) -> None:
        self.sent: Counter[str] = Counter()
        self.hung: Counter[str] = Counter()
        # Connections that the region ended before the program had said everything.
        self.resets = 0
        self._cluster = cluster
        self._port = cluster[US].sync_port
        self._messages = messages
        self._chance = random.Random(seed)
        self._lives = itertools.count(1_000_000)
        self._huge = asyncio.Semaphore(HUGE_AT_ONCE)
        self._silent: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        self._kinds: list[Callable[[], object]] = [
            *[self._raw] * 5,
            *[self._call] * 6,
            *[self._greeted] * 4,
            self._be_silent,
        ]

    async def run(self) -> None:
        """Sends all messages. It ends when each connection has ended or run out of patience."""
        played = Listener(f"{HOST}:{self._cluster['ap'].sync_port}", self._dialled)
        await played.start()
        opener = asyncio.create_task(self._open_links())
        try:
            await asyncio.gather(*(self._work() for _ in range(CONNECTIONS)))
        finally:
            opener.cancel()
            await asyncio.gather(opener, return_exceptions=True)
            await played.stop()
            await self._end_silence()

    @property
    def _is_over(self) -> bool:
        return self.sent.total() >= self._messages

    async def _work(self) -> None:
        while not self._is_over:
            act = self._chance.choice(self._kinds)
            if self._chance.random() < 0.002:
                act = self._send_huge
            work = act()
            assert asyncio.iscoroutine(work)
            try:
                await asyncio.wait_for(work, CALL_PATIENCE_S)
            except TimeoutError:
                self.hung[getattr(act, "__name__", "")] += 1
            except (grpc.RpcError, asyncio.InvalidStateError, OSError):
                self.resets += 1

    # -- clients that are no regions

    async def _raw(self) -> None:
        name, data = malformed.raw_bytes(self._chance)
        reader, writer = await asyncio.open_connection(HOST, self._port)
        self.sent[name] += 1
        try:
            writer.write(data)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(reader.read(1 << 16), ANSWER_S * self._chance.random())
        finally:
            writer.close()

    async def _be_silent(self) -> None:
        """Headers, or a part of them, and then nothing until the end."""
        if len(self._silent) >= SILENT_MAX:
            return
        reader, writer = await asyncio.open_connection(HOST, self._port)
        data = malformed.request()
        writer.write(data[: self._chance.choice([0, 10, 40, len(data)])])
        self.sent["silence"] += 1
        self._silent.append((reader, writer))

    async def _end_silence(self) -> None:
        """Waits until the region has closed the connections that say nothing."""
        for reader, writer in self._silent:
            try:
                while await asyncio.wait_for(reader.read(1 << 16), SILENCE_PATIENCE_S):
                    pass
            except TimeoutError:
                self.hung["silence"] += 1
            except OSError:
                self.resets += 1
            writer.close()

    async def _call(self) -> None:
        """A call whose first message is malformed or refused."""
        draw = self._chance.choice([malformed.bad_up, malformed.bad_hello])
        await self._converse("call: ", [draw(self._chance)])

    async def _send_huge(self) -> None:
        async with self._huge:
            await self._converse("", [("huge message", malformed.huge_up(self._chance))])

    # -- a member that sends garbage

    async def _greeted(self) -> None:
        """A good Hello of region ap, then garbage."""
        greeting = malformed.hello(malformed.PLAYED, "ap", 1, next(self._lives))
        garbage = [malformed.bad_up(self._chance) for _ in range(self._chance.randint(1, 3))]
        if self._chance.random() < 0.1:
            garbage[0] = ("second Hello", encode_up(greeting))
        await self._converse("member: ", garbage, encode_up(greeting))

    async def _converse(
        self, prefix: str, said: list[tuple[str, bytes]], greeting: bytes = b""
    ) -> None:
        """One call: the greeting and its answer, what is `said`, and all answers until the end."""
        method = METHOD if self._chance.random() < 0.98 else METHOD + "s"
        async with grpc.aio.insecure_channel(
            f"{HOST}:{self._port}",
            options=[("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1)],
        ) as channel:
            call = channel.stream_stream(method)()
            if greeting:
                await call.write(greeting)
                await call.read()
            for name, data in said:
                self.sent[prefix + name] += 1
                await call.write(data)
            if self._chance.random() < 0.2:
                call.cancel()
                return
            if self._chance.random() < 0.5:
                await call.done_writing()
            while await call.read() is not grpc.aio.EOF:
                pass

    async def _dialled(self, stream: PeerStream) -> None:
        """Plays ap for a region that dials it: a good Welcome, then garbage."""
        with contextlib.suppress(ConnectionLost, PeerError, TimeoutError):
            await stream.receive()
            if self._chance.random() < 0.1:
                self.sent["dialled: noise"] += 1
                await stream.send(self._chance.randbytes(50))
                return
            await stream.send(encode_down(malformed.welcome(next(self._lives)), "none"))
            if self._chance.random() < 0.1:
                await asyncio.wait_for(self._snapshot(stream), 2.0)
            else:
                name, messages = malformed.bad_down(self._chance)
                await self._tell(stream, name, messages)
            await asyncio.wait_for(_read_out(stream), 2.0)

    async def _snapshot(self, stream: PeerStream) -> None:
        """Holds back until the region asks for a snapshot, and sends a malformed one."""
        await stream.send(encode_down(m.HoldingBack(True, {malformed.PLAYED: malformed.HELD})))
        while (data := await stream.receive()) is not None:
            message = decode_up(data)
            if isinstance(message, m.SnapshotRequest):
                await self._tell(stream, *malformed.bad_snapshot(self._chance, message.number))
                return

    async def _tell(self, stream: PeerStream, name: str, messages: list[bytes]) -> None:
        for data in messages:
            self.sent[f"dialled: {name}"] += 1
            await stream.send(data)

    async def _open_links(self) -> None:
        """Opens the links from ap again: a fork closes a link until an operator acts."""
        while True:
            for name in (US, EU):
                with contextlib.suppress(ConnectionFailed):
                    await asyncio.to_thread(_link_up, self._cluster[name])
            await asyncio.sleep(0.2)


async def _read_out(stream: PeerStream) -> None:
    while await stream.receive() is not None:
        pass


def _link_up(region: RegionProcess) -> None:
    region.ask("CRDT.LINK", "ap", "UP")


@contextlib.contextmanager
def _bystanding(bystander: Bystander) -> Iterator[None]:
    bystander.start()
    try:
        yield
    finally:
        bystander.stop()


def attack(messages: int, seed: int, growth_max: int | None) -> Figures:
    """Sends `messages`. `growth_max`: limit of the growth of memory, bytes; None: no limit."""
    figures = Figures(f"{messages:,} malformed messages of peers, seed {seed}")
    with ProcessCluster(settings=FLAGS) as cluster:
        for name in (US, EU):
            cluster.start(name, wait=False)
        for name in (US, EU):
            cluster.await_answer(name)
        us = cluster[US]
        cluster.level()
        show_build(figures, us)
        before = resident_bytes(us.pid())
        one = Attack(cluster, messages, seed)
        bystander = Bystander(us)
        # The library's log of this process's clients. The regions, which run already, log theirs.
        os.environ["GRPC_VERBOSITY"] = "NONE"
        begun_s = time.monotonic()
        with _bystanding(bystander):
            asyncio.run(one.run())
        took_s = time.monotonic() - begun_s
        figures.show("attack", took_s, f"s, {one.sent.total() / took_s:,.0f} messages a second")
        for kind, count in sorted(one.sent.items()):
            figures.show(f"  {kind}", count)
        figures.show("ended by the region while more was to come", one.resets)
        figures.require("every connection ended", not one.hung, dict(one.hung))
        _judge_client(figures, bystander)
        _judge_memory(figures, before, bystander.resident, us, growth_max)
        for name in (US, EU):
            _judge_log(figures, cluster[name], took_s)
        _judge_replication(figures, cluster, bystander.added)
    return figures


def _judge_client(figures: Figures, bystander: Bystander) -> None:
    figures.require(
        "PING and XADD were answered throughout",
        not bystander.failure,
        bystander.failure or f"{bystander.added:,} times",
    )
    figures.show("PING and XADD, p99", percentile(bystander.latencies_s, 0.99) * 1000, "ms")


def _judge_memory(
    figures: Figures,
    before: int,
    resident: list[int],
    region: RegionProcess,
    growth_max: int | None,
) -> None:
    if not figures.require("the region lives", region.running):
        return
    after = resident_bytes(region.pid())
    for name, size in (("before", before), ("at most", max(resident)), ("after", after)):
        figures.show(f"VmRSS {name}", size / (1 << 20), "MiB")
    if growth_max is not None:
        grown = max(resident) - before
        figures.require(f"growth at most {growth_max >> 20} MiB", grown <= growth_max, grown >> 20)


def _judge_log(figures: Figures, region: RegionProcess, took_s: float) -> None:
    text = Path(region.log).read_text(errors="replace")
    found = text.count("Traceback") + text.count(" ERROR ")
    figures.require(f"no traceback and no error in the log of {region.name}", not found, found)
    if "Traceback" in text:
        figures.show("the first traceback", text[text.index("Traceback") :][:1500])
    lines = sum(not any(word in line for word in LINK_LINES) for line in text.splitlines())
    events = Counter(re.findall(r"event=(\w+)", text))
    figures.show(f"events in the log of {region.name}", dict(events.most_common(6)))
    allowed = round(LINES_PER_MINUTE * (1 + took_s / 60))
    figures.require(f"lines in the log of {region.name} at most {allowed}", lines <= allowed, lines)


def _judge_replication(figures: Figures, cluster: ProcessCluster, added: int) -> None:
    cluster.level()
    for name in (US, EU):
        length = cluster[name].ask("XLEN", KEY)
        figures.require(f"{name} has what was added", length == added, length)
    digests = {cluster[name].digest() for name in (US, EU)}
    figures.require("equal digests", len(digests) == 1, digests)


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="anabranch bench acceptance.malformed_peers", description=__doc__
    )
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    return attack(given.messages, given.seed, GROWTH_MAX).finish()
