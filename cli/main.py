"""The entry point: the table of `anabranch` commands, and the exit codes of their errors."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from anabranch import build
from anabranch.cli import (
    bench,
    chaos,
    diff,
    explain,
    links,
    members,
    scenario,
    serve,
    simulate,
    status,
    up,
)
from anabranch.cli.errors import CliError

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
scenario_app = typer.Typer(
    help="Scenario files: tables of commands for several regions, with the expected replies.",
    no_args_is_help=True,
)

app.command("up")(up.up)
app.command("serve")(serve.serve)
app.command("status")(status.status)
app.add_typer(link_app, name="link")
app.add_typer(member_app, name="member")
app.command("explain")(explain.explain)
app.command("diff")(diff.diff)
app.add_typer(scenario_app, name="scenario")
app.command("simulate")(simulate.simulate)
app.command("chaos")(chaos.chaos)
app.command("bench", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(
    bench.bench
)
link_app.command("cut")(links.cut)
link_app.command("heal")(links.heal)
link_app.command("delay")(links.delay)
link_app.command("limit")(links.limit)
link_app.command("flap")(links.flap)
link_app.command("status")(links.status)
member_app.command("lost")(members.lost)
scenario_app.command("run")(scenario.run)


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
    2 if an argument is.
    """
    try:
        app()
    except CliError as error:
        print(f"anabranch: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(0)


if __name__ == "__main__":
    main()
