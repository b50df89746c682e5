"""The simulator as CI runs it (`python -m anabranch.sim.ci`).

It runs the seeds that failed once, seeds that the commit chooses (so every commit explores other
seeds), a fifth as many with backups restored without `--restored`, in meshes of three and of four
regions (S13.6), a fifth as many with errors that break off steps (S13.10), a fifth as many with
faults outside the model, and some seeds in several processes. The latter (50 by default) must leave
equal traces in each process: under different hash seeds, and in the interpreted and the compiled
build if both are there.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Final, Optional

from rich.console import Console
from rich.text import Text

from anabranch import build
from anabranch.sim import simulate
from anabranch.sim.seeds import chosen_by
from anabranch.sim.sweep import Task

# The sizes of the clusters whose regions are restored from backups.
RESTORED_REGIONS: Final = (3, 4)


def main(arguments: Optional[list[str]] = None) -> int:
    """Runs all parts, then names the failed seeds; the exit status is 0 when there are none."""
    parser = argparse.ArgumentParser(
        prog="python -m anabranch.sim.ci", description="The simulator as CI runs it."
    )
    parser.add_argument("--seeds", type=int, default=1000, help="how many seeds the commit chooses")
    parser.add_argument(
        "--twice", type=int, default=50, help="how many seeds are run in several processes"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--text", default="", help="text that chooses the seeds, instead of the commit"
    )
    parser.add_argument("--stories", type=Path, default=Path("simulated"))
    asked = parser.parse_args(arguments)
    console = Console()
    text = asked.text or commit()
    seeds = chosen_by(text, asked.seeds)
    console.print(
        f"{build.describe()}; {text} chooses seeds {seeds.start}:{seeds.stop}",
        soft_wrap=True,
        highlight=False,
    )
    plan = simulate.Asked(Task(), asked.jobs, stories=asked.stories)
    failed = simulate.run_failed(plan, console)
    failed += simulate.told_all(simulate.run(seeds, len(seeds), plan, console), plan.task)
    some = seeds[: len(seeds) // 5]
    for regions in RESTORED_REGIONS:
        console.print(f"restores without --restored, {regions} regions:", highlight=False)
        plan = simulate.Asked(
            Task(regions=regions, restores=True), asked.jobs, stories=asked.stories
        )
        failed += simulate.told_all(simulate.run(some, len(some), plan, console), plan.task)
    for title, task in (
        ("errors in steps:", Task(errors=True)),
        ("faults outside the model:", Task(outside=True)),
    ):
        console.print(title, highlight=False)
        plan = simulate.Asked(task, asked.jobs, stories=asked.stories)
        failed += simulate.told_all(simulate.run(some, len(some), plan, console), plan.task)
    passes = same_traces(seeds[: asked.twice], console)
    # The failures stand above the tables. Whoever reads only the end of the output needs them, too.
    for line in failed:
        console.print(Text(line, style="bold red"), soft_wrap=True)
    return 0 if passes and not failed else 1


def commit() -> str:
    """The name of the commit that is checked out here, or the date where there is no git."""
    try:
        return subprocess.run(
            ["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return time.strftime("%Y-%m-%d")


def same_traces(seeds: range, console: Console) -> bool:
    """Whether each seed leaves the same trace in several processes at once."""
    processes = {
        f"hash seed {number}": _hashes(seeds, {"PYTHONHASHSEED": number}) for number in ("1", "2")
    }
    if build.kind() == "compiled":
        processes["interpreted"] = _hashes(seeds, {"PYTHONHASHSEED": "3", "ANABRANCH_PURE": "1"})
    traces = {name: process.communicate()[0].splitlines() for name, process in processes.items()}
    first = next(iter(traces.values()))
    different = sorted(
        {line.split()[0] for lines in traces.values() for line in {*lines} ^ {*first}}, key=int
    )
    complete = all(len(lines) == len(seeds) for lines in traces.values())
    console.print(
        f"{len(seeds)} seeds, each in {len(traces)} processes ({', '.join(traces)}):",
        end=" ",
        highlight=False,
    )
    if different or not complete:
        console.print(
            f"traces DIFFER or are missing: seeds {' '.join(different[:20])}",
            style="bold red",
            highlight=False,
        )
        return False
    console.print("equal traces", highlight=False)
    return True


def _hashes(seeds: range, environment: dict[str, str]) -> subprocess.Popen[str]:
    line = [*build.command("anabranch.sim.hashes"), f"{seeds.start}:{seeds.stop}"]
    return subprocess.Popen(
        line, stdout=subprocess.PIPE, text=True, env={**build.environment(), **environment}
    )


if __name__ == "__main__":
    sys.exit(main())
