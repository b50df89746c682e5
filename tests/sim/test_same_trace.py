"""A seed gives one trace in every process: under other hash seeds, and in the other build."""

from __future__ import annotations

import subprocess

from anabranch import build

SEEDS = "0:8"


def hashes(hash_seed: str, pure: bool) -> list[str]:
    """The ``seed hash`` lines of a process."""
    env = {
        **build.environment(),
        "PYTHONHASHSEED": hash_seed,
        "ANABRANCH_PURE": "1" if pure else "0",
    }
    line = [*build.command("anabranch.sim.hashes"), SEEDS, "--ops", "120"]
    done = subprocess.run(line, capture_output=True, text=True, env=env, timeout=110, check=True)
    return done.stdout.splitlines()


def test_hash_seeds_and_builds_change_nothing() -> None:
    first = hashes("1", pure=True)
    assert len(first) == 8
    assert len({line.split()[1] for line in first}) == 8
    assert hashes("2", pure=True) == first
    if build.kind() == "compiled":
        assert hashes("3", pure=False) == first
