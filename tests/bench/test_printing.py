"""Lines and tables of results."""

from __future__ import annotations

from typing import Any

from anabranch.bench.table.printing import HEADINGS, cells, closing, heading, line, markdown, number
from anabranch.bench.table.rows import BY_NAME, ROWS
from anabranch.bench.table.values import Values


def row(name: str, *values: float) -> dict[str, Any]:
    return Values(list(values)).as_json(BY_NAME[name])


def test_numbers() -> None:
    assert [number(value) for value in (0.123, 4.5, 12.34, 123.4, 1_234_567.0)] == [
        "0.12",
        "4.50",
        "12.3",
        "123",
        "1,234,567",
    ]


def test_a_line_has_value_goal_and_whether_it_is_met() -> None:
    words = line(row("xadd.c1", 0.5, 0.7, 0.9)).split()
    assert words == ["xadd.c1", "0.70", "0.50–0.90", "×", "redis-server", "≥", "1", "no"]
    assert heading().split()[:3] == ["row", "value", "min–max"]


def test_one_value_has_no_spread() -> None:
    assert cells(row("memory.key", 900.0))[3] == ""
    assert cells(row("memory.key", 900.0))[6] == "yes"


def test_markdown_has_each_row_of_the_table_once() -> None:
    lines = markdown({"rows": [row("idmp", 0.96)]})
    assert len(lines) == 2 + len(ROWS)
    assert all(text.count("|") == len(HEADINGS) + 1 for text in lines)
    [measured] = [text for text in lines if "not measured" not in text][2:]
    assert measured.startswith("| idmp |") and "| yes |" in measured


def test_the_last_line_counts_goals() -> None:
    rows = [row("idmp", 0.96), row("xadd.c1", 0.1), row("mixed", 0.1)]
    assert closing(rows) == "1 of 2 goals met, 3 rows"


def test_a_row_of_another_run_says_what_was_different() -> None:
    run = {"date": "2026-11-01", "build": "compiled", "scale": 1.0, "rounds": 5, "load_max": 2.5}
    result: dict[str, Any] = {
        "date": "2026-11-24",
        "scale": 1.0,
        "rounds": 3,
        "rows": [row("idmp", 0.96)],
    }
    result["rows"][0]["run"] = run
    [measured] = [text for text in markdown(result) if text.startswith("| idmp |")]
    assert measured.endswith("| measured 2026-11-01, rounds 5, load up to 2.5 |")
