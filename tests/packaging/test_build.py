"""The build that runs, compiled or interpreted, and the switch ANABRANCH_PURE that chooses it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from anabranch import build

ROOT = build.root()
SHOW = (
    "from anabranch import build; from anabranch.crdt import ids; "
    "from anabranch.region.engine import settings; "
    "print(build.kind(), ids.__file__, settings.__file__)"
)


def run_build_report(**environment: str) -> list[str]:
    """Runs Python with these environment variables; returns its build and two modules' files."""
    env = {name: value for name, value in os.environ.items() if name != "ANABRANCH_PURE"}
    line = [sys.executable, "-P", "-c", SHOW]
    env.update(environment, PYTHONPATH=str(ROOT))
    return subprocess.run(
        line, capture_output=True, text=True, check=True, env=env, cwd="/"
    ).stdout.split()


def is_built() -> bool:
    """Whether the build under test holds compiled modules."""
    return any((ROOT / "anabranch" / "crdt").glob("ids.*.so"))


def test_the_switch_forces_the_source() -> None:
    kind, *files = run_build_report(ANABRANCH_PURE="1")
    assert kind == "interpreted" and all(file.endswith(".py") for file in files)


def test_without_the_switch_the_compiled_modules_run() -> None:
    if not is_built():
        pytest.skip(f"{ROOT} holds no compiled modules: {build.reason()}")
    for off in ("", "0"):
        kind, *files = run_build_report(ANABRANCH_PURE=off)
        assert kind == "compiled" and all(file.endswith(".so") for file in files)


def test_the_header_tells_what_runs_here() -> None:
    from anabranch.crdt import ids

    expected = "interpreted" if ids.__file__.endswith(".py") else "compiled"
    assert build.kind() == expected
    assert build.describe().startswith(expected)
    assert bool(build.reason()) == (expected == "interpreted")
    if os.environ.get("ANABRANCH_PURE") == "1":
        assert expected == "interpreted"


def test_all_listed_modules_are_compiled_where_any_is() -> None:
    if not is_built():
        pytest.skip(f"{ROOT} holds no compiled modules: {build.reason()}")
    source = Path(__file__).resolve().parents[2]
    listed = subprocess.run(
        [sys.executable, "setup.py", "--quiet", "compiled_modules"],
        capture_output=True,
        text=True,
        check=True,
        cwd=source,
    ).stdout.split()
    assert "anabranch/crdt/ids.py" in listed
    missing = [
        path for path in listed if not list((ROOT / path).parent.glob(f"{Path(path).stem}.*.so"))
    ]
    assert missing == []
