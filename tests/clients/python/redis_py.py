"""redis-py: `python redis_py.py resp2|resp3|asyncio WRITER-PORT READER-PORT` prints JSON."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import redis
import redis.asyncio
from scenario import Scenario


def connect(kind: str, port: int) -> Any:
    """A client with the defaults of the library, except the version of the protocol."""
    if kind == "asyncio":
        return redis.asyncio.Redis(port=port)
    return redis.Redis(port=port, protocol=int(kind[-1]))


async def main(kind: str, writer: int, reader: int) -> None:
    seen = await Scenario(
        lambda port: connect(kind, port), f"redis-py {kind}", writer, reader
    ).run()
    print(json.dumps({"library": f"redis-py {redis.__version__}", **seen}))


asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
