"""The program: options, the comparison with recorded rows, and a short live run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from anabranch.bench import performance
from anabranch.bench.table.rows import BY_NAME, ROWS
from anabranch.bench.table.values import Values, load


def result(**values: float) -> dict[str, Any]:
    rows = [Values([value]).as_json(BY_NAME[name]) for name, value in values.items()]
    return {"rows": rows}


def test_a_list_of_all_rows(capsys: pytest.CaptureFixture[str]) -> None:
    assert performance.main(["--list"]) == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert names == [row.name for row in ROWS]


def test_a_row_far_below_the_recorded_one_is_named() -> None:
    recorded = result(idmp=0.8, mixed=1.0)
    assert performance.far_below(result(idmp=0.41, mixed=0.51, idmpauto=0.1), recorded) == []
    assert performance.far_below(result(idmp=0.39, mixed=0.51), recorded) == [
        "idmp: 0.39, recorded 0.80"
    ]


def test_a_row_that_is_slow_but_uses_no_more_cpu_is_not_named() -> None:
    recorded, now = result(mixed=1.0), result(mixed=0.1)
    recorded["rows"][0]["cpu_ratio"] = 0.8
    now["rows"][0]["cpu_ratio"] = 0.7
    assert performance.far_below(now, recorded) == []
    now["rows"][0]["cpu_ratio"] = 0.3
    assert performance.far_below(now, recorded) == ["mixed: 0.10, recorded 1.00"]


def test_the_recorded_result_has_the_rows_of_the_short_run() -> None:
    recorded = {row["name"] for row in load(performance.RECORD)["rows"]}
    assert {row.name for row in ROWS if row.in_smoke} <= recorded


@pytest.mark.live
@pytest.mark.oracle
def test_a_short_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "result.json"
    only = ["xadd.p16", "xrange.10", "xack.100", "idmp", "delay.idle", "keys.wait.info"]
    options = [word for name in only for word in ("--only", name)]
    code = performance.main([*options, "--scale", "0.002", "--rounds", "1", "--json", str(path)])
    shown = capsys.readouterr().out
    assert code == 0, shown
    found = json.loads(path.read_text())
    assert [row["name"] for row in found["rows"]] == only
    assert found["build"] in ("compiled", "interpreted") and found["failed"] == {}
    assert all(f"\n{name}" in shown for name in only)
    assert found["rows"][0]["ours"]["rate"] > 0 and found["rows"][0]["theirs"]["rate"] > 0
