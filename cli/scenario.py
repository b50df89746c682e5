"""`anabranch scenario run`: a thin call into `sim.scenario`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli.errors import CliError, UsageError


def run(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH…", help="Scenario files, or directories of them.", show_default=False)],
    live: Annotated[bool, typer.Option("--live", help="Against region processes that it starts.")] = False,
) -> None:
    """Execute scenario files, and show the first cell that did not return what it must."""
    missing = [str(path) for path in paths if not path.exists()]
    if missing:
        raise UsageError(f"no such file: {', '.join(missing)}")
    if not live:
        raise UsageError("scenarios run against live regions only, so far: add --live")
    try:
        from sim import scenario
    except ImportError as error:
        raise CliError(f"this installation cannot run scenarios: {error}") from None
    raise typer.Exit(scenario.main([str(path) for path in paths]))
