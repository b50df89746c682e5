"""`anabranch bench`: calls the benchmarks of a source tree."""

from __future__ import annotations

import importlib
import pkgutil
import shutil
from pathlib import Path
from types import ModuleType

import typer

from anabranch import build
from anabranch.cli.errors import CliError, UsageError
from anabranch.cli.interrupting import end_as_after_ctrl_c

_ACCEPTANCE = "acceptance."
# The benchmark that runs if none is named.
_WITHOUT_NAME = "performance"


def bench(context: typer.Context) -> None:
    """Run benchmarks of this build, some of them beside redis-server.

    NAME picks one benchmark, which takes its own options (NAME --help shows them); without NAME,
    performance runs, and takes the options. acceptance.NAME picks an acceptance program.
    Benchmarks are part of the source tree, and are not installed. Exits with 1 when a requirement
    is not met.
    """
    include_benchmarks()
    from anabranch.cluster.errors import ClusterError

    known = [*_runnable(""), *_runnable(_ACCEPTANCE)]
    is_named = bool(context.args) and not context.args[0].startswith("-")
    name = context.args[0] if is_named else _WITHOUT_NAME
    if name not in known:
        raise UsageError(f"no benchmark '{name}'; there are {', '.join(known) or 'none'}")
    _check_programs(name)
    end_as_after_ctrl_c()
    try:
        failed = _module(name).main(context.args[1:] if is_named else context.args)
    except ClusterError as error:
        raise CliError(f"{name}: {error}") from error
    raise typer.Exit(1 if failed else 0)


def is_at_hand() -> bool:
    """Whether there are benchmarks: in the working directory's tree, or in that of this command."""
    return _source_tree(Path.cwd()) is not None


def include_benchmarks() -> None:
    """Makes `anabranch.bench` importable; CliError if there is no source tree."""
    tree = _source_tree(Path.cwd())
    if tree is None:
        raise CliError(
            "the benchmarks are not installed: run this command in a checkout of anabranch,"
            " or `make bench` there"
        )
    build.include_source_tree(tree)


Rows = list[tuple[str, str]]


def listed() -> tuple[Rows, Rows]:
    """Names of the benchmarks and of the acceptance programs, with the first lines of their docs.

    CliError if there is no source tree.
    """
    include_benchmarks()
    benchmarks, programs = (
        [(name, (_module(name).__doc__ or "").partition("\n")[0]) for name in _runnable(prefix)]
        for prefix in ("", _ACCEPTANCE)
    )
    return benchmarks, programs


def _check_programs(name: str) -> None:
    """CliError if a program that the benchmark names in `PROGRAMS` is not installed."""
    programs: dict[str, str] = getattr(_module(name), "PROGRAMS", {})
    for program, package in programs.items():
        if shutil.which(program) is None:
            raise CliError(
                f"{name}: {program} is not installed: it comes with the package {package}"
            )


def _runnable(prefix: str) -> list[str]:
    """The names of the modules below `anabranch.bench` and `prefix` that have a `main`."""
    package = importlib.import_module(f"anabranch.bench.{prefix}".rstrip("."))
    names = sorted(prefix + found.name for found in pkgutil.iter_modules(package.__path__))
    return [name for name in names if hasattr(_module(name), "main")]


def _source_tree(start: Path) -> Path | None:
    """The source tree that contains `start` or the code of this command; None if there is none."""
    for folder in (start, *start.parents, build.root()):
        if (folder / "anabranch" / "bench" / "performance.py").exists():
            return folder
    return None


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"anabranch.bench.{name}")
