"""`anabranch bench`: calls the benchmarks of a source tree."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path
from types import ModuleType

import typer

from anabranch import build
from anabranch.cli.errors import CliError, UsageError


def bench(context: typer.Context) -> None:
    """Run benchmarks of this build, some of them beside redis-server.

    NAME picks one benchmark, which takes its own options; without NAME, all run. Benchmarks are
    part of the source tree, and are not installed.
    """
    tree = _source_tree(Path.cwd())
    if tree is None:
        raise CliError(
            "the benchmarks are not installed: run this command in a checkout of anabranch,"
            " or `make bench` there"
        )
    build.include_source_tree(tree)
    package = importlib.import_module("anabranch.bench")
    names = sorted(
        found.name
        for found in pkgutil.iter_modules(package.__path__)
        if not found.name.startswith("_")
    )
    runnable = [name for name in names if hasattr(_module(name), "main")]
    chosen, arguments = (
        (context.args[:1], context.args[1:])
        if context.args and not context.args[0].startswith("-")
        else (runnable, context.args)
    )
    unknown = [name for name in chosen if name not in runnable]
    if unknown:
        raise UsageError(f"no benchmark '{unknown[0]}'; there are {', '.join(runnable) or 'none'}")
    failed = False
    for name in chosen:
        failed = bool(_module(name).main(arguments)) or failed
    raise typer.Exit(1 if failed else 0)


def _source_tree(start: Path) -> Path | None:
    """The source tree that contains `start` or the code of this command; None if there is none."""
    for folder in (start, *start.parents, build.root()):
        if (folder / "bench" / "redis_comparison.py").exists() and (folder / "anabranch").is_dir():
            return folder
    return None


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"anabranch.bench.{name}")
