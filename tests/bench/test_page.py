"""docs/performance.md has all rows, and matches the recorded result."""

from __future__ import annotations

import re
from pathlib import Path

from anabranch.bench.table.rows import ROWS
from tests.support.generated import check_current

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_has_all_rows() -> None:
    text = (ROOT / "docs" / "performance.md").read_text().partition("| row | workload |")[2]
    table = text.partition("<!-- end -->")[0]
    found = re.findall(r"^\| ([\w.]+) \| ", table, re.MULTILINE)
    assert found == [row.name for row in ROWS]


def test_the_page_is_current() -> None:
    check_current("generate_performance.py")
