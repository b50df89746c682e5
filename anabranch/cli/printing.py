"""JSON on standard output: one document for each command with `--json`.

A command that fails prints a document, too: with its problems, or, if it has none, with the error
that ends it (`usage.Command`). The exit code is the one without `--json`.
"""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from anabranch.cli.errors import UsageError

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
SureJsonOption = Annotated[
    bool, typer.Option("--json", help="Print JSON, for programs; needs --yes.")
]

YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


def print_json(facts: Any) -> None:
    """Prints the one document of a command."""
    print(json.dumps(facts, indent=2))


def require_yes(json: bool, yes: bool) -> None:
    """UsageError if a command would have to ask, with its output meant for a program."""
    if json and not yes:
        raise UsageError("--json asks nothing: give --yes, too")
