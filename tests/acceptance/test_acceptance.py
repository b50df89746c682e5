"""Small versions of the acceptance programs: equal histories in seconds, without time limits."""

from __future__ import annotations

import pytest

from anabranch.bench.acceptance import damaged_files, malformed_peers, many_clients, stable_delay

pytestmark = pytest.mark.live


def test_stable_time_is_measured() -> None:
    assert stable_delay.measure(10, 100, 1.0, None).failures == []


@pytest.mark.parametrize("is_alone", [False, True], ids=["peers", "alone"])
def test_damaged_files(is_alone: bool) -> None:
    assert damaged_files.try_all(4, 2, 1, is_alone, entries=300).failures == []


def test_malformed_messages_of_peers() -> None:
    assert malformed_peers.attack(400, 1, None).failures == []


def test_idle_and_slow_clients() -> None:
    assert many_clients.run(200, 20, 30, limits=False).failures == []
