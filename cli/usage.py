"""The help texts of commands: usage lines in one notation, and the list of benchmarks."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand

from anabranch.cli import bench
from anabranch.cli.errors import CliError


class Command(TyperCommand):
    """A command whose usage line shows ``NAME`` for a required argument, ``[NAME]`` for others."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The parts of the usage line. Some versions of typer put required names in braces."""
        return [
            piece[1:-1] if piece.startswith("{") and piece.endswith("}") else piece
            for piece in super().collect_usage_pieces(ctx)
        ]


class BenchCommand(Command):
    """`anabranch bench`, whose help lists the benchmarks."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return ["[NAME [OPTIONS]]"]

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
