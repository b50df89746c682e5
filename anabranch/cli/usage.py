"""The help texts of commands: usage lines in one notation, and the list of benchmarks."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand

from anabranch.cli import bench
from anabranch.cli.errors import CliError


class Command(TyperCommand):
    """A command whose usage line shows ``NAME`` for a required argument, ``[NAME]`` for others.

    Typer puts a metavar of optional arguments in brackets, and some versions put required ones in
    braces. So a metavar that has brackets itself would get two pairs.
    """

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The parts of the usage line."""
        return [_tidy(piece) for piece in super().collect_usage_pieces(ctx)]


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
