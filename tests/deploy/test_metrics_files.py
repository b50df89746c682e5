"""Every metric that Prometheus's alerts and Grafana's dashboard name is one of a region."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml

from anabranch.region.engine.figures.figure import HISTOGRAM
from anabranch.region.engine.figures.state_rows import STATES
from anabranch.region.engine.figures.table import ALL, figures
from anabranch.region.engine.settings import BY_NAME
from tests.deploy.files import DEPLOY, compose, regions
from tests.support.engines import single

# Metrics of Prometheus itself.
OF_PROMETHEUS = {"up"}
FUNCTIONS = {"rate", "increase", "resets", "sum", "histogram_quantile"}
# Labels of regions, and those that prometheus.yml and kubernetes.yml add.
LABELS = {"region", "job", "le"} | {label for row in ALL for label in row.labels}
METRICS = {row.name for row in ALL if row.kind != HISTOGRAM} | {
    row.name + suffix
    for row in ALL
    if row.kind == HISTOGRAM
    for suffix in ("_bucket", "_sum", "_count")
}


def alerts() -> list[dict[str, Any]]:
    """The alert rules."""
    table = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text(encoding="utf-8"))
    return [rule for group in table["groups"] for rule in group["rules"]]


def dashboard() -> dict[str, Any]:
    """The dashboard."""
    path = DEPLOY / "grafana" / "dashboards" / "anabranch.json"
    table: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return table


def queries() -> list[str]:
    """Every expression of the alerts and of the dashboard."""
    board = dashboard()
    found = [rule["expr"] for rule in alerts()]
    found += [target["expr"] for panel in board["panels"] for target in panel.get("targets", [])]
    found += [one["expr"] for one in board["annotations"]["list"]]
    found += [
        re.sub(r"label_values\((\w+), region\)", r"\1", one["definition"])
        for one in board["templating"]["list"]
    ]
    return found


def unknown(query: str) -> set[str]:
    """The names in an expression that are no metric, label or state of a region."""
    known = METRICS | OF_PROMETHEUS
    braces = re.findall(r"\{([^}]*)\}", query)
    bare = re.sub(r"\{[^}]*\}|\[[^]]*\]", "", query)
    bare = re.sub(r"\bby \(([\w, ]*)\)", "", bare)
    groups = {
        label for part in re.findall(r"\bby \(([\w, ]*)\)", query) for label in part.split(", ")
    }
    labels = {label for part in braces for label in re.findall(r"(\w+)!?=~?\"", part)} | groups
    states = {
        state
        for part in braces
        for shown in re.findall(r'\bstate=~?"([\w|]+)"', part)
        for state in shown.split("|")
    }
    names = set(re.findall(r"[a-zA-Z_]\w*", bare)) - FUNCTIONS
    assert names, f"no metric in {query}"
    return (names - known) | (labels - LABELS) | (states - set(STATES))


@pytest.mark.parametrize("query", sorted(set(queries())))
def test_metrics_exist(query: str) -> None:
    assert unknown(query) == set()


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("anabranch_link_ups == 0", {"anabranch_link_ups"}),
        ('rate(anabranch_commands{region="us"}[5m])', {"anabranch_commands"}),
        ('anabranch_link_up{origins="eu"}', {"origins"}),
        ('anabranch_state{state="served"} == 0', {"served"}),
        ('anabranch_state{state=~"starting|recover"} == 1', {"recover"}),
        ('anabranch_link_up{peers!="eu"}', {"peers"}),
        ("sum by (colour) (anabranch_entries)", {"colour"}),
    ],
)
def test_wrong_names_are_found(query: str, expected: set[str]) -> None:
    assert unknown(query) == expected


def test_counters_are_asked_for_their_growth() -> None:
    counters = {name for name, _, kind, _ in figures(single().state) if kind == "counter"}
    shown_as_they_are = {"anabranch_snapshots_cut_total", "anabranch_snapshots_joined_total"}
    for query in queries():
        for name in counters - shown_as_they_are:
            if re.search(rf"\b{name}\b", query):
                assert re.search(rf"(rate|increase)\({name}[^)]*\[", query), query


def test_each_alert_says_how_urgent_it_is_and_what_it_means() -> None:
    names = [rule["alert"] for rule in alerts()]
    assert len(set(names)) == len(names) > 10
    for rule in alerts():
        assert rule["labels"]["severity"] in {"page", "ticket"}
        assert rule["annotations"]["summary"].endswith(".") or "(" in rule["annotations"]["summary"]
        for label in re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]):
            assert label in LABELS
        for text in ("description", "action"):
            assert rule["annotations"][text].endswith(".") and "$" not in rule["annotations"][text]


def test_the_alarm_of_tombstones_is_that_of_the_setting() -> None:
    default = BY_NAME["crdt-tombstone-alarm"].default
    rules = {rule["alert"]: rule["expr"] for rule in alerts()}
    assert rules["AnabranchTombstones"] == f"anabranch_group_tombstones > {default}"


def test_panels_lie_beside_each_other_and_have_data() -> None:
    taken: set[tuple[int, int]] = set()
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert at["x"] + at["w"] <= 24 and not cells & taken, panel["title"]
        taken |= cells
        assert panel["type"] == "row" or panel["targets"]


def test_prometheus_asks_every_region() -> None:
    table = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text(encoding="utf-8"))
    (job,) = table["scrape_configs"]
    asked = {one["labels"]["region"]: one["targets"] for one in job["static_configs"]}
    assert asked == {name: [f"{name}:7200"] for name in regions()}
    assert table["rule_files"] == ["alerts.yml"]
    networks = compose()["services"]["prometheus"]["networks"]
    assert all(set(networks) & set(region["networks"]) for region in regions().values())


def relabelled(job: dict[str, Any], target: dict[str, str], skip: int = 0) -> dict[str, str]:
    """The labels of a target after the rules of a job, without the first `skip`; empty: dropped."""
    labels = {"job": job["job_name"], **target}
    for rule in job["relabel_configs"][skip:]:
        assert set(rule) <= {"source_labels", "regex", "action", "target_label", "replacement"}
        value = ";".join(labels.get(name, "") for name in rule["source_labels"])
        found = re.fullmatch(rule["regex"], value)
        if rule.get("action", "replace") == "keep":
            if not found:
                return {}
        elif found:
            text = rule.get("replacement", "$1").replace("$1", r"\1")
            labels[rule["target_label"]] = found.expand(text)
    return labels


def test_pods_of_kubernetes_get_the_labels_of_the_alerts() -> None:
    """Pods that were scraped for their annotation had no `region`, and no alert named one."""
    table = yaml.safe_load((DEPLOY / "prometheus" / "kubernetes.yml").read_text(encoding="utf-8"))
    assert table["rule_files"] == ["alerts.yml"]
    (job,) = table["scrape_configs"]
    manifest = yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text(encoding="utf-8"))
    pods = {
        one["metadata"]["name"]: one["spec"]["template"]
        for one in manifest
        if one["kind"] == "StatefulSet"
    }
    assert set(pods) == set(regions())
    for region, pod in pods.items():
        target = {
            f"__meta_kubernetes_pod_label_{re.sub(r'[^a-zA-Z0-9_]', '_', name)}": value
            for name, value in pod["metadata"]["labels"].items()
        }
        (container,) = pod["spec"]["containers"]
        port = "__meta_kubernetes_pod_container_port_name"
        kept = [
            (one["containerPort"], labels)
            for one in container["ports"]
            if (labels := relabelled(job, {**target, port: one["name"]}))
        ]
        assert [number for number, _ in kept] == [7200]
        assert pod["metadata"]["annotations"]["prometheus.io/port"] == "7200"
        # The last two rules also do their work in a job for all pods with that annotation.
        pods_job = {**job, "job_name": "kubernetes-pods"}
        for labels in (kept[0][1], relabelled(pods_job, target, skip=1)):
            assert (labels["job"], labels["region"]) == ("anabranch", region)
    other = relabelled({**job, "job_name": "kubernetes-pods"}, {}, skip=1)
    assert other == {"job": "kubernetes-pods"}


def test_grafana_finds_its_source_and_its_dashboard() -> None:
    folder = DEPLOY / "grafana" / "provisioning"
    (source,) = yaml.safe_load((folder / "datasources" / "prometheus.yaml").read_text())[
        "datasources"
    ]
    board = dashboard()
    used = {panel["datasource"]["uid"] for panel in board["panels"] if "datasource" in panel}
    assert used == {source["uid"]} and source["url"] == "http://prometheus:9090"
    (provider,) = yaml.safe_load((folder / "dashboards" / "anabranch.yaml").read_text())[
        "providers"
    ]
    grafana = compose()["services"]["grafana"]
    assert f"./grafana/dashboards:{provider['options']['path']}:ro" in grafana["volumes"]
    home = grafana["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert home == f"{provider['options']['path']}/anabranch.json"
