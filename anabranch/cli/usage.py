"""The help texts of commands: usage lines in one notation, and the list of benchmarks."""

from __future__ import annotations

import re
import sys
from typing import Any, Final

from typer.core import TyperCommand

from anabranch.cli import bench
from anabranch.cli.errors import CliError, ProblemsTold
from anabranch.cli.printing import print_json

# The names of types that Typer writes into help texts, with the words for them.
_TYPE: Final = re.compile(r" <([^>]*)>")
# The bounds of numbers, which Typer writes into help texts, too.
_RANGE: Final = re.compile(r"([\d.]+)<=x<=([\d.]+)")
_AT_LEAST: Final = re.compile(r"\bx>=([\d.]+)")
_WORDS: Final = {"int": "NUMBER", "float": "NUMBER", "path": "PATH"}


class Command(TyperCommand):
    """A command whose usage line shows ``NAME`` for a required argument, ``[NAME]`` for others.

    Typer puts a metavar of optional arguments in brackets, and some versions put required ones in
    braces. So a metavar that has brackets itself would get two pairs.
    """

    def invoke(self, ctx: Any) -> Any:
        """Runs the command. With ``--json``, an error that ends it is in a document on stdout."""
        try:
            return super().invoke(ctx)
        except CliError as error:
            wants_json = ctx.params.get("json") is True or ctx.params.get("as_json") is True
            if wants_json and not isinstance(error, ProblemsTold):
                lines = str(error).split("\n")
                print_json({"problems": [line.strip() for line in lines]})
                sys.stdout.flush()
            raise

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The parts of the usage line."""
        return [_tidy(piece) for piece in super().collect_usage_pieces(ctx)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Writes arguments and options, without names of Python's types.

        Typer shows ``TAPES <list[Path]>``, ``--interval <float range>`` and ``[1<=x<=9]``.
        """
        for kind, title in (("argument", "Arguments"), ("option", "Options")):
            found = [one for one in self.get_params(ctx) if one.param_type_name == kind]
            rows = [row for one in found if (row := one.get_help_record(ctx)) is not None]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(
                        [(_without_types(name, kind), _in_words(text)) for name, text in rows]
                    )


def _without_types(name: str, kind: str) -> str:
    """``TAPES <list[Path]>`` → ``TAPES``, ``--interval <float range>`` → ``--interval NUMBER``."""
    if kind == "argument":
        return _TYPE.sub("", name)
    return _TYPE.sub(lambda found: f" {_WORDS.get(found[1].split()[0], 'TEXT')}", name)


def _in_words(text: str) -> str:
    """``[default: 3; 2<=x<=9]`` → ``[default: 3; 2 to 9]``, ``[x>=1]`` → ``[at least 1]``."""
    return _AT_LEAST.sub(r"at least \1", _RANGE.sub(r"\1 to \2", text))


def _tidy(piece: str) -> str:
    """``{US}`` → ``US``, ``[[KEY]]`` → ``[KEY]``, ``[[PATH…]]...`` → ``[PATH…]``."""
    bare = piece.removesuffix("...")
    if bare.startswith("{") and bare.endswith("}"):
        return bare[1:-1] + piece[len(bare) :]
    return bare[1:-1] if bare.startswith("[[") and bare.endswith("]]") else piece


class BenchCommand(Command):
    """`anabranch bench`, whose help lists the benchmarks."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return ["[NAME] [OPTIONS]"]

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Writes the names of the benchmarks with their first lines."""
        try:
            benchmarks, programs = bench.listed()
        except CliError as error:
            formatter.write_paragraph()
            formatter.write_text(str(error))
            return
        for title, rows in (("Benchmarks", benchmarks), ("Acceptance programs", programs)):
            with formatter.section(title):
                formatter.write_dl(rows)
