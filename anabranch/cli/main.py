"""The entry point: the table of `anabranch` commands, and the exit codes of their errors."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Annotated, Any, Final, NamedTuple

import typer

from anabranch import build
from anabranch.cli import bench
from anabranch.cli.errors import CliError
from anabranch.cli.passwords import takes_password
from anabranch.cli.terminal import guard_streams
from anabranch.cli.usage import BenchCommand, Command


class _Row(NamedTuple):
    """A command. `place`: module in `anabranch.cli`, and function."""

    name: str
    place: str
    takes_password: bool = False


_COMMANDS: Final = (
    _Row("up", "up.up"),
    _Row("serve", "serve.serve"),
    _Row("status", "status.status", takes_password=True),
    _Row("console", "console.console", takes_password=True),
    _Row("top", "top.top", takes_password=True),
    _Row("link cut", "links.cut", takes_password=True),
    _Row("link heal", "links.heal", takes_password=True),
    _Row("link delay", "links.delay", takes_password=True),
    _Row("link limit", "links.limit", takes_password=True),
    _Row("link flap", "links.flap", takes_password=True),
    _Row("link status", "links.status", takes_password=True),
    _Row("cluster show", "cluster_file.show", takes_password=True),
    _Row("member lost", "members.lost", takes_password=True),
    _Row("clock reset", "clocks.reset", takes_password=True),
    _Row("clock trust", "clocks.trust", takes_password=True),
    _Row("explain", "explain.explain", takes_password=True),
    _Row("log", "explain.log", takes_password=True),
    _Row("whatif region-lost", "whatif.region_lost", takes_password=True),
    _Row("diff", "diff.diff", takes_password=True),
    _Row("export", "export.export", takes_password=True),
    _Row("judge", "judge.judge"),
    _Row("backup", "data.backup"),
    _Row("restore", "data.restore"),
    _Row("check", "data.check"),
    _Row("repair", "repair.repair", takes_password=True),
    _Row("cert create-ca", "certificates.create_ca"),
    _Row("cert create-region", "certificates.create_region"),
    _Row("cert create-client", "certificates.create_client"),
    _Row("cert show", "certificates.show"),
    _Row("cert renew", "certificates.renew"),
    _Row("scenario run", "scenario.run", takes_password=True),
    _Row("scenario record", "recording.record", takes_password=True),
    _Row("pipeline audit", "pipeline.audit.audit"),
    _Row("pipeline lag", "pipeline.lag.lag"),
    _Row("pipeline archive", "pipeline.archive.archive"),
    _Row("pipeline restore", "pipeline.archive.restore"),
    _Row("pipeline sweep", "pipeline.sweep.sweep"),
    _Row("simulate", "simulate.simulate"),
    _Row("chaos", "chaos.chaos"),
    _Row("bench", "bench.bench"),
)
_GROUPS: Final = {
    "link": "Cut, heal and slow the links between regions of a running cluster.",
    "cluster": "The cluster file, in which commands find the regions.",
    "member": "The members of the cluster.",
    "clock": "The clocks of the regions, when one of them was wrong.",
    "cert": "The certificates with which regions know each other.",
    "whatif": "The consequences of an event that has not happened.",
    "scenario": (
        "Scenario files: tables of commands for several regions, with the expected replies."
    ),
    "pipeline": "Jobs on Spark over the streams of a cluster.",
}
"""The first words of commands that have two, with their help."""
# Flags after the name of a benchmark, --help too, are those of the benchmark.
_OF_BENCH: Final = {
    "allow_extra_args": True,
    "ignore_unknown_options": True,
    "allow_interspersed_args": False,
}


def application(first: str = "") -> typer.Typer:
    """The command line.

    If `first`, the first word of a command line, is that of a command, there is no other command:
    to import the modules of all takes longer than most commands, and than the start of a region.
    """
    app = typer.Typer(
        name="anabranch",
        help="Redis Streams that several regions write at once.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    groups: dict[str, typer.Typer] = {}
    rows = [row for row in _COMMANDS if row.name.split()[0] == first]
    for row in rows or _COMMANDS:
        group, _, name = row.name.rpartition(" ")
        if group and group not in groups:
            groups[group] = typer.Typer(help=_GROUPS[group], no_args_is_help=True)
            app.add_typer(groups[group], name=group)
        _add(groups.get(group, app), name, row)
    return app


def _add(app: typer.Typer, name: str, row: _Row) -> None:
    module, _, function = row.place.rpartition(".")
    command: Any = getattr(import_module(f"anabranch.cli.{module}"), function)
    if row.takes_password:
        command = takes_password(command)
    if name == "bench":
        # The list of commands leaves it out where there are no benchmarks; asked for by its name,
        # it says where they are.
        is_absent = not bench.is_at_hand()
        app.command(name, cls=BenchCommand, context_settings=_OF_BENCH, hidden=is_absent)(command)
    else:
        app.command(name, cls=Command)(command)


def _version(asked: bool) -> None:
    if asked:
        print(f"anabranch {build.version()}, {build.describe()}")
        raise typer.Exit


def _root(
    show: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Version and build.")
    ] = False,
) -> None:
    """Redis Streams that several regions write at once."""


def main() -> None:
    """Runs the command line.

    An error ends it with one line on stderr: code 1 if the cluster or the machine is at fault, code
    2 if an argument or a file of options is. So does an output that cannot be written, unless the
    reader of a pipe has gone.
    """
    guard_streams()
    code = _outcome()
    try:
        # At its end Python would drop what cannot be written, and report success.
        sys.stdout.flush()
    except OSError as error:
        if not isinstance(error, BrokenPipeError):
            code = code or _told(error)
        # Python flushes stdout once more when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.exit(code)


def _outcome() -> int:
    """Runs the command, and tells its error. Returns the exit code."""
    try:
        application(sys.argv[1] if len(sys.argv) > 1 else "")()
    except CliError as error:
        print(f"anabranch: {error}", file=sys.stderr)
        return error.exit_code
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return 0
    except OSError as error:
        return _told(error)
    return 0


def _told(error: OSError) -> int:
    """Tells of a file that cannot be read or written, or an output that cannot take more."""
    where = f"{error.filename}: " if error.filename is not None else ""
    print(f"anabranch: {where}{error.strerror or error}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    main()
