"""The parts of Rocket Rides: the command line of one process of a run."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from examples.rocket_rides import api, consumer, spark_consumer, streamer, tables, trimmer
from examples.rocket_rides.database import DatabaseError, open_database
from examples.rocket_rides.mishaps import Mishaps
from examples.rocket_rides.reconciliation import reconcile
from examples.rocket_rides.ride_log import RideLog, endpoints

NAMES = ("api", "streamer", "consumer", "spark", "trimmer", "reconcile")


def main(arguments: Sequence[str]) -> int:
    """Runs the part that the first argument names; returns the exit code.

    All but `reconcile` run until a signal ends them.
    """
    return _part(_parser().parse_args(arguments))


def share(text: str) -> float:
    """A probability of mishaps, from a command line."""
    number = float(text)
    # A consumer that always crashes makes no progress.
    if not 0 <= number <= 0.9:
        raise argparse.ArgumentTypeError("must be between 0 and 0.9")
    return number


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m examples.rocket_rides")
    parts = parser.add_subparsers(dest="part", required=True)
    for name in NAMES:
        part = parts.add_parser(name)
        part.add_argument("--database", required=True, metavar="URL")
        if name != "api":
            part.add_argument("--cluster", required=True, type=Path, metavar="FILE")
        if name in ("api", "streamer", "consumer", "spark"):
            part.add_argument("--region", required=True)
        if name == "api":
            part.add_argument("--port", required=True, type=int)
        if name in ("streamer", "consumer", "spark"):
            part.add_argument("--seed", type=int, default=7, help="of the mishaps; default 7")
            part.add_argument("--share", type=share, default=0.0, help="of mishaps; default 0")
        if name in ("consumer", "spark"):
            part.add_argument("--name", required=True)
            part.add_argument("--life", type=int, default=1, help="how often it was started")
        if name == "consumer":
            part.add_argument("--way", choices=(tables.LOG_WAY, tables.ONE_ID_WAY), default="log")
        if name == "spark":
            part.add_argument("--directory", required=True, type=Path, help="for its checkpoint")
    return parser


def _part(arguments: argparse.Namespace) -> int:
    if arguments.part == "api":
        api.serve(arguments.database, arguments.region, arguments.port)
    elif arguments.part == "streamer":
        _streamer(arguments)
    elif arguments.part == "consumer":
        _consumer(arguments)
    elif arguments.part == "spark":
        _spark(arguments)
    else:
        regions = endpoints(arguments.cluster)
        databases = {one.name: open_database(arguments.database, one.name) for one in regions}
        if arguments.part == "trimmer":
            trimmer.run(trimmer.Trimmer(list(databases.values()), regions))
        for name, database in databases.items():
            if not tables.exists(database, arguments.database, name):
                raise DatabaseError(f"{arguments.database} holds no run of the region {name}")
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
    uses_one_id = arguments.way == tables.ONE_ID_WAY
    reader = consumer.OneIdReader(log) if uses_one_id else consumer.LogReader(log)
    mishaps = Mishaps(arguments.seed, arguments.name, arguments.life, arguments.share)
    consumer.run(reader, consumer.Totals(database, arguments.name), mishaps)


def _spark(arguments: argparse.Namespace) -> None:
    regions = endpoints(arguments.cluster, arguments.region)

    def opened() -> closing[spark_consumer.SparkTotals]:
        database = open_database(arguments.database, arguments.region)
        return closing(spark_consumer.SparkTotals(database, arguments.name))

    mishaps = Mishaps(arguments.seed, arguments.name, arguments.life, arguments.share)
    spark_consumer.run(regions, opened, mishaps, arguments.directory)
