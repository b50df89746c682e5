"""How long a newcomer waits: `make up`, or the whole `make test`, in a fresh copy of the checkout.

Each round copies the files that git knows into an empty folder, so that nothing is installed or
built there, and runs the target once. `make up` is over when it says that all regions are up. What
pip has downloaded before stays in its cache: `--no-cache` gives each round an empty one.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Final

from anabranch import build
from anabranch.bench.harness import Figures
from anabranch.cluster.ports import free_row

PROGRAMS: Final = {"git": "git", "make": "make"}
_REGIONS: Final = 3
_POLL_S: Final = 0.05
_END_S: Final = 60.0


def copy_checkout(source: Path, target: Path) -> None:
    """Copies the files that git knows, as they are in the checkout now."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=source, check=True, capture_output=True
    ).stdout
    for name in filter(None, listed.decode(errors="surrogateescape").split("\0")):
        file = source / name
        if file.is_symlink() or file.is_file():
            place = target / name
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, place, follow_symlinks=False)


def up_command() -> list[str]:
    """The command line of `make up` on ports that are free."""
    first = free_row(3 * _REGIONS)
    flags = ["resp", "sync", "http"]
    ports = " ".join(f"--{flag}-port {first + _REGIONS * n}" for n, flag in enumerate(flags))
    return ["make", "up", f"ARGS=--ephemeral --no-console {ports}"]


def run_s(
    command: list[str], folder: Path, until: str, patience_s: float, end_s: float = _END_S
) -> float:
    """The seconds until the output has a text (empty: until the command has ended well).

    The command is then ended, by one signal after the other, each after `end_s`.

    Raises:
        RuntimeError: The command ended otherwise, or took longer; the error has its last lines.
    """
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    log = folder / "first_run.log"
    with log.open("wb") as output:
        began_s = time.monotonic()
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        while time.monotonic() - began_s < patience_s:
            is_over = process.poll() is not None
            if until and until in log.read_text(errors="replace"):
                return time.monotonic() - began_s
            if is_over and not until and process.returncode == 0:
                return time.monotonic() - began_s
            if is_over:
                break
            time.sleep(_POLL_S)
        end = "\n".join(log.read_text(errors="replace").splitlines()[-20:])
        raise RuntimeError(f"{' '.join(command)} did not end as it should:\n{end}")
    finally:
        _end(process, end_s)


def _end(process: subprocess.Popen[bytes], end_s: float) -> None:
    """Ends the processes of a command, also the build that goes on in the background."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(end_s)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def measure(targets: list[str], rounds: int, patience_s: float) -> Figures:
    """Runs each target in `rounds` fresh copies, and shows the medians."""
    figures = Figures(f"the first run in a fresh copy, {rounds} rounds")
    figures.show("processors", os.cpu_count())
    for target in targets:
        taken: list[float] = []
        for number in range(1, rounds + 1):
            with tempfile.TemporaryDirectory(prefix="first-run-") as scratch:
                folder = Path(scratch)
                copy_checkout(build.root(), folder)
                command = up_command() if target == "up" else ["make", target]
                until = "regions are up" if target == "up" else ""
                taken.append(run_s(command, folder, until, patience_s))
            figures.show(f"make {target}, round {number}", taken[-1], "s")
        figures.show(f"make {target}, median", statistics.median(taken), "s")
        figures.show(f"make {target}, least and most", f"{min(taken):.1f} to {max(taken):.1f}", "s")
    return figures


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="anabranch bench first_run", description=__doc__)
    parser.add_argument("--targets", default="up", help="up, test, or up,test")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--patience", type=float, default=3600.0, help="seconds for one run")
    parser.add_argument("--no-cache", action="store_true", help="pip downloads everything anew")
    given = parser.parse_args(arguments)
    targets = given.targets.split(",")
    if not set(targets) <= {"up", "test"} or given.rounds < 1:
        parser.error("--targets takes up, test, or up,test, and --rounds a number above 0")
    if given.no_cache:
        os.environ["PIP_NO_CACHE_DIR"] = "1"
    return measure(targets, given.rounds, given.patience).finish()
