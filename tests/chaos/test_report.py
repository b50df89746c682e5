"""The picture and the page of a run."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

from anabranch.chaos import report
from anabranch.chaos.breaking import Struck
from anabranch.chaos.judges import judge
from anabranch.chaos.observer import Sample, lags
from anabranch.chaos.plan import draw
from anabranch.chaos.timeline import Bar, Picture, svg
from tests.chaos.made_up import Run, sound

SVG = "{http://www.w3.org/2000/svg}"


def outcome(run: Run) -> report.Outcome:
    plan = draw(3, 30, 2)
    samples = [
        Sample(1.0, "us", {1: 4}),
        Sample(1.1, "eu", {1: 1, 2: 2}),
        Sample(2.0, "us", None),
        Sample(3.0, "us", {1: 4, 2: 2}),
    ]
    case = run.case()
    struck = [Struck(fault, fault.begin_s, fault.end_s, "a <note>") for fault in plan.faults]
    found = judge(case)
    return report.Outcome(
        plan, "anabranch chaos", run.history, case.final, struck, samples, 30.0, found, ["a & b"]
    )


def test_lag_counts_what_others_have_reported() -> None:
    samples = outcome(sound()).samples
    assert lags(samples) == {"us": [(1.0, 0), (2.0, None), (3.0, 0)], "eu": [(1.1, 3)]}


def test_the_picture_has_every_fault_and_breaks_lines_at_gaps() -> None:
    picture = Picture("seed <1>", 10.0, [Bar("cut", 1.0, 3.0, "us & eu", True)])
    picture.lag["us"] = [(0.0, 1.0), (1.0, None), (2.0, 5.0), (3.0, 0.0)]
    picture.marks.append((9.0, "over"))
    root = ElementTree.fromstring(svg(picture))
    titles = [one.text for one in root.iter(f"{SVG}title")]
    assert titles == ["us & eu", "over"]
    assert len(list(root.iter(f"{SVG}polyline"))) == 2
    assert any(one.text == "seed <1>" for one in root.iter(f"{SVG}text"))


def test_a_run_that_passes(tmp_path: Path) -> None:
    page = report.write(outcome(sound()), tmp_path).read_text()
    assert "passed" in page and "a &amp; b" in page and "a &lt;note&gt;" in page
    ElementTree.fromstring((tmp_path / "timeline.svg").read_text())
    assert json.loads((tmp_path / "plan.json").read_text())["seed"] == 3
    assert set(json.loads((tmp_path / "violations.json").read_text())) == set(judge(sound().case()))


def test_a_run_that_fails(tmp_path: Path) -> None:
    run = sound()
    for number in range(30):
        run.add("plain", f"{100 + number}-1", f"gone{number}", 10.0 + number, stays=False)
    made = outcome(run)
    assert made.failed
    page = report.write(made, tmp_path).read_text()
    assert "failed" in page and "and 50 more" in page
    assert "lost: 60" in report.text(made)


def test_a_history_is_written_as_lines_of_json(tmp_path: Path) -> None:
    run = sound()
    run.kill("us", 3.0)
    run.history.write(tmp_path / "history.jsonl")
    records = [json.loads(line) for line in (tmp_path / "history.jsonl").read_text().splitlines()]
    assert len(records) == sum(len(found) for _, found in run.history.lists())
    assert {record["what"] for record in records} >= {"adds", "deliveries", "trims"}
