"""Predictions of `study.whatif` beside what happens when a region is killed for good."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.study.whatif_runs import Outcome, Run


def judge(seeds: Iterable[int], least: int) -> str:
    """Runs seeds; each prediction must contain the truth, and in sum be at most 1.2 times it.

    `least`: how many entries must be lost, come back and be delivered again in all runs together.
    """
    outcomes: list[Outcome] = []
    for seed in seeds:
        outcome = Run(seed).run()
        assert outcome.missed() == [], f"seed {seed}"
        outcomes.append(outcome)
    lines: list[str] = []
    for name in ("lost", "back", "again"):
        predicted = sum(len(getattr(one, f"predicted_{name}")) for one in outcomes)
        happened = sum(len(getattr(one, name)) for one in outcomes)
        lines.append(f"{name}: predicted {predicted}, happened {happened}")
    cut = [one for one in outcomes if not one.is_whole]
    missed = sum(len(one.back - one.predicted_back) for one in cut)
    lines.append(
        f"runs whose log no longer had every effect: {len(cut)}, back and not told {missed}"
    )
    text = "; ".join(lines)
    predicted = sum(len(one.predicted_lost) + len(one.predicted_again) for one in outcomes)
    happened = sum(len(one.lost) + len(one.again) for one in outcomes)
    assert predicted <= 1.2 * happened, text
    for name in ("lost", "back", "again"):
        assert sum(len(getattr(one, name)) for one in outcomes) >= least, text
    return f"{text}; ratio {predicted / happened:.3f}"


def test_predictions_of_some_kills() -> None:
    print(judge(range(16), 10))


@pytest.mark.long
@pytest.mark.timeout(3000)
def test_predictions_of_a_hundred_kills() -> None:
    print(judge(range(100), 30))
