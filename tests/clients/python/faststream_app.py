"""FastStream: `python faststream_app.py WRITER-PORT READER-PORT` prints JSON.

An application publishes in one region. In the other, a consumer of a group handles the messages. In
a second group the handler of one consumer fails, and another consumer claims what it left.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
from importlib.metadata import version

from faststream import AckPolicy
from faststream.redis import RedisBroker, StreamSub

STREAM = "clients:faststream"
COUNT = 20


class Handlers:
    """The numbers of the messages that each handler got."""

    def __init__(self, broker: RedisBroker) -> None:
        self.handled: list[int] = []
        self.failed: list[int] = []
        self.claimed: list[int] = []

        @broker.subscriber(stream=StreamSub(STREAM, group="plain", consumer="ann"))
        async def handle(message: dict[str, int]) -> None:
            self.handled.append(message["number"])

        @broker.subscriber(
            stream=StreamSub(STREAM, group="failing", consumer="ann"),
            ack_policy=AckPolicy.NACK_ON_ERROR,
        )
        async def fail(message: dict[str, int]) -> None:
            self.failed.append(message["number"])
            raise ValueError("this handler fails on purpose")

        @broker.subscriber(
            stream=StreamSub(STREAM, group="failing", consumer="bob", min_idle_time=500)
        )
        async def claim(message: dict[str, int]) -> None:
            self.claimed.append(message["number"])

    def complete(self) -> bool:
        return min(map(len, (self.handled, self.failed, self.claimed))) >= COUNT


async def main(writer: int, reader: int) -> None:
    logging.disable(logging.CRITICAL)
    consuming = RedisBroker(f"redis://127.0.0.1:{reader}")
    publishing = RedisBroker(f"redis://127.0.0.1:{writer}")
    handlers = Handlers(consuming)
    await consuming.start()
    await publishing.connect()
    for number in range(COUNT):
        await publishing.publish({"number": number}, stream=STREAM)
    deadline = time.monotonic() + 40
    while not handlers.complete() and time.monotonic() < deadline:
        await asyncio.sleep(0.1)
    await consuming.stop()
    await publishing.stop()
    seen = {
        "library": f"faststream {version('faststream')}",
        "handled": sorted(handlers.handled),
        "failed": sorted(handlers.failed),
        "claimed": sorted(handlers.claimed),
    }
    print(json.dumps(seen))


asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
