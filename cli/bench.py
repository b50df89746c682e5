"""`anabranch bench`: a thin call into the benchmarks."""

from __future__ import annotations

import importlib
import pkgutil

import typer

from cli.errors import CliError, UsageError


def bench(context: typer.Context) -> None:
    """Run benchmarks, beside redis-server where there is one. NAME picks one, and takes its own options; without it, all run."""
    try:
        import bench as package
    except ImportError:
        raise CliError("this installation has no benchmarks") from None
    names = sorted(found.name for found in pkgutil.iter_modules(package.__path__) if not found.name.startswith("_"))
    runnable = [name for name in names if hasattr(importlib.import_module(f"bench.{name}"), "main")]
    chosen, arguments = (
        (context.args[:1], context.args[1:]) if context.args and not context.args[0].startswith("-") else (runnable, context.args)
    )
    unknown = [name for name in chosen if name not in runnable]
    if unknown:
        raise UsageError(f"no benchmark '{unknown[0]}'; there are {', '.join(runnable) or 'none'}")
    if not chosen:
        raise CliError("this installation has no benchmarks")
    failed = False
    for name in chosen:
        failed = bool(importlib.import_module(f"bench.{name}").main(arguments)) or failed
    raise typer.Exit(1 if failed else 0)
