"""Simulated seeds on Spark: the same verdicts and sums as `anabranch simulate`.

The same seeds run three times: in `anabranch simulate`, in `anabranch pipeline sweep` on local[2],
and in `anabranch pipeline sweep` on a standalone Spark of one master and two workers. The figures
count the seconds of the seeds, without the start of Spark.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from anabranch import build
from anabranch.bench.acceptance.harness import Figures
from anabranch.bench.acceptance.spark_cluster import SparkCluster, spark_environment
from anabranch.cluster.errors import ClusterError

COMPARED = ("seeds", "virtual_ms", "failed", "counters")


def sums_of(command: list[str], path: Path, environment: dict[str, str]) -> dict[str, Any]:
    """The JSON that a command writes, with its wall-clock `seconds` if they are not in it.

    ClusterError if the command writes none. A failed seed is no error here.
    """
    begun_s = time.monotonic()
    done = subprocess.run(
        [*build.command(), *command, "--json", str(path)],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if not path.exists():
        raise ClusterError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr}")
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return {"seconds": time.monotonic() - begun_s, **found}


def run(seeds: str, options: list[str]) -> Figures:
    """Runs the seeds three times; requires equal sums."""
    figures = Figures(f"seeds {seeds} on Spark")
    figures.show("build", build.describe())
    given = ["--seeds", seeds, *options]
    with tempfile.TemporaryDirectory(prefix="anabranch-sweep-") as folder:
        directory = Path(folder)
        alone = sums_of(
            ["simulate", *given, "--jobs", "2", "--shrink", "0"],
            directory / "simulate.json",
            build.environment(),
        )
        figures.show("simulate", alone["seeds"] / alone["seconds"], "seeds/s")
        sweep = ["pipeline", "sweep", *given, "--master"]
        with SparkCluster(directory) as spark:
            for name, master in (("local[2]", "local[2]"), ("standalone", spark.master)):
                path = directory / f"{name}.json"
                found = sums_of([*sweep, master], path, spark_environment())
                figures.show(name, found["seeds"] / found["seconds"], "seeds/s")
                for part in COMPARED:
                    figures.require(f"{name}: equal {part}", found[part] == alone[part])
    figures.show("failed seeds", len(alone["failed"]))
    return figures


def main(arguments: list[str] | None = None) -> int:
    """The command line. Options that are not known here go to both commands."""
    parser = argparse.ArgumentParser(
        prog="anabranch bench acceptance.spark_sweep", description=__doc__
    )
    parser.add_argument("--seeds", default="0:1000", metavar="FIRST:END")
    given, options = parser.parse_known_args(arguments)
    return run(given.seeds, options).finish()


if __name__ == "__main__":
    sys.exit(main())
