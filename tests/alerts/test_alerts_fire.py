"""Each alert of deploy/ fires in its condition, in a real Prometheus, and is silent otherwise."""

from __future__ import annotations

import pytest

from tests.alerts.conditions import CONDITIONS, Condition
from tests.alerts.world import World

pytestmark = [pytest.mark.alerts, pytest.mark.live, pytest.mark.timeout(600)]


def name_of(one: str | Condition) -> str:
    """The name of a parameter of `test_alert`."""
    return one if isinstance(one, str) else one.__name__


@pytest.mark.parametrize(("alert", "condition"), CONDITIONS, ids=name_of)
def test_alert(world: World, alert: str, condition: Condition) -> None:
    world.start()
    world.await_silence(alert)
    produced = condition(world)
    labels = next(produced)
    world.await_firing(alert, labels)
    assert next(produced, None) is None
    world.await_silence(alert)


def test_a_healthy_cluster_is_silent(world: World) -> None:
    """It serves, is written to in every region, and nothing is wrong with it."""
    world.start()
    for _ in range(10):
        for name in ("us", "eu", "ap"):
            world.add(name, count=50)
        world.prometheus.await_evaluations(1)
    assert world.prometheus.firing() == []
