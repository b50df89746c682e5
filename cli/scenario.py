"""`anabranch scenario run`: calls `sim.scenario`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from anabranch.cli.addresses import AtOption, ClusterOption, PasswordOption, find
from anabranch.cli.errors import UsageError
from anabranch.cli.interrupting import end_as_after_ctrl_c
from anabranch.cli.simulate import need_simulator


def run(
    paths: Annotated[
        Optional[list[Path]],
        typer.Argument(
            metavar="[PATH…]",
            help="Scenario files, or directories of them. Without any: those of anabranch itself.",
            show_default=False,
        ),
    ] = None,
    live: Annotated[
        bool,
        typer.Option(
            "--live",
            help="Run on live regions instead of simulated ones: those of --cluster or --at,"
            " otherwise new ones.",
        ),
    ] = False,
    cluster: ClusterOption = None,
    at: AtOption = None,
    password: PasswordOption = None,
) -> None:
    """Run scenario files in the simulator, and show each reply that differs from the expected one.

    A cluster given with --cluster or --at is emptied between files.
    """
    chosen = paths or [Path(__file__).resolve().parents[1] / "sim" / "scenarios"]
    missing = [str(path) for path in chosen if not path.exists()]
    if missing:
        raise UsageError(f"no such file: {', '.join(missing)}")
    from anabranch.sim import scenario

    end_as_after_ctrl_c()
    addresses = at or (
        [place.resp for place in find(cluster, None, None)] if cluster is not None else None
    )
    if not live and not addresses:
        need_simulator()
    raise typer.Exit(scenario.main([str(path) for path in chosen], addresses, live, password))
