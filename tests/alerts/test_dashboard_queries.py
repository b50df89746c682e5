"""Each query of the dashboard of deploy/ has an answer in a Prometheus that watches regions."""

from __future__ import annotations

import re
import time
from contextlib import suppress

import pytest
import redis

from tests.alerts.world import NAMES, PATIENCE_S, World
from tests.deploy.test_metrics_files import dashboard

pytestmark = [pytest.mark.alerts, pytest.mark.live, pytest.mark.timeout(600)]

# The variables of Grafana, as it fills them in for all regions and for a short time range.
VARIABLES = {"$region": ".*", "$__rate_interval": "10s"}


def queries() -> dict[str, str]:
    """Every query by its place in the dashboard, with the variables filled in."""
    board = dashboard()
    found = {
        f"{panel['title']} {target['refId']}": target["expr"]
        for panel in board["panels"]
        for target in panel.get("targets", [])
    }
    found |= {one["name"]: one["expr"] for one in board["annotations"]["list"]}
    for one in board["templating"]["list"]:
        metric = re.fullmatch(r"label_values\((\w+), region\)", one["definition"])
        assert metric is not None, one["definition"]
        found[f"variable {one['name']}"] = f"count by (region) ({metric[1]})"
    for variable, value in VARIABLES.items():
        found = {name: query.replace(variable, value) for name, query in found.items()}
    assert not any("$" in query for query in found.values())
    return found


def use(world: World) -> None:
    """Uses the regions, so that every figure has a value."""
    for name in NAMES:
        world.add(name, f"s{name}")
        with suppress(redis.exceptions.ResponseError):
            world.call(name, "NOSUCH")


def answers(world: World, query: str, regions: set[str]) -> bool:
    """Whether a query has a series of each of the regions, or, if it adds them up, any."""
    series = [one["metric"] for one in world.prometheus.query(query)]
    if "by (" in query and "region" not in query.partition("by (")[2].partition(")")[0]:
        return bool(series)
    return {labels["region"] for labels in series} >= regions


def test_every_query_has_an_answer_for_every_region(world: World) -> None:
    world.start()
    world.restart("ap")  # The dashboard marks starts.
    missing = queries()
    assert len(missing) > 45
    deadline_s = time.monotonic() + PATIENCE_S
    while missing and time.monotonic() < deadline_s:
        use(world)
        for name, query in list(missing.items()):
            if answers(world, query, {"ap"} if name == "Starts of a region" else set(NAMES)):
                del missing[name]
        world.prometheus.await_evaluations(1)
    assert missing == {}
