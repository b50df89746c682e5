"""`anabranch simulate`: calls the simulator."""

from __future__ import annotations

import json
import os
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from anabranch.cli.errors import CliError, UsageError
from anabranch.cli.files import checked_json
from anabranch.cli.terminal import coloured
from anabranch.whole_file import write_whole

if TYPE_CHECKING:
    from rich.console import Console

    from anabranch.sim.sweep import Task

SEEDS_USUAL = "0:1000"
JOBS_USUAL = os.cpu_count() or 1


SeedsOption = Annotated[
    str, typer.Option("--seeds", metavar="FIRST:END", help="Seeds to run; 'FIRST:' has no end.")
]
RegionsOption = Annotated[
    int, typer.Option("--regions", min=2, max=16, help="Regions of the simulated cluster.")
]
OpsOption = Annotated[int, typer.Option("--ops", min=1, help="Operations of all clients together.")]
_Jobs = Annotated[int, typer.Option("--jobs", min=1, help="Processes.")]
FaultsOption = Annotated[
    Optional[str],
    typer.Option(
        "--faults",
        metavar="KIND,…",
        help="Only these kinds of fault, or 'none'; default: all kinds.",
    ),
]
_Minutes = Annotated[
    Optional[float],
    typer.Option("--minutes", min=0.01, help="Begin no more seeds after this many minutes."),
]
LimitOption = Annotated[
    float,
    typer.Option(
        "--limit", min=1.0, metavar="SECONDS", help="A seed that takes longer counts as hanging."
    ),
]
_Shrink = Annotated[
    float,
    typer.Option(
        "--shrink", metavar="SECONDS", help="Time for reducing one failure; 0 reduces none."
    ),
]
_Stories = Annotated[
    Path,
    typer.Option(
        "--stories", metavar="DIR", help="Directory for reduced failures, as scenario files."
    ),
]
_JsonFile = Annotated[
    Optional[Path],
    typer.Option("--json", metavar="FILE", help="File for the sums of the sweep, as JSON."),
]
_Replay = Annotated[
    Optional[int],
    typer.Option("--replay", metavar="SEED", help="Run one seed and print every event."),
]
RestoresOption = Annotated[
    bool,
    typer.Option(
        "--restores",
        help="A mesh in which every second fault restores a backup without telling the region.",
    ),
]
_Errors = Annotated[
    bool,
    typer.Option("--errors", help="Errors break off steps of regions, with and without faults."),
]
_Outside = Annotated[
    bool, typer.Option("--outside", help="Regions lose their files and start without any.")
]
_Failed = Annotated[
    bool, typer.Option("--failed", help="Run every seed that failed once (sim/seeds/failed.txt).")
]
_Hashes = Annotated[
    Optional[str],
    typer.Option(
        "--hashes",
        metavar="FIRST:END",
        help="Print the trace hash of each seed, for comparing builds.",
    ),
]


SvgOption = Annotated[
    Optional[Path],
    typer.Option(
        "--svg",
        metavar="OUT",
        help="Draw what happened as a space-time diagram, an SVG file.",
        show_default=False,
    ),
]
SvgKeyOption = Annotated[
    Optional[str],
    typer.Option("--svg-key", metavar="KEY", help="Draw only what concerns this key."),
]
SvgTimeOption = Annotated[
    Optional[str],
    typer.Option("--svg-time", metavar="FROM:TO", help="Draw only this range of time, in ms."),
]


def need_simulator() -> None:
    """CliError if apsw, which only the simulator needs, is not installed."""
    if find_spec("apsw") is None:
        raise CliError(
            "the simulator needs apsw, which is not installed: pip install 'anabranch[sim]'"
        )


def kinds(text: str) -> tuple[str, ...]:
    """The kinds of ``--faults``; UsageError for a kind that does not exist."""
    from anabranch.sim.draw import FAULTS

    found = tuple(kind.strip() for kind in text.split(",") if kind.strip() not in ("", "none"))
    unknown = [kind for kind in found if kind not in FAULTS]
    if unknown:
        raise UsageError(f"there is no fault '{unknown[0]}'; there are: {', '.join(FAULTS)}")
    return found


