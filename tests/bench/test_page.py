"""docs/performance.md has all rows, and matches the recorded result."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from anabranch.bench.table.rows import ROWS

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_has_all_rows() -> None:
    text = (ROOT / "docs" / "performance.md").read_text().partition("| row | workload |")[2]
    table = text.partition("<!-- end -->")[0]
    found = re.findall(r"^\| ([\w.]+) \| ", table, re.MULTILINE)
    assert found == [row.name for row in ROWS]


def test_the_page_is_current() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "generate_performance.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
