"""The command line of a whole run."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from examples.rocket_rides.fleet import Fleet, Interrupted
from examples.rocket_rides.parts import share
from examples.rocket_rides.report import WIDTH, LiveTable, report
from examples.rocket_rides.run import Options, Run
from examples.rocket_rides.spark_consumer import lacking

INTERRUPTED = 130


def main(arguments: Sequence[str]) -> int:
    """Performs a whole run; returns the exit code, 0 if all agree."""
    parser = _parser()
    given = parser.parse_args(arguments)
    if given.spark and lacking():
        parser.error(f"--spark: {lacking()}")
    return _everything(given)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m examples.rocket_rides",
        description="Rides in several regions at once, with a partition, double sends and crashes."
        " Exits with 0 if the totals of all consumers equal those of the API for every ride, and no"
        " record was added to the stream twice.",
    )
    parser.add_argument("--rides", type=_positive, default=10_000, help="default 10000")
    parser.add_argument("--seed", type=int, default=7, help="of rides and mishaps; default 7")
    parser.add_argument(
        "--consumers", type=_positive, default=2, help="consumers in each region; default 2"
    )
    parser.add_argument(
        "--cluster",
        type=Path,
        metavar="FILE",
        help="cluster.toml of running regions; default: start us and eu",
    )
    parser.add_argument(
        "--database",
        metavar="URL",
        help="sqlite:DIRECTORY or postgresql://…; default: SQLite in a temporary directory",
    )
    parser.add_argument(
        "--double-sends", type=share, default=0.1, metavar="SHARE", help="of batches; default 0.1"
    )
    parser.add_argument(
        "--crashes", type=share, default=0.1, metavar="SHARE", help="of batches; default 0.1"
    )
    parser.add_argument(
        "--spark", action="store_true", help="also a consumer that is a Spark job, killed once"
    )
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return number


def _everything(arguments: argparse.Namespace) -> int:
    options = Options(
        arguments.rides,
        arguments.seed,
        arguments.consumers,
        arguments.cluster.resolve() if arguments.cluster else None,
        arguments.database,
        arguments.double_sends,
        arguments.crashes,
        arguments.spark,
    )
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH)
    directory = Path(tempfile.mkdtemp(prefix="rocket-rides-"))
    fleet = Fleet(directory / "logs")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, fleet.interrupt)
    is_kept = True
    try:
        with LiveTable(console, options.rides) as table:
            outcome = Run(options, directory, fleet, table.show).perform()
        console.print(report(outcome))
        is_kept = bool(outcome.reconciliation.differences)
        return 1 if is_kept else 0
    except Interrupted:
        is_kept = False
        print("rocket rides: interrupted; all its processes are ended", file=sys.stderr)
        return INTERRUPTED
    finally:
        fleet.stop()
        if is_kept:
            print(f"rocket rides: databases and logs are in {directory}", file=sys.stderr)
        else:
            shutil.rmtree(directory, ignore_errors=True)
