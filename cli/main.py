"""The entry point: the table of `anabranch` commands, and the exit codes of their errors."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from anabranch import build
from anabranch.cli import (
    bench,
    chaos,
    console,
    data,
    diff,
    explain,
    export,
    judge,
    links,
    members,
    pipeline,
    recording,
    scenario,
    serve,
    simulate,
    status,
    top,
    up,
    whatif,
)
from anabranch.cli.errors import CliError
from anabranch.cli.passwords import takes_password
from anabranch.cli.terminal import guard_streams
from anabranch.cli.usage import BenchCommand, Command

app = typer.Typer(
    name="anabranch",
    help="Redis Streams that several regions write at once.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
link_app = typer.Typer(
    help="Cut, heal and slow the links between regions of a running cluster.", no_args_is_help=True
)
member_app = typer.Typer(help="The members of the cluster.", no_args_is_help=True)
whatif_app = typer.Typer(
    help="The consequences of an event that has not happened.", no_args_is_help=True
)
scenario_app = typer.Typer(
    help="Scenario files: tables of commands for several regions, with the expected replies.",
    no_args_is_help=True,
)

app.command("up", cls=Command)(up.up)
app.command("serve", cls=Command)(serve.serve)
app.command("status", cls=Command)(takes_password(status.status))
app.command("console", cls=Command)(takes_password(console.console))
app.command("top", cls=Command)(takes_password(top.top))
app.add_typer(link_app, name="link")
app.add_typer(member_app, name="member")
app.command("explain", cls=Command)(takes_password(explain.explain))
app.command("log", cls=Command)(takes_password(explain.log))
app.add_typer(whatif_app, name="whatif")
app.command("diff", cls=Command)(takes_password(diff.diff))
app.command("export", cls=Command)(takes_password(export.export))
app.command("judge", cls=Command)(judge.judge)
app.command("backup", cls=Command)(data.backup)
app.command("restore", cls=Command)(data.restore)
app.command("check", cls=Command)(data.check)
app.command("repair", cls=Command)(data.repair)
app.add_typer(scenario_app, name="scenario")
app.add_typer(pipeline.app, name="pipeline")
app.command("simulate", cls=Command)(simulate.simulate)
app.command("chaos", cls=Command)(chaos.chaos)
app.command(
    "bench",
    cls=BenchCommand,
    # Flags after the name, --help too, are those of the benchmark.
    context_settings={
        "allow_extra_args": True,
        "ignore_unknown_options": True,
        "allow_interspersed_args": False,
    },
)(bench.bench)
link_app.command("cut", cls=Command)(takes_password(links.cut))
link_app.command("heal", cls=Command)(takes_password(links.heal))
link_app.command("delay", cls=Command)(takes_password(links.delay))
link_app.command("limit", cls=Command)(takes_password(links.limit))
link_app.command("flap", cls=Command)(takes_password(links.flap))
link_app.command("status", cls=Command)(takes_password(links.status))
member_app.command("lost", cls=Command)(takes_password(members.lost))
whatif_app.command("region-lost", cls=Command)(takes_password(whatif.region_lost))
scenario_app.command("run", cls=Command)(takes_password(scenario.run))
scenario_app.command("record", cls=Command)(takes_password(recording.record))


def _version(asked: bool) -> None:
    if asked:
        print(f"anabranch {build.version()}, {build.describe()}")
        raise typer.Exit


@app.callback()
def _root(
    show: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Version and build.")
    ] = False,
) -> None:
    """Redis Streams that several regions write at once."""


def main() -> None:
    """Runs the command line.

    An error ends it with one line on stderr: code 1 if the cluster or the machine is at fault, code
    2 if an argument or a file of options is.
    """
    guard_streams()
    try:
        app()
    except CliError as error:
        print(f"anabranch: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(0)
    except OSError as error:
        # A file that cannot be read or written, or an output that cannot take more.
        where = f"{error.filename}: " if error.filename is not None else ""
        print(f"anabranch: {where}{error.strerror or error}", file=sys.stderr)
        # Python flushes stdout once more when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(1)


if __name__ == "__main__":
    main()
