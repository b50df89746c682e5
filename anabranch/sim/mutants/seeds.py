"""Runs seeds of the simulator on a mutated copy of the tree, and reports the first that fails.

`first_caught` and `Sound` run in the calling process. `python -m anabranch.sim.mutants.seeds FIRST
END OPS FLAVOUR LIMIT_S` runs in a process of the copy: it runs seeds one after the other, writes a
line of JSON before each, and ends at the first seed that fails.

A flavour says how a seed is drawn. PLAIN: three regions. RESTORES: with forgotten restores
(`draw_plan`), even seeds with four regions, odd seeds with three. ERRORS: with errors in steps.
OUTSIDE: with faults outside the model.
"""

from __future__ import annotations

import faulthandler
import json
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from types import FrameType
from typing import Any, Final, Optional

from anabranch.sim.mutants.tree import environment, python

PLAIN: Final = "plain"
RESTORES: Final = "restores"
ERRORS: Final = "errors"
OUTSIDE: Final = "outside"
FLAVOURS: Final = (PLAIN, RESTORES, ERRORS, OUTSIDE)
"""Each but PLAIN is the name of an argument of `draw_plan`."""
OPS: Final = 300
NO_START: Final = "no start"


@dataclass(frozen=True)
class Caught:
    """A seed that failed.

    `checker`: the judge; "crash" or "hang" if the simulator itself ended or did not end, and
    NO_START if it ended before its first seed.
    """

    seed: int
    checker: str
    text: str


def regions_of(seed: int, flavour: str) -> int:
    """The number of regions with which a seed is drawn."""
    return 4 if flavour == RESTORES and seed % 2 == 0 else 3


def run_seeds(
    tree: Path, first: int, end: int, limit_s: float, flavour: str
) -> tuple[Optional[Caught], int]:
    """Runs seeds from `first` up to `end` in a process of that tree.

    Returns the failure, if any, and the seed to go on with.
    """
    command = [
        python(),
        "-m",
        "anabranch.sim.mutants.seeds",
        str(first),
        str(end),
        str(OPS),
        flavour,
        str(limit_s),
    ]
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command, cwd=tree, env=environment(tree), stdout=output, stderr=errors
        )
        try:
            process.wait((end - first + 1) * limit_s * 4)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        output.seek(0)
        errors.seek(0)
        lines = [json.loads(line) for line in output.read().splitlines() if line.endswith(b"}")]
        last_error = errors.read().decode("utf-8", "replace").strip().rpartition("\n")[2]
    seed = first
    for line in lines:
        seed = int(line["seed"])
        if line.get("checker"):
            return Caught(seed, line["checker"], line["text"]), seed + 1
    if process.returncode == 0:
        return None, end
    checker = "crash" if lines else NO_START
    text = f"the process ended with {process.returncode}: {last_error}"
    return Caught(seed, checker, text), seed + 1


class Sound:
    """A copy of the tree without a bug. A seed that fails here catches nothing.

    All seeds that it is asked about are of one flavour.
    """

    def __init__(self, tree: Path, limit_s: float, flavour: str = PLAIN) -> None:
        self.flavour: Final = flavour
        self._tree = tree
        self._limit_s = limit_s
        self._passes: dict[int, bool] = {}
        self._lock = Lock()

    def passes(self, seed: int) -> bool:
        """Whether that seed passes. RuntimeError if no seed can be run in this copy."""
        with self._lock:
            if seed not in self._passes:
                caught, _ = run_seeds(self._tree, seed, seed + 1, self._limit_s, self.flavour)
                if caught is not None and caught.checker == NO_START:
                    raise RuntimeError(f"no seed can be run without a bug: {caught.text}")
                self._passes[seed] = caught is None
            return self._passes[seed]

    def failing(self) -> list[int]:
        """The seeds that have failed here."""
        return sorted(seed for seed, passes in self._passes.items() if not passes)


def first_caught(tree: Path, numbers: range, sound: Sound, limit_s: float) -> Optional[Caught]:
    """The first of the seeds that fails in the tree and passes in the sound one.

    They are of the flavour of `sound`.
    """
    first = numbers.start
    batch = 10
    while first < numbers.stop:
        end = min(first + batch, numbers.stop)
        caught, after = run_seeds(tree, first, end, limit_s, sound.flavour)
        if caught is not None and sound.passes(caught.seed):
            return caught
        first = after
        batch = min(2 * batch, 200)
    return None


# -- in the process of the copy


class _Hang(BaseException):
    pass


def _ring(number: int, frame: Optional[FrameType]) -> None:
    raise _Hang


def _report(**values: Any) -> None:
    print(json.dumps(values), flush=True)


def _run_one(seed: int, ops: int, flavour: str, limit_s: float) -> bool:
    # Imported here, because the calling process need not be able to import it.
    from anabranch.sim.draw import draw_plan
    from anabranch.sim.run import run_plan

    _report(seed=seed)
    signal.setitimer(signal.ITIMER_VIRTUAL, limit_s)
    # A loop in a compiled module handles no signal.
    faulthandler.dump_traceback_later(4 * limit_s, exit=True)
    try:
        regions = regions_of(seed, flavour)
        asked: dict[str, Any] = {} if flavour == PLAIN else {flavour: True}
        plan = draw_plan(seed, regions, ops, **asked)
        violations = run_plan(plan).violations
    except _Hang:
        _report(seed=seed, checker="hang", text=f"no end after {limit_s} s")
        return False
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(last.filename).name}:{last.lineno}"
        _report(seed=seed, checker="crash", text=f"{type(error).__name__}: {error} ({place})"[:500])
        return False
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        faulthandler.cancel_dump_traceback_later()
    if violations:
        first = violations[0]
        _report(seed=seed, checker=first.checker, text=str(first)[:500])
    return not violations


def main(arguments: Iterable[str]) -> int:
    first, end, ops, flavour, limit = arguments
    signal.signal(signal.SIGVTALRM, _ring)
    for seed in range(int(first), int(end)):
        if not _run_one(seed, int(ops), flavour, float(limit)):
            return 0
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
