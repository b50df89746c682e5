"""promtool accepts the deployed rules, and the tests change nothing but their times."""

from __future__ import annotations

import re
import subprocess

import pytest
import yaml

from tests.alerts.conditions import CONDITIONS
from tests.alerts.prometheus import HOLDS_FOR, LAG_S, RULES, WINDOW, faster, program, rules
from tests.deploy.files import DEPLOY

pytestmark = pytest.mark.alerts


def test_promtool_accepts_the_rules() -> None:
    ended = subprocess.run(
        [program("promtool"), "check", "rules", str(RULES)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert f"SUCCESS: {len(rules())} rules found" in ended.stdout


def test_promtool_accepts_the_configuration() -> None:
    path = DEPLOY / "prometheus" / "prometheus.yml"
    ended = subprocess.run(
        [program("promtool"), "check", "config", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


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
