"""The scenario of tests/clients with redis-py, sync or asyncio.

Both clients have methods of the same names. The sync ones return replies, the asyncio ones
awaitables; `settle` makes replies of both.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import time
from collections.abc import Callable
from typing import Any

import redis

RAW = b"\xff\xfe\x00\xc3\x28\r\n"
BIG = b"0123456789" * 10_000


async def settle(reply: Any) -> Any:
    """A reply, of a sync or of an asyncio client."""
    return await reply if inspect.isawaitable(reply) else reply


def shown(entry: Any) -> str:
    """An entry of one field as text: the field, and its value in hex, or the hash of a long one."""
    ((field, value),) = entry[1].items()
    text = hashlib.sha256(value).hexdigest() if len(value) > 100 else value.hex()
    return f"{field.decode()} {text}"


def entries_of(reply: Any) -> list[Any]:
    """The entries that a read of one stream returned, in the shape of RESP2 or of RESP3."""
    if not reply:
        return []
    ((_, entries),) = reply.items() if isinstance(reply, dict) else reply
    return entries[0] if isinstance(entries[0], list) else entries


async def kind_of_error(call: Callable[[], Any]) -> str:
    """The first word of the error with which a call ends."""
    try:
        await settle(call())
    except Exception as error:
        return str(error).split()[0]
    return "no error"


class Scenario:
    """One run: the clients, the stream, and what was seen."""

    def __init__(self, connect: Callable[[int], Any], name: str, writer: int, reader: int) -> None:
        self.connect = connect
        self.key = f"clients:{name}:".encode() + RAW
        self.reader_port = reader
        self.writer = connect(writer)
        self.reader = connect(reader)
        self.peers = int(writer != reader)
        self.added: list[bytes] = []
        self.seen: dict[str, object] = {}

    async def run(self) -> dict[str, object]:
        for step in (self.groups, self.woken, self.add, self.read, self.claim, self.ranges):
            await step()
        for step in (self.time_out, self.scan, self.reconnect):
            await step()
        return self.seen

    async def read_group(self, **options: Any) -> list[Any]:
        """Entries for ann that nobody has got before."""
        call = self.reader.xreadgroup
        return entries_of(await settle(call("workers", "ann", {self.key: ">"}, **options)))

    async def groups(self) -> None:
        def create() -> Any:
            return self.writer.xgroup_create(self.key, "workers", "0", mkstream=True)

        self.seen["created"] = "OK" if await settle(create()) is True else "something else"
        self.seen["created again"] = await kind_of_error(create)
        self.seen["no group"] = await kind_of_error(
            lambda: self.writer.xreadgroup("nobody", "ann", {self.key: ">"})
        )
        self.seen["waited"] = await self.add_and_wait({"big": BIG})
        self.seen["first"] = [shown(entry) for entry in await self.read_group(count=1)]

    async def add_and_wait(self, fields: dict[str, Any]) -> int:
        """Both commands use one connection: the pool has no other."""
        self.added.append(await settle(self.writer.xadd(self.key, fields)))
        return int(await settle(self.writer.wait(self.peers, 10_000)))

    async def woken(self) -> None:
        """A read that waits gets an entry that is added in the other region."""
        waiting = asyncio.create_task(
            self.read_group(block=20_000, count=1)
            if inspect.iscoroutinefunction(self.reader.execute_command)
            else asyncio.to_thread(asyncio.run, self.read_group(block=20_000, count=1))
        )
        await asyncio.sleep(0.3)
        added = await settle(self.writer.xadd(self.key, {"raw": RAW}))
        self.added.append(added)
        got = await waiting
        self.seen["woken"] = [shown(entry) for entry in got]
        self.seen["woken by"] = "what was added" if got[0][0] == added else got[0][0]

    async def add(self) -> None:
        pipeline = self.writer.pipeline(transaction=False)
        for n in range(4):
            pipeline.xadd(self.key, {"n": n})
        self.added += await settle(pipeline.execute())
        transaction = self.writer.pipeline(transaction=True)
        transaction.xadd(self.key, {"n": 4})
        transaction.xlen(self.key)
        added, self.seen["length in transaction"] = await settle(transaction.execute())
        self.added.append(added)
        await self.add_and_wait({"n": 5})

    async def read(self) -> None:
        got = await self.read_group(count=100)
        self.seen["read"] = [shown(entry) for entry in got]
        self.seen["read in order"] = [entry[0] for entry in got] == self.added[2:]
        first = self.added[:3]
        self.seen["acknowledged"] = await settle(self.reader.xack(self.key, "workers", *first))

    async def deliveries(self) -> list[str]:
        """Each pending entry: its consumer, and how often it was delivered."""
        call = self.reader.xpending_range
        pending = await settle(call(self.key, "workers", "-", "+", 10))
        return [f"{one['consumer'].decode()} {one['times_delivered']}" for one in pending]

    async def claim(self) -> None:
        summary = await settle(self.reader.xpending(self.key, "workers"))
        self.seen["pending"] = summary["pending"]
        self.seen["consumers"] = {
            one["name"].decode(): one["pending"] for one in summary["consumers"]
        }
        self.seen["delivered"] = await self.deliveries()
        cursor, claimed = b"0-0", []
        for _ in range(2):
            reply = await settle(
                self.reader.xautoclaim(self.key, "workers", "bob", 0, cursor, count=3)
            )
            cursor = reply[0]
            claimed.append([shown(entry) for entry in reply[1]])
        self.seen["claimed"] = claimed
        self.seen["last cursor"] = cursor.decode()
        self.seen["delivered again"] = await self.deliveries()
        rest = self.added[3:]
        await settle(self.reader.xack(self.key, "workers", *rest))
        self.seen["left"] = (await settle(self.reader.xpending(self.key, "workers")))["pending"]

    async def ranges(self) -> None:
        whole = await settle(self.reader.xrange(self.key))
        self.seen["range"] = [shown(entry) for entry in whole]
        newest = await settle(self.reader.xrevrange(self.key, count=1))
        self.seen["newest"] = [shown(entry) for entry in newest]
        self.seen["length"] = await settle(self.reader.xlen(self.key))

    async def time_out(self) -> None:
        begun = time.monotonic()
        of_group = await self.read_group(block=200)
        of_stream = await settle(self.reader.xread({self.key: "$"}, block=200))
        waited = time.monotonic() - begun > 0.38
        self.seen["timed out"] = waited and not of_group and not of_stream

    async def scan(self) -> None:
        found = self.reader.scan_iter(match="scanned:*", count=10)
        keys = [key async for key in found] if hasattr(found, "__aiter__") else list(found)
        self.seen["scanned"] = len(keys)
        self.seen["distinct"] = len(set(keys))

    async def reconnect(self) -> None:
        number = await settle(self.reader.client_id())
        other = self.connect(self.reader_port)
        self.seen["killed"] = await settle(other.client_kill_filter(_id=number))
        for _ in range(50):
            try:
                self.seen["length after the kill"] = await settle(self.reader.xlen(self.key))
                return
            except redis.RedisError:
                await asyncio.sleep(0.1)
