"""The table of speed: a region beside redis-server, with the goal of each row.

`anabranch bench` without a name runs this program. Region and redis-server run in turns, so that
other work on the machine affects both; a ratio divides their rates in the same round. Each row
shows the median of its rounds, the smallest and the largest. A goal that is not met does not fail
the run; a row that cannot be measured does.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from datetime import date
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Optional

from anabranch.bench.table.printing import closing, described, heading, line, number
from anabranch.bench.table.rows import BY_NAME, RECORDED_SHARE, TableRow, chosen
from anabranch.bench.table.servers import RedisServer, RegionServer
from anabranch.bench.table.values import VERSION, Run, dump, load, machine, updated
from anabranch.cluster.errors import ClusterError, ConnectionFailed

# Programs that must be installed, and their Debian packages.
PROGRAMS = {"redis-server": "redis-server", "redis-benchmark": "redis-tools"}
RECORD: Final = Path(__file__).resolve().parent / "recorded.json"
"""The result from which docs/performance.md was written."""
SMOKE_SCALE: Final = 0.1
SMOKE_ROUNDS: Final = 3


def say(text: str) -> None:
    """Prints a line at once."""
    print(text, flush=True)


def facts(run: Run) -> dict[str, Any]:
    """The head of a result: the build that runs, redis-server, the machine, the size of the run."""
    with RegionServer() as ours, RedisServer() as theirs:
        build = ours.info().get("anabranch_build", "unknown")
        version = theirs.info().get("redis_version", "unknown")
    return {
        "version": VERSION,
        "date": date.today().isoformat(),
        "build": build,
        "redis": version,
        "rounds": run.rounds,
        "scale": run.scale,
        "machine": machine(),
        "took_s": 0.0,
        "rows": [],
        "failed": {},
    }


def measure(run: Run, save: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Measures the rows, prints and saves each as it comes, and returns the result.

    The rows that could not be measured are in `failed`, with the reason.
    """
    begun = time.monotonic()
    result = facts(run)
    failed: dict[str, str] = result["failed"]
    say(described(result))
    say(heading())
    for name in dict.fromkeys(row.measure for row in run.rows):
        module = import_module(f"anabranch.bench.table.{name}")
        try:
            for measured, values in module.measure(run):
                one = values.as_json(BY_NAME[measured])
                result["rows"].append(one)
                say(line(one))
                found = result["machine"]
                found["load_max"] = max(found["load_max"], round(os.getloadavg()[0], 1))
                result["took_s"] = round(time.monotonic() - begun, 1)
                save(result)
        except (ClusterError, ConnectionFailed, OSError, AssertionError) as error:
            done = {one["name"] for one in result["rows"]}
            missing = [row.name for row in run.wanted(name) if row.name not in done]
            failed.update(dict.fromkeys(missing, str(error)))
            say(f"NOT MEASURED: {', '.join(missing)}: {error}")
    say(f"{closing(result['rows'])}, {result['took_s']:.0f} s")
    return result


def far_below(result: dict[str, Any], recorded: dict[str, Any]) -> list[str]:
    """The rows of a short run that lie far below the recorded ones, a line each.

    Other work on the machine changes rates, so the ratio by CPU must be far below, too.
    """
    before = {row["name"]: row for row in recorded["rows"]}
    return [
        f"{row['name']}: {number(row['value'])}, recorded {number(before[row['name']]['value'])}"
        for row in result["rows"]
        if row["name"] in before
        and all(
            row[ratio] < RECORDED_SHARE * before[row["name"]].get(ratio, row[ratio])
            for ratio in ("value", "cpu_ratio")
            if ratio in row
        )
    ]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="anabranch bench [performance]", description=__doc__)
    parser.add_argument("--only", action="append", default=[], metavar="GLOB", help="these rows")
    parser.add_argument("--list", action="store_true", help="show the rows with their goals")
    parser.add_argument("--rounds", type=int, help="runs of each row, of each server (5)")
    parser.add_argument("--scale", type=float, help="multiplies entries and commands (1)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result")
    parser.add_argument(
        "--update", action="store_true", help="keep the rows of FILE that are not measured"
    )
    parser.add_argument(
        "--smoke",
        action="store_true",
        help="a short run of a few rows, which fails if a ratio is less than half the recorded one",
    )
    return parser


def main(arguments: Optional[list[str]] = None) -> int:
    """The command line."""
    parser = _parser()
    given = parser.parse_args(arguments)
    rows = chosen(given.only, given.smoke)
    if not rows:
        parser.error(f"no row has a name like {' or '.join(given.only)}; --list shows the names")
    if given.list:
        return _listed(rows)
    run = Run(
        rows,
        given.rounds or (SMOKE_ROUNDS if given.smoke else 5),
        given.scale or (SMOKE_SCALE if given.smoke else 1.0),
        say,
    )
    kept = load(given.json) if given.update and given.json.exists() else None

    def save(result: dict[str, Any]) -> None:
        if given.json is not None:
            dump(result if kept is None else updated(kept, result), given.json)

    result = measure(run, save)
    save(result)
    slow = far_below(result, load(RECORD)) if given.smoke else []
    for text in slow:
        say(f"FAR BELOW THE RECORDED RATIO: {text}")
    return 1 if slow or result["failed"] else 0


def _listed(rows: list[TableRow]) -> int:
    for row in rows:
        say(f"{row.name:<22} {row.goal:>11} {row.unit:<15} {row.text}")
    return 0
