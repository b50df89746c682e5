"""node-redis 5 and 4, and ioredis."""

from __future__ import annotations

import pytest

from tests.clients.programs import INSTALLED, SOURCES, Servers, check, installed, run

pytestmark = [pytest.mark.clients, pytest.mark.live]


@pytest.mark.parametrize(
    "program, variant, library",
    [
        ("node_redis.js", "5", "node-redis 5.12.1"),
        ("node_redis.js", "4", "node-redis 4.7.1"),
        ("ioredis.js", "plain", "ioredis 6.0.0"),
        ("ioredis.js", "autopipelining", "ioredis 6.0.0"),
    ],
)
def test_node(program: str, variant: str, library: str, servers: Servers) -> None:
    installed(".node", target="Node.js and npm")
    modules = str(INSTALLED / "node" / "node_modules")
    line = ["node", str(SOURCES / "node" / program), variant]
    check(run(line, servers, NODE_PATH=modules), servers, library)
