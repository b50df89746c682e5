"""Jedis, Lettuce and Redisson."""

from __future__ import annotations

import pytest

from tests.clients.programs import INSTALLED, Servers, check, installed, run

pytestmark = [pytest.mark.clients, pytest.mark.live]


@pytest.mark.parametrize(
    "library", ["jedis 7.0.0", "lettuce-core 6.8.1.RELEASE", "redisson 3.50.0"]
)
def test_java(library: str, servers: Servers) -> None:
    installed(".java", target="javac and mvn")
    folder = INSTALLED / "java"
    path = f"{folder / 'classes'}:{folder / 'lib'}/*"
    check(run(["java", "-cp", path, "Scenario", library.split()[0]], servers), servers, library)
