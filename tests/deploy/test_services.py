"""The Kubernetes manifest fits its schemas and is consistent, and systemd accepts the unit."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from anabranch.region.config import IDENTITY, known_options
from anabranch.region.option_values import parse_members
from tests.deploy.files import DEPLOY

OBJECTS: list[dict[str, Any]] = list(
    yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text(encoding="utf-8"))
)
SETS = {one["metadata"]["name"]: one for one in OBJECTS if one["kind"] == "StatefulSet"}
SERVICES = {one["metadata"]["name"]: one for one in OBJECTS if one["kind"] == "Service"}


def cluster() -> dict[str, str]:
    """The options that all regions share."""
    (one,) = [one["data"] for one in OBJECTS if one["kind"] == "ConfigMap"]
    data: dict[str, str] = one
    return data


@pytest.mark.parametrize("one", OBJECTS, ids=lambda one: f"{one['kind']}-{one['metadata']['name']}")
def test_objects_fit_their_schema(one: dict[str, Any]) -> None:
    kubernetes_validate.validate(one, kubernetes_validate.latest_version(), strict=True)


def test_the_schema_check_finds_a_wrong_field() -> None:
    wrong = {**SERVICES["us"], "spec": {**SERVICES["us"]["spec"], "portz": []}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, kubernetes_validate.latest_version(), strict=True)


def test_each_member_has_a_set_and_services() -> None:
    members = set(parse_members(cluster()["ANABRANCH_MEMBERS"]))
    assert set(SETS) == members
    assert set(SERVICES) == members | {f"{name}-sync" for name in members}
    for name, one in SETS.items():
        assert one["spec"]["replicas"] == 1
        pod = one["spec"]["template"]["metadata"]["labels"]
        assert one["spec"]["selector"]["matchLabels"] == pod
        for service in (SERVICES[name], SERVICES[f"{name}-sync"]):
            assert service["spec"]["selector"] == pod
        assert one["spec"]["serviceName"] == f"{name}-sync"


def test_regions_dial_the_services_of_the_others() -> None:
    for name, one in SETS.items():
        (container,) = one["spec"]["template"]["spec"]["containers"]
        environment = {row["name"]: row["value"] for row in container["env"]}
        variables = {**environment, **cluster()}
        options = {key.removeprefix("ANABRANCH_").lower().replace("_", "-") for key in variables}
        assert options <= set(known_options())
        assert environment["ANABRANCH_NAME"] == name
        assert environment["ANABRANCH_PEER"].split(",") == [
            f"{other}@{other}-sync:7100" for other in SETS if other != name
        ]


def test_a_region_in_recovery_is_reached_by_others_and_not_restarted() -> None:
    for name, one in SETS.items():
        assert SERVICES[f"{name}-sync"]["spec"]["publishNotReadyAddresses"] is True
        (container,) = one["spec"]["template"]["spec"]["containers"]
        assert container["readinessProbe"]["httpGet"]["path"] == "/health"
        assert (
            "tcpSocket" in container["livenessProbe"] and "tcpSocket" in container["startupProbe"]
        )


def test_unit_sets_the_data_directory_and_leaves_the_rest_to_the_file() -> None:
    text = (DEPLOY / "anabranch@.service").read_text(encoding="utf-8")
    assert "Environment=ANABRANCH_DATA=/var/lib/anabranch/%i" in text
    assert "StateDirectory=anabranch/%i" in text
    assert "LoadCredential=%i.toml:/etc/anabranch/%i.toml" in text
    assert "serve --config ${CREDENTIALS_DIRECTORY}/%i.toml" in text
    # Exit code 2 is a mistake in the configuration (`UsageError`), 3 an error that came back at one
    # place of the log (`GivenUp`).
    assert "RestartPreventExitStatus=2 3\n" in text
    named = {"cluster", "members", "name", "resp", "sync", "http", "data"}
    assert named < set(IDENTITY)


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    """systemd names unknown directives and wrong values on its error output."""
    verify = shutil.which("systemd-analyze")
    if verify is None:
        pytest.skip("systemd-analyze is not installed")
    text = (DEPLOY / "anabranch@.service").read_text(encoding="utf-8")
    unit = tmp_path / "anabranch@.service"
    # The program must exist where the unit is checked.
    unit.write_text(text.replace("/opt/anabranch/bin/anabranch", sys.executable))
    assert _complaints(verify, unit) == ""
    unit.write_text(unit.read_text() + "\n[Service]\nRestartt=no\n")
    assert "Restartt" in _complaints(verify, unit)


def _complaints(verify: str, unit: Path) -> str:
    """What systemd says of this unit; lines about other units of the machine are left out."""
    result = subprocess.run(
        [verify, "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False
    )
    return "".join(line for line in result.stderr.splitlines(keepends=True) if unit.name in line)
