"""promtool accepts the deployed rules, and the tests change nothing but their times."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.alerts.conditions import CONDITIONS
from tests.alerts.prometheus import HOLDS_FOR, LAG_S, RULES, WINDOW, faster, program, rules
from tests.deploy.files import DEPLOY

pytestmark = pytest.mark.alerts


def accepted(kind: str, path: Path) -> str:
    """What promtool says of a file of this kind, which it must accept."""
    line = [program("promtool"), "check", kind, str(path)]
    ended = subprocess.run(line, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def test_promtool_accepts_the_rules() -> None:
    assert f"SUCCESS: {len(rules())} rules found" in accepted("rules", RULES)


def test_promtool_accepts_the_configuration() -> None:
    accepted("config", DEPLOY / "prometheus" / "prometheus.yml")


def test_promtool_accepts_the_relabelling_of_pods(tmp_path: Path) -> None:
    """Debian's Prometheus knows no Kubernetes, so the pods are replaced by a fixed target."""
    table = yaml.safe_load((DEPLOY / "prometheus" / "kubernetes.yml").read_text(encoding="utf-8"))
    (job,) = table["scrape_configs"]
    assert job.pop("kubernetes_sd_configs") == [{"role": "pod"}]
    job["static_configs"] = [{"targets": ["us:7200"]}]
    path = tmp_path / "kubernetes.yml"
    path.write_text(yaml.safe_dump({"scrape_configs": [job]}), encoding="utf-8")
    accepted("config", path)


def test_every_alert_has_a_condition() -> None:
    assert {alert for alert, _ in CONDITIONS} == {rule["alert"] for rule in rules()}


def test_only_times_are_changed() -> None:
    changed = set()
    for rule in rules():
        quick = faster(rule)
        assert {**quick, "expr": "", "for": ""} == {**rule, "expr": "", "for": ""}
        assert quick.get("for") in (None, HOLDS_FOR)
        undone = quick["expr"].replace(WINDOW, "[]")
        undone = re.sub(rf"_seconds > {LAG_S}$", "_seconds > 300", undone)
        assert undone == re.sub(r"\[\w+\]", "[]", rule["expr"])
        if quick["expr"] != rule["expr"]:
            changed.add(rule["alert"])
    assert "AnabranchBehindForLong" in changed and "AnabranchClockAhead" not in changed
    assert yaml.safe_dump([faster(rule) for rule in rules()])
