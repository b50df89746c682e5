"""The table of rows is complete, and each row has what measures it."""

from __future__ import annotations

from importlib import import_module

import pytest

from anabranch.bench.table.growth import DIMENSIONS
from anabranch.bench.table.growth_regions import COUNTS
from anabranch.bench.table.interpreted import BEFORE
from anabranch.bench.table.rows import BY_NAME, RATIO, ROWS, TableRow, chosen
from anabranch.bench.table.workloads import workloads


def test_names_are_different() -> None:
    assert len(BY_NAME) == len(ROWS) > 60


@pytest.mark.parametrize("measure", sorted({row.measure for row in ROWS}))
def test_each_row_has_a_module_that_measures_it(measure: str) -> None:
    assert callable(import_module(f"anabranch.bench.table.{measure}").measure)


def test_each_row_of_rates_has_a_workload() -> None:
    assert {row.name for row in ROWS if row.measure == "rates"} <= set(workloads(0.01))


def test_rows_of_growth_and_of_the_interpreted_build_are_measured() -> None:
    grown = {f"growth.{name}.{times}" for name in DIMENSIONS for times in (10, 100)}
    assert grown == {row.name for row in ROWS if row.measure == "growth"}
    regions = {f"growth.regions.{count}" for count in COUNTS}
    assert regions == {row.name for row in ROWS if row.measure == "growth_regions"}
    interpreted = {f"interpreted.{name}" for name in BEFORE}
    assert interpreted == {row.name for row in ROWS if row.measure == "interpreted"}


def test_only_rows_of_rates_are_ratios_to_redis() -> None:
    for row in ROWS:
        assert (row.measure == "rates") <= (row.unit == RATIO)
        assert row.at_least is None or row.at_most is None


def test_rows_are_chosen_by_patterns() -> None:
    assert [row.name for row in chosen(["xrange.*"])] == ["xrange.10", "xrange.100", "xrange.1000"]
    assert [row.name for row in chosen(["idmp", "xadd.c1"])] == ["xadd.c1", "idmp"]
    assert chosen([]) == list(ROWS) and chosen(["nothing"]) == []
    assert 5 <= len(chosen([], smoke=True)) <= 12
    assert all(row.measure == "rates" for row in chosen([], smoke=True))


def test_goals_as_text_and_whether_they_are_met() -> None:
    rate = TableRow("r", "text", "rates", RATIO, at_least=1.5)
    limit = TableRow("l", "text", "memory", "bytes", at_most=1200)
    free = TableRow("f", "text", "rates", RATIO)
    assert (rate.goal, limit.goal, free.goal) == ("≥ 1.5", "≤ 1,200", "")
    assert (rate.met(1.5), rate.met(1.49)) == (True, False)
    assert (limit.met(1200), limit.met(1201)) == (True, False)
    assert free.met(1.0) is None
    assert BY_NAME["peers.catching_up"].goal == "≥ 1,000,000"
