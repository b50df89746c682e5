"""go-redis, redigo, rueidis and Watermill."""

from __future__ import annotations

import pytest

from tests.clients.programs import Servers, check, installed, run

pytestmark = [pytest.mark.clients, pytest.mark.live]


def program(library: str) -> list[str]:
    installed(".go", target="Go 1.26 or later")
    return [str(installed("go", "clients", target="Go 1.26 or later")), library]


@pytest.mark.parametrize("library", ["go-redis v9.23.0", "redigo v1.9.3", "rueidis v1.0.79"])
def test_go(library: str, servers: Servers) -> None:
    check(run(program(library.split()[0]), servers), servers, library)


def test_watermill(servers: Servers) -> None:
    messages = [f"ff{str(n).encode().hex()}" for n in range(10)]
    assert run(program("watermill"), servers) == {
        "library": "watermill v1.4.5",
        "handled": messages,
        "fanned out": messages,
        "left": 0,
    }
