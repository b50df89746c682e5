"""compose.yaml, toxiproxy.json and cluster.toml describe the same cluster."""

from __future__ import annotations

import json
import re
import tomllib
from itertools import combinations, permutations
from typing import Any

from anabranch.cli.addresses import read_file
from anabranch.cli.console import DEFAULT_LISTEN, DEFAULT_PORT
from anabranch.cli.up import DEFAULT_REGIONS, plan
from anabranch.region.config import known_options, load
from tests.deploy.files import COMPOSE, DEPLOY, compose, published, regions

# The variables that the image sets.
IMAGE = dict(
    re.findall(r"(ANABRANCH_\w+)=(\S+)", (DEPLOY / "Dockerfile").read_text(encoding="utf-8"))
)


def proxies() -> dict[str, dict[str, Any]]:
    """The proxies of toxiproxy.json, by name."""
    rows = json.loads((DEPLOY / "toxiproxy.json").read_text(encoding="utf-8"))
    return {row["name"]: row for row in rows}


def test_two_regions_share_no_network() -> None:
    found = regions()
    assert list(found) == ["us", "eu", "ap"]
    for one, other in combinations(found.values(), 2):
        assert not set(one["networks"]) & set(other["networks"])


def test_toxiproxy_alone_joins_the_internal_networks() -> None:
    parsed = compose()
    internal = {name for name, network in parsed["networks"].items() if network.get("internal")}
    assert internal == set(regions())
    for name in internal:
        services = parsed["services"].items()
        joined = {other for other, one in services if name in one.get("networks", [])}
        assert joined == {name, "toxiproxy"}


def test_each_direction_has_a_proxy() -> None:
    assert set(proxies()) == {f"{one}-to-{other}" for one, other in permutations(regions(), 2)}
    for name, proxy in proxies().items():
        sender = name.partition("-to-")[0]
        sync = "7100"  # ANABRANCH_SYNC of the image
        assert proxy["upstream"] == f"{sender}:{sync}" and proxy["enabled"]
        assert proxy["listen"].startswith("0.0.0.0:")
    assert len({proxy["listen"] for proxy in proxies().values()}) == len(proxies())


def test_each_region_dials_the_proxies_that_lead_to_it() -> None:
    for name, service in regions().items():
        peers = service["environment"]["ANABRANCH_PEER"].split(",")
        expected = {
            f"{sender}@toxiproxy:{proxies()[f'{sender}-to-{name}']['listen'].rpartition(':')[2]}"
            for sender in regions()
            if sender != name
        }
        assert set(peers) == expected


def test_the_environment_is_a_configuration() -> None:
    for name, service in regions().items():
        environment = {**IMAGE, **service["environment"]}
        options = {key.removeprefix("ANABRANCH_").lower().replace("_", "-") for key in environment}
        assert options <= set(known_options())
        config = load({}, environment)
        assert config.name == name and config.warnings == []
        assert [str(config.resp), str(config.sync), str(config.http), str(config.data)] == [
            "0.0.0.0:6379",
            "0.0.0.0:7100",
            "0.0.0.0:7200",
            "/data",
        ]
        assert service["volumes"] == [f"{name}-data:/data", f"{name}-certificates:/certificates:ro"]
        assert config.settings.text("sync-tls") == "required"


def test_ports_are_those_of_anabranch_up() -> None:
    """Only on loopback, because neither clients nor /metrics nor toxiproxy ask for a password."""
    for place in plan(DEFAULT_REGIONS, 7001, 7101, 7201):
        ports = published(regions()[place.name])
        assert ports == {6379: place.resp, 7200: place.http}
    for service in compose()["services"].values():
        for outside in published(service).values() if "ports" in service else ():
            assert outside.startswith("127.0.0.1:")


def test_cluster_toml_names_the_published_ports() -> None:
    path = DEPLOY / "cluster.toml"
    members = next(iter(regions().values()))["environment"]["ANABRANCH_MEMBERS"]
    places = read_file(path)
    assert ",".join(f"{place.name}={place.region_id}" for place in places) == members
    for place in places:
        assert published(regions()[place.name]) == {6379: place.resp, 7200: place.http}
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    assert table["toxiproxy"] == {"api": published(compose()["services"]["toxiproxy"])[8474]}
    assert table["cluster"] == next(iter(regions().values()))["environment"]["ANABRANCH_CLUSTER"]


def test_the_console_reaches_all_of_the_cluster() -> None:
    service = compose()["services"]["console"]
    for region in regions().values():
        assert set(region["networks"]) & set(service["networks"])
    places = read_file(DEPLOY / "console.toml")
    assert [place.resp for place in places] == [f"{name}:6379" for name in regions()]
    outside = read_file(DEPLOY / "cluster.toml")
    assert [(one.name, one.region_id) for one in places] == [
        (one.name, one.region_id) for one in outside
    ]
    table = tomllib.loads((DEPLOY / "console.toml").read_text(encoding="utf-8"))
    assert table["toxiproxy"] == {"api": "toxiproxy:8474"}
    assert published(service) == {DEFAULT_PORT: DEFAULT_LISTEN}
    assert f"--listen=0.0.0.0:{DEFAULT_PORT}" in service["command"]
    assert f"--url=http://{DEFAULT_LISTEN}" in service["command"]
    assert service["environment"] == {
        "ANABRANCH_HTTP": f"0.0.0.0:{DEFAULT_PORT}",
        "ANABRANCH_CONSOLE_TOKEN": "",
    }


def test_containers_of_regions_are_locked_down() -> None:
    for service in (*regions().values(), *map(compose()["services"].get, ("toxiproxy", "console"))):
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]


def test_every_image_can_be_replaced() -> None:
    images = re.findall(r"^ +image: (.*)", COMPOSE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(images) == 5
    for image in images:
        assert re.fullmatch(r"\$\{ANABRANCH_\w*IMAGE:-[\w./-]+:[\w.-]+\}", image), image


def test_profiles() -> None:
    found: dict[str, set[str]] = {}
    for name, service in compose()["services"].items():
        for profile in service.get("profiles", [""]):
            found.setdefault(profile, set()).add(name)
    assert found == {
        "": {"certificates", "us", "eu", "ap", "toxiproxy", "console"},
        "metrics": {"prometheus", "grafana"},
        "spark": {"spark-master", "spark-worker-1", "spark-worker-2"},
    }


def test_mounted_files_exist() -> None:
    for service in compose()["services"].values():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            if source.startswith("."):
                assert (DEPLOY / source).exists(), source
                assert volume.endswith(":ro"), volume
            else:
                assert source in compose()["volumes"]


def test_t12_clients_of_published_ports_are_served() -> None:
    """They do not come over loopback: protected mode would refuse them without a password."""
    for service in regions().values():
        settings = load({}, {**IMAGE, **service["environment"]}).settings
        assert settings.text("protected-mode") == "no" or settings.text("requirepass") != ""
