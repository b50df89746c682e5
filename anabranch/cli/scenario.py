"""`anabranch scenario run`: calls `sim.scenario`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from anabranch.cli.addresses import AtOption, ClusterOption, PasswordOption, find, require_regions
from anabranch.cli.errors import CliError, UsageError
from anabranch.cli.interrupting import end_as_after_ctrl_c
from anabranch.cli.printing import JsonOption
from anabranch.cli.simulate import SvgKeyOption, SvgTimeOption, need_simulator, need_svg

PathsArgument = Annotated[
    Optional[list[Path]],
    typer.Argument(
        metavar="[PATH…]",
        help="Scenario files, or directories of them. Without any: those of anabranch itself.",
        show_default=False,
    ),
]
LiveOption = Annotated[
    bool,
    typer.Option(
        "--live",
        help="Run on live regions instead of simulated ones: those of --cluster or --at,"
        " otherwise new ones.",
    ),
]
SvgFilesOption = Annotated[
    Optional[Path],
    typer.Option(
        "--svg",
        metavar="OUT",
        help="Draw what happened as space-time diagrams: an SVG file for one scenario, a"
        " directory for several.",
        show_default=False,
    ),
]


def run(
    paths: PathsArgument = None,
    live: LiveOption = False,
    cluster: ClusterOption = None,
    at: AtOption = None,
    password: PasswordOption = None,
    svg: SvgFilesOption = None,
    svg_key: SvgKeyOption = None,
    svg_time: SvgTimeOption = None,
    json: JsonOption = False,
) -> None:
    """Run scenario files in the simulator, and show each reply that differs from the expected one.

    A cluster given with --cluster or --at is emptied between files. --svg draws simulated runs.
    """
    chosen = paths or [Path(__file__).resolve().parents[1] / "sim" / "scenarios"]
    missing = [str(path) for path in chosen if not path.exists()]
    if missing:
        raise UsageError(f"no such file: {', '.join(missing)}")
    need_svg(svg, svg_key, svg_time)
    from anabranch.sim import scenario

    end_as_after_ctrl_c()
    is_given = bool(at) or cluster is not None
    is_live = live or is_given
    if is_live and svg is not None:
        raise UsageError(
            "--svg draws simulated runs only. Leave --live, --cluster and --at out; the simulator"
            " runs the same commands. `anabranch log KEY --svg OUT` draws the history of a key of a"
            " live cluster"
        )
    files = [str(path) for path in chosen]
    if is_live:
        places = find(cluster, at, password) if is_given else []
        if not at:
            require_regions(places, password)
        addresses = [place.resp for place in places]
        raise typer.Exit(scenario.main(files, addresses, live, password, as_json=json))
    need_simulator()
    raise typer.Exit(_simulated(files, svg, svg_key, svg_time, json))


def _simulated(
    files: list[str], svg: Optional[Path], key: Optional[str], time: Optional[str], as_json: bool
) -> int:
    """Runs files in the simulator, and draws them if that is asked for; returns the exit code."""
    from anabranch.sim import scenario
    from anabranch.sim.scenario.running import Drawing
    from anabranch.sim.timeline.files import DrawingError, part_of

    try:
        drawing = Drawing(svg, part_of(key, time)) if svg is not None else None
    except DrawingError as error:
        raise UsageError(str(error)) from error
    try:
        return scenario.main(files, drawing=drawing, as_json=as_json)
    except DrawingError as error:
        raise CliError(str(error)) from error
