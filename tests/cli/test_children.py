"""Child processes of a test process in which gRPC runs."""

from __future__ import annotations

import asyncio
import subprocess
import sys

from grpc import aio

CHILDREN = 80


def prepare() -> None:
    """Makes `subprocess` fork a child that runs Python code before it becomes a program."""


async def test_children_end_well_while_grpc_runs() -> None:
    """One child in four was aborted ("Epoll1Poller encountered epoll_wait error").

    In the child, gRPC started its threads again, and `subprocess` closed their files. The tests
    of full disks failed now and then, after tests of regions in the same process.
    """
    server = aio.server()
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    channels = [aio.insecure_channel(f"127.0.0.1:{port}") for _ in range(4)]
    try:
        for channel in channels:
            await asyncio.wait_for(channel.channel_ready(), 10)
        for _ in range(CHILDREN):
            child = subprocess.run([sys.executable, "-c", ""], preexec_fn=prepare, timeout=60)
            await asyncio.sleep(0)
            assert child.returncode == 0
    finally:
        for channel in channels:
            await channel.close()
        await server.stop(None)
