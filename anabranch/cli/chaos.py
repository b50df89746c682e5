"""`anabranch chaos`: real regions under real faults, and judges."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from anabranch.chaos import report
from anabranch.chaos.other_build import NoSuchBuild, OtherBuild
from anabranch.chaos.plan import KINDS, NAMES, break_links
from anabranch.chaos.run import ChaosFailed, Options, run
from anabranch.cli.errors import CliError, ProblemsTold, UsageError
from anabranch.cli.interrupting import end_as_after_ctrl_c
from anabranch.cli.printing import JsonOption, print_json
from anabranch.cluster.toxiproxy import ToxiproxyError
from anabranch.cluster.toxiproxy_server import ToxiproxyMissing, program

DEFAULT_OUT = Path("chaos-report")
SECONDS_MIN = 10.0


_Seconds = Annotated[
    float, typer.Option("--seconds", metavar="S", min=SECONDS_MIN, help="How long faults strike.")
]
_Seed = Annotated[int, typer.Option("--seed", help="Decides faults, settings and clocks.")]
_Regions = Annotated[int, typer.Option("--regions", min=2, max=len(NAMES), help="Regions.")]
_Faults = Annotated[
    Optional[str],
    typer.Option(
        "--faults",
        metavar="KIND,…",
        help=f"Only these kinds of fault, or 'none'. [default: all: {', '.join(KINDS)}]",
    ),
]
_Appendfsync = Annotated[
    str,
    typer.Option(
        "--appendfsync",
        metavar="always|everysec|no",
        help="With everysec and no a kill may take the last second.",
    ),
]
_Rate = Annotated[
    float, typer.Option("--rate", metavar="N", min=1.0, help="Adds per second, all together.")
]
_LevelBound = Annotated[
    float,
    typer.Option(
        "--level-bound",
        metavar="S",
        min=1.0,
        help="Most seconds from the last fault until all regions hold the same.",
    ),
]
_Out = Annotated[Path, typer.Option("--out", metavar="DIR", help="Directory of the reports.")]
_RestartWith = Annotated[
    str,
    typer.Option(
        "--restart-with",
        metavar="PYTHON",
        help="At every restart a region changes the build: to the anabranch of that Python, or to"
        " the 'interpreted' modules, and back.",
    ),
]
_Keep = Annotated[
    bool, typer.Option("--keep", help="Keep data and logs of a run that passes, too.")
]
_NoTapes = Annotated[
    bool,
    typer.Option(
        "--no-tapes", help="Without the tapes, from which a naive engine judges every call."
    ),
]


def chaos(
    seconds: _Seconds = 60.0,
    seed: _Seed = 1,
    regions: _Regions = 3,
    faults: _Faults = None,
    appendfsync: _Appendfsync = "always",
    rate: _Rate = 200.0,
    level_bound: _LevelBound = 60.0,
    restart_with: _RestartWith = "",
    out: _Out = DEFAULT_OUT,
    keep: _Keep = False,
    no_tapes: _NoTapes = False,
    json: JsonOption = False,
) -> None:
    """Run regions on this machine, break them and their links, and judge what clients saw.

    Faults of links need toxiproxy-server (`make toxiproxy`). Exits with 1 if a judge finds a
    violation. Then data, logs and history stay in the directory of the run. With --json, what
    happens is told on stderr.
    """
    if appendfsync not in ("always", "everysec", "no"):
        raise UsageError(f"--appendfsync is always, everysec or no, not '{appendfsync}'")
    kinds = _kinds(faults)
    _check_needed(kinds, restart_with)
    directory = _made(out, seed)
    options = Options(
        seed, seconds, directory, regions, kinds, appendfsync, rate, level_bound, keep, restart_with
    )
    options = replace(options, has_tapes=not no_tapes)
    talk = sys.stderr if json else sys.stdout
    print(options.command(), file=talk, flush=True)
    end_as_after_ctrl_c()
    try:
        outcome = run(options, lambda text: print(text, file=talk, flush=True))
    except (ChaosFailed, ToxiproxyMissing, ToxiproxyError, NoSuchBuild) as error:
        raise CliError(f"{error}\nwhat there is of logs and data: {directory}") from None
    except KeyboardInterrupt:
        told = f"interrupted, and not judged; what there is of logs and data: {directory}"
        print(told, file=talk)
        raise
    page = report.write(outcome, directory)
    broken = [name for name, found in outcome.violations.items() if found]
    if json:
        print_json(_as_json(outcome, page))
    else:
        print(f"{report.text(outcome)}\nreport: {page}")
        if broken:
            print(f"data and logs: {directory}; the same plan again: {options.command()}")
        else:
            print(f"seed {seed}: 0 violations")
    if broken:
        sys.stdout.flush()
        raise ProblemsTold(f"seed {seed}: violations found by {', '.join(broken)}")


def _as_json(outcome: report.Outcome, page: Path) -> dict[str, Any]:
    """The outcome for programs. `problems`: the violations, with their judges."""
    return {
        "seed": outcome.plan.seed,
        "command": outcome.command,
        "report": str(page),
        "figures": report.figures(outcome),
        "notes": outcome.notes,
        "problems": [
            f"{judge}: {line}" for judge, found in outcome.violations.items() for line in found
        ],
    }


def _check_needed(kinds: tuple[str, ...], restart_with: str) -> None:
    """CliError if toxiproxy-server or the other build is needed and not there."""
    try:
        if break_links(kinds):
            program()
        if restart_with:
            OtherBuild(restart_with)
    except (ToxiproxyMissing, NoSuchBuild) as error:
        raise CliError(str(error)) from None


def _kinds(text: str | None) -> tuple[str, ...]:
    """The kinds that ``--faults`` names; UsageError for an unknown one."""
    if text is None:
        return KINDS
    asked = [word.strip() for word in text.split(",") if word.strip()]
    if asked == ["none"]:
        return ()
    for word in asked:
        if word not in KINDS:
            raise UsageError(f"--faults: no kind '{word}'; there are {', '.join(KINDS)}")
    if not asked:
        raise UsageError("--faults names no kind; 'none' runs without faults")
    return tuple(kind for kind in KINDS if kind in asked)


def _made(out: Path, seed: int) -> Path:
    """A new directory for this run."""
    number = 1
    while True:
        directory = out / (f"seed-{seed}" if number == 1 else f"seed-{seed}-{number}")
        try:
            directory.mkdir(parents=True)
            return directory.resolve()
        except FileExistsError:
            number += 1
        except OSError as error:
            raise CliError(f"cannot make {directory}: {error.strerror}") from None
