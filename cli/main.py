"""Entry point: the commands of `anabranch`, and how their errors end."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from anabranch import build
from anabranch.cli import (
    bench,
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
member_app = typer.Typer(help="What the cluster knows of its members.", no_args_is_help=True)
scenario_app = typer.Typer(
    help="Scenario files: tables of commands in several regions, and what they must return.",
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
app.command("bench", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(
    bench.bench
)
link_app.command("cut")(links.cut)
link_app.command("heal")(links.heal)
link_app.command("delay")(links.delay)
member_app.command("lost")(members.lost)
scenario_app.command("run")(scenario.run)


def _version(asked: bool) -> None:
    if asked:
        print(f"anabranch {version()}, {build.describe()}")
        raise typer.Exit


def version() -> str:
    """The installed version, or that of a source tree."""
    from importlib import metadata

    try:
        return metadata.version("anabranch")
    except metadata.PackageNotFoundError:
        return "(not installed)"


@app.callback()
def _root(
    show: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Version and build.")
    ] = False,
) -> None:
    """Redis Streams that several regions write at once."""


def main() -> None:
    """Runs the command line; mistakes end with one line on stderr and code 1 (the world) or 2 (what was typed)."""
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
