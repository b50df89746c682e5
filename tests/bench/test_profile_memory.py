"""The report of `profile_memory`, and a short live run of it."""

from __future__ import annotations

from collections import Counter

import pytest

from anabranch.bench import profile_memory


def test_the_sizes_that_take_most_come_first_and_rare_ones_are_one_line() -> None:
    grown = Counter({64: 1000, 2000: 100, 33: 1, 48: 2})
    assert profile_memory.lines_of(grown, 1000) == [
        "   200.0 bytes: 0.100 blocks of 2000 bytes",
        "    64.0 bytes: 1.000 blocks of 64 bytes",
        "     0.1 bytes: blocks of other sizes",
        "   264.1 bytes for each of 1,000",
    ]


@pytest.mark.live
def test_the_pairs_of_a_region(capsys: pytest.CaptureFixture[str]) -> None:
    assert profile_memory.main(["memory.idmp", "--scale", "0.05"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].endswith(" bytes for each of 10,000")
    # The entry and a packed pair with its share of the table: no object of its own, in both builds.
    assert 20 < float(lines[-1].split()[0]) < 200
    assert not any(": 1.0" in line for line in lines)
