"""Keys as they are typed on the command line."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from anabranch.cli.errors import UsageError
from anabranch.escapes import original

KeyArgument = Annotated[str, typer.Argument(metavar="KEY", help="A key.", show_default=False)]
EscapedOption = Annotated[
    bool,
    typer.Option(
        "--escaped",
        help="KEY is as the output shows it: \\x00 stands for a byte, \\\\ for a backslash.",
    ),
]


def name_of(key: str, is_escaped: bool) -> bytes:
    """The bytes of a key as typed. UsageError if its escapes are wrong."""
    if not is_escaped:
        return os.fsencode(key)
    try:
        return original(key)
    except ValueError as error:
        raise UsageError(f"KEY: {error}") from None
