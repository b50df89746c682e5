"""`deploy/install.sh`: what `make up` and `make test` install, and when.

A script stands for the environment's Python. It notes what pip is asked for, and makes the wheel
once the test lets it.
"""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

PYTHON = """#!/bin/sh
case "$*" in
  *"pip wheel"*)
    echo wheel >>calls
    while [ ! -e may-end ]; do sleep 0.05; done
    rm may-end
    touch build/compiled/anabranch-0.1.0.whl ;;
  *"pip install"*.whl) echo "install the wheel" >>calls ;;
  *"pip install"*"-r "*) echo requirements >>calls ;;
  *"pip install"*)
    case "${ANABRANCH_NO_COMPILE:-0}" in
      0) echo compile >>calls ;;
      *) echo interpreted >>calls ;;
    esac ;;
esac
"""


class Checkout:
    """A folder with a source, the script, and an environment with the false Python."""

    def __init__(self, path: Path) -> None:
        self.path = path
        for folder in ("anabranch", "proto", "deploy", ".venv/bin"):
            (path / folder).mkdir(parents=True)
        files = "pyproject.toml setup.py MANIFEST.in README.md pyspark_anabranch.py anabranch/a.py"
        for name in files.split():
            self.change(name, 100)
        (path / "deploy" / "install.sh").write_bytes((ROOT / "deploy" / "install.sh").read_bytes())
        python = path / ".venv" / "bin" / "python"
        python.write_text(PYTHON)
        python.chmod(0o755)

    def change(self, name: str, seconds_ago: int = 0) -> None:
        """Writes a source, so that it is newer than every stamp (or older, by `seconds_ago`)."""
        path = self.path / name
        path.write_text("")
        at = time.time() - seconds_ago + (0 if seconds_ago else 1)
        os.utime(path, (at, at))

    def install(self, what: str, **environment: str) -> tuple[str, list[str]]:
        """Runs the script; returns what it prints, and the calls of pip since the last time."""
        variables = {**os.environ, "VENV": ".venv", "CC": "true", **environment}
        variables.pop("ANABRANCH_NO_COMPILE", None)
        variables.update(environment)
        done = subprocess.run(
            ["sh", "deploy/install.sh", what],
            cwd=self.path,
            env=variables,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        calls = self.path / "calls"
        found = calls.read_text().split("\n")[:-1] if calls.exists() else []
        calls.unlink(missing_ok=True)
        return done.stdout, found

    def let_the_wheel_end(self) -> None:
        """Lets the background make the wheel, and waits until it has ended."""
        (self.path / "may-end").touch()
        for _ in range(600):
            if (self.path / "build" / "compiled" / "ended").exists():
                return
            time.sleep(0.05)
        raise AssertionError("the wheel is not made")


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def calls_with_wheel(calls: list[str]) -> list[str]:
    """The calls; the background may not have begun to make the wheel when the script ends."""
    return [one for one in calls if one not in ("wheel", "requirements")]


def test_a_new_environment_gets_the_wheel_and_what_it_needs(checkout: Checkout) -> None:
    """Somebody who deleted .venv got nothing installed, because a wheel was at hand."""
    checkout.install("runs")
    checkout.let_the_wheel_end()
    checkout.install("runs")
    (checkout.path / ".venv" / ".runs").unlink()
    assert checkout.install("runs") == ("", ["requirements", "install the wheel"])


def test_the_compiled_build_is_made_meanwhile_and_runs_the_next_time(checkout: Checkout) -> None:
    printed, calls = checkout.install("runs")
    assert calls_with_wheel(calls) == ["interpreted"]
    assert "The next 'make up' runs it." in printed
    printed, calls = checkout.install("runs")
    assert calls_with_wheel(calls) == []
    assert "The next 'make up' runs it." in printed
    checkout.let_the_wheel_end()
    printed, calls = checkout.install("runs")
    assert calls_with_wheel(calls) == ["install the wheel"] and printed == ""
    assert checkout.install("runs") == ("", [])


def test_a_changed_source_is_installed(checkout: Checkout) -> None:
    checkout.install("runs")
    checkout.let_the_wheel_end()
    checkout.install("runs")
    checkout.change("anabranch/a.py")
    printed, calls = checkout.install("runs")
    assert calls_with_wheel(calls) == ["interpreted"]
    assert "The next 'make up' runs it." in printed
    checkout.let_the_wheel_end()


def test_without_compiling(checkout: Checkout) -> None:
    assert checkout.install("runs", ANABRANCH_NO_COMPILE="1") == (
        "",
        ["requirements", "interpreted"],
    )
    assert checkout.install("runs", ANABRANCH_NO_COMPILE="1") == ("", [])
    assert not (checkout.path / "build" / "compiled").exists()


def test_without_a_compiler_it_says_what_to_install(checkout: Checkout) -> None:
    printed, calls = checkout.install("runs", CC="no-such-compiler")
    assert calls == ["requirements", "interpreted"] and "install gcc" in printed


def test_the_compiled_installation_waits_for_the_wheel_and_takes_it(checkout: Checkout) -> None:
    checkout.install("runs")
    (checkout.path / "may-end").touch()
    printed, calls = checkout.install("compiled")
    assert calls_with_wheel(calls) == ["install the wheel"] and printed == ""


def test_without_a_wheel_the_compiled_installation_compiles(checkout: Checkout) -> None:
    printed, calls = checkout.install("compiled")
    assert calls == ["compile"] and "some minutes" in printed


def test_a_current_compiled_installation_runs_as_it_is(checkout: Checkout) -> None:
    checkout.install("compiled")
    (checkout.path / ".venv" / ".installed").touch()
    assert checkout.install("runs") == ("", [])
