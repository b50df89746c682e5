"""The blocks of docs/spark-walkthrough.md, run in order, print what the page shows."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster import LiveCluster

PAGE = Path(__file__).resolve().parents[2] / "docs" / "spark-walkthrough.md"
BLOCK = re.compile(r"^```(python|text)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def blocks(text: str) -> list[tuple[int, str, str | None]]:
    """(line, code, output that the page shows or None) of each block of Python."""
    found: list[tuple[int, str, str | None]] = []
    for block in BLOCK.finditer(text):
        kind, body = block.groups()
        if kind == "python":
            line = text.count("\n", 0, block.start(2)) + 1
            found.append((line, body, None))
        else:
            line, code, shown = found[-1]
            assert shown is None, f"line {line}: two outputs of one block"
            found[-1] = (line, code, body)
    return found


def test_every_output_belongs_to_the_block_before_it() -> None:
    text = "```python\nprint(1)\n```\n```text\n1\n```\nwords\n```python\nx = 2\n```\n"
    assert blocks(text) == [(2, "print(1)\n", "1\n"), (9, "x = 2\n", None)]


@pytest.mark.spark
@pytest.mark.live
@pytest.mark.timeout(900)
def test_the_page_happens(spark: Any, two_regions: LiveCluster) -> None:
    found = blocks(PAGE.read_text(encoding="utf-8"))
    assert sum(1 for _, _, shown in found if shown) >= 7
    ports = {"7001": two_regions["us"].resp_port, "7002": two_regions["eu"].resp_port}
    namespace: dict[str, Any] = {}
    try:
        for line, code, shown in found:
            code = re.sub(r"\b700[12]\b", lambda port: str(ports[port[0]]), code)
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                # Lines in a traceback are those of the page.
                exec(compile("\n" * (line - 1) + code, str(PAGE), "exec"), namespace)
            assert printed.getvalue().rstrip() == (shown or "").rstrip(), f"line {line}"
    finally:
        for query in spark.streams.active:
            query.stop()
