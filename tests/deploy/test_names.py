"""Every metric, alert and field of INFO that docs, README and deploy/ name exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from anabranch.region.engine.commands.info import info_text
from anabranch.region.engine.figures.link_rows import CERTIFICATE_DAYS
from tests.deploy.files import DEPLOY, ROOT
from tests.deploy.test_metrics_files import METRICS, alerts
from tests.engine.test_figure_table import written

PAGES = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "RELEASING.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted(path for path in DEPLOY.rglob("*") if path.is_file()),
]
# Words that begin like a metric, an alert or a field of INFO.
OTHERS = {
    "crdt_version": "a field of messages between regions",
    "AnabranchDataSource": "a class of `anabranch.pipeline`",
}


def fields() -> set[str]:
    """The fields of INFO, with the facts that only a process knows and that have no metric."""
    place = written()
    facts = ("crdt_sync_snapshots_joined", "crdt_sync_blocks_merged", CERTIFICATE_DAYS)
    place.engine.set_process_facts(dict.fromkeys(facts, "0"))
    text = info_text(place.engine.state, ["everything"]).decode()
    return {line.partition(":")[0] for line in text.split("\r\n") if ":" in line}


def unknown(text: str) -> set[str]:
    """The names in a text that are no metric, alert or field of INFO."""
    found = set(re.findall(r"\b(?:anabranch|crdt)_[a-z0-9_]+\b", text))
    found |= set(re.findall(r"\bAnabranch[A-Z]\w+", text))
    histograms = {re.sub(r"_(bucket|sum|count)$", "", name) for name in METRICS}
    known = METRICS | histograms | {rule["alert"] for rule in alerts()} | fields()
    return found - known - OTHERS.keys()


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_names_exist(page: Path) -> None:
    assert unknown(page.read_text(encoding="utf-8")) == set()


def test_wrong_names_are_found() -> None:
    text = "`anabranch_link_ups` and AnabranchLinkDowned, `crdt_gap`; not anabranch_link_up"
    assert unknown(text) == {"anabranch_link_ups", "AnabranchLinkDowned", "crdt_gap"}


def test_every_metric_field_and_alert_is_in_the_docs() -> None:
    page = (ROOT / "docs" / "operations-watch.md").read_text(encoding="utf-8")
    names = {re.sub(r"_(bucket|sum|count)$", "", name) for name in METRICS}
    names |= {rule["alert"] for rule in alerts()}
    assert {name for name in names if not re.search(rf"\b{name}\b", page)} == set()
    both = page + (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    shown = {name for name in fields() if name.startswith("crdt_")}
    assert {name for name in shown if not re.search(rf"\b{name}\b", both)} == set()
