"""A Prometheus server as a process, with the deployed alert rules at a faster pace."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from anabranch.cluster.ports import free_ports
from anabranch.cluster.processes import end
from tests.deploy.files import DEPLOY
from tests.support.processes import eventually

RULES: Final = DEPLOY / "prometheus" / "alerts.yml"
# The pace of the tests: seconds between two scrapes and between two evaluations, the time for which
# a condition must hold, and the window of `increase`.
INTERVAL: Final = "1s"
HOLDS_FOR: Final = "1s"
WINDOW: Final = "[10s]"
# A lag in time that an alert tolerates is shortened like the other times.
LAG_S: Final = "3"
_LAG: Final = re.compile(r"(lag|behind)_seconds > \d+$")

_START_PATIENCE_S: Final = 60.0
# Requests go to this machine, whatever proxy the environment names.
_opener: Final = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def program(name: str) -> str:
    """The path of prometheus or promtool, beside this Python or on PATH; else the test fails."""
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which(name)
    if found is None:
        pytest.fail(
            f"this test needs {name}, which is neither beside {sys.executable} nor on PATH:"
            " `make prometheus` fetches it, or install Prometheus 2.42 or later"
        )
    return found


def rules() -> list[dict[str, Any]]:
    """The deployed alert rules."""
    table = yaml.safe_load(RULES.read_text(encoding="utf-8"))
    return [rule for group in table["groups"] for rule in group["rules"]]


def faster(rule: dict[str, Any]) -> dict[str, Any]:
    """A rule at the pace of the tests: only times are changed, never a metric or a count."""
    changed = dict(rule)
    if "for" in rule:
        changed["for"] = HOLDS_FOR
    expression = re.sub(r"\[\d+[smh]\]", WINDOW, rule["expr"])
    changed["expr"] = _LAG.sub(rf"\1_seconds > {LAG_S}", expression)
    return changed


class Prometheus:
    """A server that scrapes regions of this machine and evaluates the deployed rules."""

    def __init__(self, directory: Path) -> None:
        self._directory: Final = directory
        self._log: Final = directory / "prometheus.log"
        self._port = 0
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, targets: dict[str, int]) -> None:
        """Starts the server; `targets` maps each region to its HTTP port. Waits for all of them."""
        self._directory.mkdir(parents=True)
        (self._port,) = free_ports(1)
        self._write("rules.yml", {"groups": [{"name": "t", "rules": [*map(faster, rules())]}]})
        static = [
            {"targets": [f"127.0.0.1:{port}"], "labels": {"region": name}}
            for name, port in targets.items()
        ]
        pace = {"scrape_interval": INTERVAL, "evaluation_interval": INTERVAL}
        self._write(
            "prometheus.yml",
            {
                "global": {**pace, "scrape_timeout": INTERVAL},
                "rule_files": ["rules.yml"],
                "scrape_configs": [{"job_name": "anabranch", "static_configs": static}],
            },
        )
        line = [program("prometheus"), f"--config.file={self._directory / 'prometheus.yml'}"]
        line += [f"--storage.tsdb.path={self._directory / 'data'}", "--log.level=warn"]
        line += [f"--web.listen-address=127.0.0.1:{self._port}"]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        eventually(
            lambda: len(self.query("up == 1")) == len(targets),
            _START_PATIENCE_S,
            f"Prometheus scraping every region (its log: {self._log})",
        )
        self.await_evaluations(2)

    def stop(self) -> None:
        """Ends the server."""
        if self._process is not None:
            end(self._process)

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The series of an expression now, each with `metric` (labels) and `value`.

        Raises AssertionError, with Prometheus's words, if it refuses the expression.
        """
        answer = self._get("query", query=expression)
        assert answer["status"] == "success", f"{expression}: {answer}"
        series: list[dict[str, Any]] = answer["data"]["result"]
        return series

    def firing(self, alert: str = "") -> list[dict[str, str]]:
        """The labels of every instance that fires, of one alert or of all."""
        return [
            one["labels"]
            for one in self._get("alerts")["data"]["alerts"]
            if one["state"] == "firing" and alert in ("", one["labels"]["alertname"])
        ]

    def await_evaluations(self, count: int) -> None:
        """Waits until the rules were evaluated `count` more times."""
        for _ in range(count):
            before = self._last_evaluation()
            eventually(lambda: self._last_evaluation() != before, 60, "an evaluation of the rules")  # noqa: B023

    def _last_evaluation(self) -> str:
        (group,) = self._get("rules")["data"]["groups"]
        assert all(rule["health"] != "err" for rule in group["rules"]), group
        return str(group["lastEvaluation"])

    def _get(self, page: str, **parameters: str) -> dict[str, Any]:
        url = f"http://127.0.0.1:{self._port}/api/v1/{page}?{urllib.parse.urlencode(parameters)}"
        try:
            with _opener.open(url, timeout=30) as answer:
                found: dict[str, Any] = json.load(answer)
        except urllib.error.HTTPError as error:
            found = json.load(error)
        return found

    def _write(self, name: str, table: dict[str, Any]) -> None:
        (self._directory / name).write_text(yaml.safe_dump(table), encoding="utf-8")