def simulate(
    seeds: SeedsOption = SEEDS_USUAL,
    regions: RegionsOption = 3,
    ops: OpsOption = 300,
    jobs: _Jobs = JOBS_USUAL,
    faults: FaultsOption = None,
    minutes: _Minutes = None,
    limit: LimitOption = 120.0,
    shrink: _Shrink = 120.0,
    stories: _Stories = Path("simulated"),
    json_file: _JsonFile = None,
    replay: _Replay = None,
    svg: SvgOption = None,
    svg_key: SvgKeyOption = None,
    svg_time: SvgTimeOption = None,
    restores: RestoresOption = False,
    errors: _Errors = False,
    outside: _Outside = False,
    failed: _Failed = False,
    hashes: _Hashes = None,
) -> None:
    """Run a simulated cluster with many seeds, and judge the runs.

    The regions run the real engine, sync and storage in one process, on simulated time, network and
    disks. The same seed gives the same run. Exits with 1 when an invariant was violated.

    With --replay, --svg draws the run. A run with many events needs --svg-key or --svg-time.
    """
    need_simulator()
    _check_svg(replay, svg, svg_key, svg_time)
    _check_seeds(seeds, replay, failed)
    from anabranch.sim import simulate as simulation
    from anabranch.sim.hashes import print_hashes
    from anabranch.sim.seeds import SeedsError, in_range
    from anabranch.sim.sweep import Task

    task = Task(regions, ops, None if faults is None else kinds(faults), restores, errors, outside)
    console = coloured()
    if replay is not None:
        raise typer.Exit(_replay(task, replay, console, svg, svg_key, svg_time))
    try:
        if hashes is not None:
            print_hashes(hashes, task)
            return
        first, end = in_range(seeds)
    except SeedsError as error:
        raise UsageError(str(error)) from error
    checked_json(json_file)
    asked = simulation.Asked(task, jobs, limit, minutes, shrink, stories)
    if failed:
        raise typer.Exit(1 if simulation.run_failed(asked, console) else 0)
    if end is None and minutes is None:
        raise UsageError("seeds without an end need --minutes")
    tally = simulation.run(
        range(first, end) if end is not None else count(first), end and end - first, asked, console
    )
    if json_file is not None:
        _write_json(json_file, tally.as_json())
    raise typer.Exit(1 if tally.failed else 0)


def _write_json(file: Path, sums: object) -> None:
    """Writes the sums of a sweep; CliError if that fails."""
    try:
        write_whole(file, (json.dumps(sums, indent=1) + "\n").encode())
    except OSError as error:
        raise CliError(f"{file} cannot be written: {error.strerror}") from error


def _check_seeds(seeds: str, replay: Optional[int], failed: bool) -> None:
    """UsageError if --seeds is given beside an option that says which seeds run."""
    if seeds != SEEDS_USUAL and (failed or replay is not None):
        option = "--failed" if failed else "--replay"
        raise UsageError(f"{option} says which seeds run: leave --seeds out")


def _check_svg(
    replay: Optional[int], svg: Optional[Path], key: Optional[str], time: Optional[str]
) -> None:
    """UsageError for options of drawings that do not go together."""
    if svg is not None and replay is None:
        raise UsageError("--svg draws the run of one seed: give --replay SEED")
    need_svg(svg, key, time)


def need_svg(svg: Optional[Path], key: Optional[str], time: Optional[str]) -> None:
    """UsageError if a part of a drawing is chosen, and no drawing is asked for."""
    if svg is None and (key is not None or time is not None):
        raise UsageError("--svg-key and --svg-time choose a part of a drawing: give --svg OUT")


def _replay(
    task: Task,
    seed: int,
    console: Console,
    svg: Optional[Path],
    key: Optional[str],
    time: Optional[str],
) -> int:
    """Runs a seed, prints it, and draws it into `svg`; returns the exit code of the run."""
    from anabranch.sim.replay import label_of, show
    from anabranch.sim.simulate import options_of
    from anabranch.sim.timeline.files import DrawingError, drawn, part_of, targets, write
    from anabranch.sim.timeline.recorder import Recorder

    if svg is None:
        return 1 if show(task.plan(seed), task.judged_by(), console).violations else 0
    try:
        part = part_of(key, time)
        (file,) = targets([svg], svg, is_one=True).values()
    except DrawingError as error:
        raise UsageError(str(error)) from error
    recorder = Recorder(label_of)
    result = show(task.plan(seed), task.judged_by(), console, recorder)
    try:
        write(drawn(recorder.timeline(f"Seed {seed}{options_of(task)}"), part), file)
    except DrawingError as error:
        raise CliError(str(error)) from error
    console.print(f"drawn: {file}", highlight=False, soft_wrap=True)
    return 1 if result.violations else 0
