"""redis-py with both protocols and with asyncio, and FastStream."""

from __future__ import annotations

import pytest

from tests.clients.programs import SOURCES, Servers, check, installed, run

pytestmark = [pytest.mark.clients, pytest.mark.live]


def program(name: str, *arguments: str) -> list[str]:
    python = installed("python", "bin", "python", target="a Python with venv")
    return [str(python), str(SOURCES / "python" / name), *arguments]


@pytest.mark.parametrize("kind", ["resp2", "resp3", "asyncio"])
def test_redis_py(kind: str, servers: Servers) -> None:
    check(run(program("redis_py.py", kind), servers), servers, "redis-py 8.1.0")


def test_faststream(servers: Servers) -> None:
    numbers = list(range(20))
    assert run(program("faststream_app.py"), servers) == {
        "library": "faststream 0.7.8",
        "handled": numbers,
        "failed": numbers,
        "claimed": numbers,
    }
