"""The plan of a run is a function of its seed, and no two faults strike one place at one time."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from anabranch import build
from anabranch.chaos.plan import KINDS, QUIET_END_S, Fault, Plan, draw
from anabranch.region.engine.settings import Settings

SEEDS = range(30)


def text(plan: Plan) -> str:
    return json.dumps(plan.as_json())


def test_one_seed_gives_one_plan() -> None:
    for seed in SEEDS:
        assert text(draw(seed, 120, 3)) == text(draw(seed, 120, 3))
    assert len({text(draw(seed, 120, 3)) for seed in SEEDS}) == len(SEEDS)


def test_the_hash_seed_of_the_process_does_not_matter() -> None:
    program = (
        "import json; from anabranch.chaos.plan import draw;"
        "print(json.dumps(draw(7, 120, 5).as_json()))"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-P", "-c", program],
            env={**build.environment(), "PYTHONHASHSEED": number},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for number in ("1", "2")
    }
    assert printed == {text(draw(7, 120, 5))}


@pytest.mark.parametrize("regions", [2, 3, 5])
def test_faults_do_not_overlap_at_one_place_and_end_before_the_run(regions: int) -> None:
    for seed in SEEDS:
        plan = draw(seed, 60, regions)
        taken: dict[tuple[str, ...], list[Fault]] = {}
        for fault in plan.faults:
            assert 0 < fault.begin_s <= fault.end_s <= 60 - QUIET_END_S
            for place in fault.places():
                for other in taken.get(place, []):
                    assert fault.begin_s > other.end_s or other.begin_s > fault.end_s
                taken.setdefault(place, []).append(fault)


def test_a_long_run_has_every_kind_of_fault() -> None:
    for seed in SEEDS:
        assert {fault.kind for fault in draw(seed, 120, 3).faults} == set(KINDS)


def test_only_the_kinds_that_were_asked_for() -> None:
    assert {fault.kind for fault in draw(1, 120, 3, ["cut", "kill"]).faults} == {"cut", "kill"}
    plan = draw(1, 120, 3, [])
    assert plan.faults == () and set(plan.offsets_ms.values()) == {0}


def test_clocks_differ_only_if_that_fault_is_asked_for() -> None:
    assert any(any(draw(seed, 60, 3).offsets_ms.values()) for seed in SEEDS)
    assert not any(any(draw(seed, 60, 3, ["cut"]).offsets_ms.values()) for seed in SEEDS)


def test_settings_are_valid() -> None:
    for seed in SEEDS:
        settings = Settings()
        for name, value in draw(seed, 60, 3, fsync="everysec").settings.items():
            settings.set(name, value)
        assert settings.text("appendfsync") == "everysec"
