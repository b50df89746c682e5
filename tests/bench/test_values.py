"""Values of rows, results and their files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from anabranch.bench.table.rows import BY_NAME
from anabranch.bench.table.values import Cost, Run, Values, dump, load, machine, updated


def cost(rate: float, cpu_us: float, share: float = 0.3) -> Cost:
    """Of two rounds of 1,000 commands."""
    one = Cost()
    for _ in range(2):
        seconds = 1000 / rate
        one.add(1000, seconds, cpu_us / 1000, share * seconds)
    return one


def result(*names: str, value: float = 1.0) -> dict[str, Any]:
    rows = [Values([value]).as_json(BY_NAME[name]) for name in names]
    return {"version": 1, "date": "2026-11-24", "scale": value, "rows": rows}


def test_a_row_as_json() -> None:
    values = Values([1.2, 0.9, 1.0], cost(50_000, 10.0), cost(40_000, 5.0, 0.95), "a note")
    row = values.as_json(BY_NAME["xadd.c1"])
    assert (row["value"], row["min"], row["max"]) == (1.0, 0.9, 1.2)
    assert (row["goal"], row["met"], row["unit"]) == ("≥ 1", True, "× redis-server")
    assert row["note"] == "a note; the client is the bound (Redis)"
    assert row["ours"] == {
        "rates": [50_000.0, 50_000.0],
        "rate": 50_000.0,
        "server_cpu_us": 10.0,
        "client_share": 0.3,
    }
    assert row["cpu_ratio"] == 0.5
    assert json.loads(json.dumps(row)) == row


def test_a_row_without_a_server_beside_it() -> None:
    row = Values([812_345.6]).as_json(BY_NAME["peers.catching_up"])
    assert row["value"] == 812_346 and row["met"] is False
    assert "ours" not in row and "cpu_ratio" not in row


def test_a_result_is_written_read_and_updated(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    dump(result("idmp", "xadd.c1"), path)
    kept = updated(load(path), result("xadd.c50", "idmp", value=2.0))
    assert [(row["name"], row["value"]) for row in kept["rows"]] == [
        ("xadd.c1", 1.0),
        ("xadd.c50", 2.0),
        ("idmp", 2.0),
    ]
    assert kept["rows"][0]["run"]["scale"] == 1.0 and "run" not in kept["rows"][1]


def test_rows_that_are_no_longer_in_the_table_go() -> None:
    before: dict[str, Any] = {"rows": [{"name": "gone"}]}
    assert updated(before, result("idmp"))["rows"] == result("idmp")["rows"]


@pytest.mark.parametrize("text", ["[]", '{"version": 2}'])
def test_another_form_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "result.json"
    path.write_text(text)
    with pytest.raises(ValueError, match="no result of version 1"):
        load(path)


def test_a_run_scales_counts() -> None:
    run = Run([BY_NAME["idmp"]], scale=0.1)
    assert (run.scaled(1000), run.scaled(1000, 500)) == (100, 500)
    assert run.wants("idmp") and not run.wants("xadd.c1")
    assert run.wanted("idmp") == [BY_NAME["idmp"]] and run.wanted("rates") == []


def test_the_machine_has_no_name() -> None:
    import socket

    found = machine()
    assert found["cores"] >= 1
    assert socket.gethostname() not in json.dumps(found)
