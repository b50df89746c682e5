"""The command line of Rocket Rides: `python -m examples.rocket_rides`.

Without the name of a part, it performs a whole run. A part is one process of a run.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from rich.console import Console

from examples.rocket_rides import api, consumer, streamer, tables, trimmer
from examples.rocket_rides.database import DatabaseError, open_database
from examples.rocket_rides.fleet import Fleet, ProcessFailed
from examples.rocket_rides.load import LoadError
from examples.rocket_rides.mishaps import Mishaps
from examples.rocket_rides.reconciliation import reconcile
from examples.rocket_rides.report import WIDTH, LiveTable, report
from examples.rocket_rides.ride_log import LogError, RideLog, endpoints
from examples.rocket_rides.run import Options, Run

INTERRUPTED = 130
PARTS = ("api", "streamer", "consumer", "trimmer", "reconcile")


def main(arguments: Sequence[str]) -> int:
    """Runs a part, or everything; returns the exit code, 0 if all agree."""
    is_part = bool(arguments) and arguments[0] in PARTS
    try:
        if is_part:
            return _part(_part_parser().parse_args(arguments))
        return _everything(_run_parser().parse_args(arguments))
    except (LogError, DatabaseError, LoadError, ProcessFailed) as error:
        print(f"rocket rides: {error}", file=sys.stderr)
        return 1


# -- a whole run


def _run_parser() -> argparse.ArgumentParser:
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
        "--double-sends", type=_share, default=0.1, metavar="SHARE", help="of batches; default 0.1"
    )
    parser.add_argument(
        "--crashes", type=_share, default=0.1, metavar="SHARE", help="of batches; default 0.1"
    )
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return number


def _share(text: str) -> float:
    share = float(text)
    # A consumer that always crashes makes no progress.
    if not 0 <= share <= 0.9:
        raise argparse.ArgumentTypeError("must be between 0 and 0.9")
    return share


def _everything(arguments: argparse.Namespace) -> int:
    options = Options(
        arguments.rides,
        arguments.seed,
        arguments.consumers,
        arguments.cluster.resolve() if arguments.cluster else None,
        arguments.database,
        arguments.double_sends,
        arguments.crashes,
    )
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    directory = Path(tempfile.mkdtemp(prefix="rocket-rides-"))
    fleet = Fleet(directory / "logs")
    is_kept = True
    try:
        with LiveTable(console, options.rides) as table:
            outcome = Run(options, directory, fleet, table.show).perform()
        console.print(report(outcome))
        is_kept = bool(outcome.reconciliation.differences)
        return 1 if is_kept else 0
    except KeyboardInterrupt:
        is_kept = False
        print("rocket rides: interrupted; all its processes are ended", file=sys.stderr)
        return INTERRUPTED
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        fleet.stop()
        if is_kept:
            print(f"rocket rides: databases and logs are in {directory}", file=sys.stderr)
        else:
            shutil.rmtree(directory, ignore_errors=True)


def _interrupt(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt


# -- one part


def _part_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m examples.rocket_rides")
    parts = parser.add_subparsers(dest="part", required=True)
    for name in PARTS:
        part = parts.add_parser(name)
        part.add_argument("--database", required=True, metavar="URL")
        if name != "api":
            part.add_argument("--cluster", required=True, type=Path, metavar="FILE")
        if name in ("api", "streamer", "consumer"):
            part.add_argument("--region", required=True)
        if name == "api":
            part.add_argument("--port", required=True, type=int)
        if name in ("streamer", "consumer"):
            part.add_argument("--seed", type=int, default=7, help="of the mishaps; default 7")
            part.add_argument("--share", type=_share, default=0.0, help="of mishaps; default 0")
        if name == "consumer":
            part.add_argument("--name", required=True)
            part.add_argument("--way", choices=(tables.LOG_WAY, tables.SEED_WAY), default="log")
            part.add_argument("--life", type=int, default=1, help="how often it was started")
    return parser


def _part(arguments: argparse.Namespace) -> int:
    if arguments.part == "api":
        api.serve(arguments.database, arguments.region, arguments.port)
    elif arguments.part == "streamer":
        _streamer(arguments)
    elif arguments.part == "consumer":
        _consumer(arguments)
    else:
        regions = endpoints(arguments.cluster)
        databases = {one.name: open_database(arguments.database, one.name) for one in regions}
        if arguments.part == "trimmer":
            trimmer.run(trimmer.Trimmer(list(databases.values()), regions))
        differences = reconcile(databases, regions).differences
        print("\n".join(differences) or "all totals agree for every ride")
        return 1 if differences else 0
    return 0


def _streamer(arguments: argparse.Namespace) -> None:
    regions = endpoints(arguments.cluster, arguments.region)
    database = open_database(arguments.database, arguments.region)
    mishaps = Mishaps(arguments.seed, f"streamer-{arguments.region}", share=arguments.share)
    elsewhere = RideLog([*regions[1:], regions[0]])
    streamer.run(streamer.Streamer(database, RideLog(regions), elsewhere, mishaps))


def _consumer(arguments: argparse.Namespace) -> None:
    log = RideLog(endpoints(arguments.cluster, arguments.region))
    database = open_database(arguments.database, arguments.region)
    is_seed_way = arguments.way == tables.SEED_WAY
    reader = consumer.SeedReader(log) if is_seed_way else consumer.LogReader(log)
    mishaps = Mishaps(arguments.seed, arguments.name, arguments.life, arguments.share)
    consumer.run(reader, consumer.Totals(database, arguments.name), mishaps)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
