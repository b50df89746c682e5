"""`python -m anabranch.sim.mutants run | mechanical | try`: are planted bugs found, and how?"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from anabranch.sim.mutants import equivalent, mechanical
from anabranch.sim.mutants import run as planted
from anabranch.sim.mutants.tree import copy_tree
from anabranch.sim.mutants.trial import differences


def _mechanical(options: argparse.Namespace) -> int:
    entries = equivalent.read(equivalent.FILE.read_text(encoding="utf-8"))
    stale = equivalent.stale(entries)
    for entry in stale:
        print(f"the source has no such mutant any more: {entry.key}", file=sys.stderr)
    if stale:
        return 2
    asked = mechanical.Options(
        options.sample,
        options.seed,
        options.out,
        options.jobs,
        options.again,
        options.tests_only,
        options.only,
        options.compiled,
    )
    judged: list[mechanical.Judged] = []
    for one in mechanical.run(asked, entries):
        judged.append(one)
        print(f"{len(judged):4} {mechanical.one_line(one)}", flush=True)
    lines, survivors = mechanical.report(judged, entries)
    print("\n".join(lines))
    return 1 if survivors else 0


def _run(options: argparse.Namespace) -> int:
    outcomes: list[planted.Outcome] = []
    asked = (options.only, options.first, options.seeds, options.jobs, options.tests)
    for outcome in planted.run(*asked, compiles=options.compiled):
        outcomes.append(outcome)
        print(planted.one_line(outcome), flush=True)
    lines, missed = planted.table(outcomes, options.first)
    print("\n".join(["", *lines]))
    return 1 if missed or not outcomes else 0


def _try(options: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory(prefix="trial-") as scratch:
        try:
            text = differences(options.patch, options.scenario.resolve(), copy_tree(Path(scratch)))
        except (OSError, ValueError, RuntimeError) as error:
            print(error, file=sys.stderr)
            return 2
    print(text or f"{options.scenario.name} passes with {options.patch.name}")
    return 1 if text else 0


def _add_compiled(arguments: argparse._ActionsContainer) -> None:
    arguments.add_argument(
        "--compiled",
        action="store_true",
        help="compile the copies: this tries the bugs in the build that users run",
    )


def _add_run(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = commands.add_parser(
        "run", help="the planted bugs, against the simulator and the tests", allow_abbrev=False
    )
    command.add_argument(
        "--seeds", type=int, default=planted.SEEDS, help="how many seeds are tried for each bug"
    )
    command.add_argument("--first", type=int, default=0, help="the first seed")
    command.add_argument(
        "--only",
        default="",
        help="a number, a part of a name, or several of them, separated by commas",
    )
    command.add_argument("--jobs", type=int, default=2)
    one_of = command.add_mutually_exclusive_group()
    _add_compiled(one_of)
    one_of.add_argument(
        "--tests",
        type=Path,
        metavar="FILE",
        help="give the bugs that no seed catches to the tests; FILE keeps which test runs what",
    )
    command.set_defaults(act=_run)


def _add_mechanical(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = commands.add_parser(
        "mechanical",
        help="small changes of crdt, region/engine and region/storage, against tests and simulator",
        allow_abbrev=False,
    )
    command.add_argument("--sample", type=int, default=300)
    command.add_argument("--seed", type=int, default=1)
    command.add_argument(
        "--out",
        type=Path,
        default=Path("mutants.jsonl"),
        help="file of verdicts; mutants with a verdict in it are not judged again",
    )
    command.add_argument("--jobs", type=int, default=2)
    command.add_argument(
        "--again",
        action="store_true",
        help="judges the survivors in --out again, except those listed as equivalent",
    )
    command.add_argument("--tests-only", action="store_true", help="without the simulator")
    _add_compiled(command)
    command.add_argument("--only", default="", help="files whose path contains this")
    command.set_defaults(act=_mechanical)


def _add_try(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = commands.add_parser(
        "try", help="a scenario file in a copy of the tree with a patch", allow_abbrev=False
    )
    command.add_argument("patch", type=Path, help="a planted bug, or a rule of docs/learn/simpler")
    command.add_argument("scenario", type=Path, help="a scenario file")
    command.set_defaults(act=_try)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m anabranch.sim.mutants", description=__doc__, allow_abbrev=False
    )
    commands = parser.add_subparsers(required=True)
    _add_run(commands)
    _add_mechanical(commands)
    _add_try(commands)
    options = parser.parse_args()
    return int(options.act(options))


if __name__ == "__main__":
    sys.exit(main())
