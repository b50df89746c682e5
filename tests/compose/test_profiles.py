"""The files as each version of compose reads them, and the profiles with third-party images.

An image that cannot be pulled leaves out its own test, which names the image. Nothing else is left
out.
"""

from __future__ import annotations

import json
import os
import urllib.request
from collections.abc import Callable

import pytest
import yaml

from anabranch.cluster.ports import free_ports
from tests.compose.engine import Engine
from tests.compose.project import PATIENCE_S, Project
from tests.deploy.files import compose
from tests.support.processes import eventually

pytestmark = [pytest.mark.compose, pytest.mark.timeout(3600)]


def test_each_version_of_compose_reads_the_file_alike(engine: Engine) -> None:
    """Both v1 and v2, where they are installed, read what the file says."""
    expected = compose()["services"]
    project = Project(engine, "anabranch-test-read", {})
    versions = engine.composes()
    assert versions
    for version in versions:
        parsed = yaml.safe_load(project.configuration(version, "metrics", "spark"))
        assert set(parsed["services"]) == set(expected), version
        for name, service in parsed["services"].items():
            networks = set(service.get("networks", []))
            assert networks == set(expected[name].get("networks", [])), name
            assert service["image"] == expected[name]["image"]
            for key in ("init", "read_only", "restart", "cap_drop", "environment"):
                assert service.get(key) == expected[name].get(key), (version, name, key)


def test_without_a_profile_only_the_cluster_runs(cluster: Project) -> None:
    assert cluster.services() == {"certificates", "us", "eu", "ap", "toxiproxy", "console"}


def test_compose_builds_the_image_that_was_built(
    cluster: Project, base_image: str, image: str
) -> None:
    """The build of compose.yaml is that of the Dockerfile: every step is in the builder's cache.

    Compose v2 adds labels of its own, so the layers are compared.
    """
    layers = ("image", "inspect", "--format", "{{.RootFS.Layers}}", image)
    before = cluster.engine.run(*layers)
    cluster.compose(
        *("build", "us"),
        patience_s=1200,
        environment={"ANABRANCH_BASE_IMAGE": base_image, "ANABRANCH_BUILD_NETWORK": "host"},
    )
    assert cluster.engine.run(*layers) == before


@pytest.fixture
def with_image(engine: Engine) -> Callable[[str], str]:
    """Gives the image of a service, and leaves the test out, by name, if it cannot be had."""

    def need(service: str) -> str:
        variable = f"ANABRANCH_{service.partition('-')[0].upper()}_IMAGE"
        named = os.environ.get(variable) or str(compose()["services"][service]["image"])
        if not engine.can_pull(named):
            pytest.skip(f"LEFT OUT: {service}, because the image {named} cannot be pulled here")
        return named

    return need


def fetch(url: str) -> str:
    """A page of a published port."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=30) as answer:
        return str(answer.read().decode())


def test_prometheus_scrapes_every_region(
    cluster: Project, with_image: Callable[[str], str]
) -> None:
    with_image("prometheus")
    port = str(free_ports(1)[0])
    cluster.up("prometheus", environment={"ANABRANCH_PROMETHEUS_PORT": port})
    try:

        def scraped() -> bool:
            table = json.loads(fetch(f"http://127.0.0.1:{port}/api/v1/query?query=up"))
            return sorted(
                (row["metric"]["region"], row["value"][1]) for row in table["data"]["result"]
            ) == [("ap", "1"), ("eu", "1"), ("us", "1")]

        eventually(scraped, PATIENCE_S, "Prometheus scraping the regions", 0.5)
        rules = json.loads(fetch(f"http://127.0.0.1:{port}/api/v1/rules"))
        assert len(rules["data"]["groups"][0]["rules"]) > 10
    finally:
        cluster.compose("rm", "-s", "-f", "prometheus")


def test_grafana_shows_the_dashboard(cluster: Project, with_image: Callable[[str], str]) -> None:
    with_image("grafana")
    port = str(free_ports(1)[0])
    cluster.up("grafana", environment={"ANABRANCH_GRAFANA_PORT": port})
    try:
        eventually(
            lambda: "anabranch" in fetch(f"http://127.0.0.1:{port}/api/dashboards/uid/anabranch"),
            PATIENCE_S,
            "Grafana showing the dashboard",
            0.5,
        )
    finally:
        cluster.compose("rm", "-s", "-f", "grafana")


def test_spark_has_two_workers(cluster: Project, with_image: Callable[[str], str]) -> None:
    with_image("spark-master")
    ports = map(str, free_ports(2))
    environment = dict(
        zip(("ANABRANCH_SPARK_PORT", "ANABRANCH_SPARK_HTTP_PORT"), ports, strict=True)
    )
    workers = ["spark-worker-1", "spark-worker-2"]
    cluster.up("spark-master", *workers, environment=environment)
    try:
        page = f"http://127.0.0.1:{environment['ANABRANCH_SPARK_HTTP_PORT']}/json/"
        eventually(
            lambda: json.loads(fetch(page))["aliveworkers"] == 2,
            PATIENCE_S,
            "two Spark workers being alive",
            0.5,
        )
    finally:
        cluster.compose("rm", "-s", "-f", "spark-master", *workers)
