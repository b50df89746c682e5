"""Rocket Rides with its Spark consumer: crashes, one kill, and totals that agree."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.examples.test_whole_run import start

pytestmark = [pytest.mark.spark, pytest.mark.live, pytest.mark.timeout(900)]


def test_a_spark_job_beside_the_other_consumers(tmp_path: Path) -> None:
    often = ["--double-sends", "0.6", "--crashes", "0.1", "--consumers", "1"]
    process = start(tmp_path, "--rides", "200", "--seed", "7", *often, "--spark")
    try:
        output, errors = process.communicate(timeout=800)
    finally:
        if process.poll() is None:
            process.kill()
    assert process.returncode == 0, output + errors
    assert "All totals agree for every ride, and no record was added twice." in output
    assert "equal totals   600: one for each ride and each of 3 consumers" in output
    assert "the Spark job was killed once besides" in output
    assert max(map(len, output.splitlines())) <= 80
    rows = {line.split()[0]: line.split() for line in output.splitlines() if line.strip()}
    assert rows["us-spark"][-1] == "agree"
    assert rows["us-spark"][1:4] == rows["API"][1:4] and rows["API"][1] == "200"
    assert int(rows["us-spark"][-2]) >= 1
    assert list(tmp_path.iterdir()) == [], "the directory of the run is removed"
