"""Copies of the source tree, to be mutated."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final


def _root() -> Path:
    """The working directory if it is a source tree, otherwise the tree of this module.

    An installed package has neither tests nor patches beside it.
    """
    here = Path.cwd()
    return (
        here
        if (here / "anabranch" / "sim" / "mutants" / "planted").is_dir()
        else Path(__file__).resolve().parents[3]
    )


ROOT: Final = _root()
FOLDERS: Final = ("anabranch", "proto")


def copy_tree(target: Path, extra: tuple[str, ...] = ()) -> Path:
    """Copies the package and `extra` folders to `target`, without compiled modules and caches."""
    ignored = shutil.ignore_patterns("__pycache__", "*.so", "*.pyc")
    for name in (*FOLDERS, *extra):
        shutil.copytree(ROOT / name, target / name, ignore=ignored, dirs_exist_ok=True)
    shutil.copy2(ROOT / "pyproject.toml", target)
    return target


def copy_whole(tree: Path, target: Path) -> Path:
    """Copies a copy as it is. A compiled one need not be compiled again as a whole."""
    return shutil.copytree(tree, target)


def environment(tree: Path) -> dict[str, str]:
    """The environment variables of a Python process that runs that tree.

    It runs interpreted, unless the tree is compiled (`sim.mutants.compiled`).
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "ANABRANCH", "COVERAGE", "PYTEST"))
    }
    if not is_compiled(tree):
        kept["ANABRANCH_PURE"] = "1"
    return {**kept, "PYTHONPATH": str(tree), "PYTHONHASHSEED": "0"}


def is_compiled(tree: Path) -> bool:
    """Whether a copy has compiled modules."""
    return any(tree.glob("anabranch__mypyc*.so"))


def forget_compiled(source: Path) -> None:
    """Drops the bytecode of a module.

    Python would use it if the new source has the same size and the same second of change.
    """
    for cached in (source.parent / "__pycache__").glob(f"{source.stem}.*.pyc"):
        cached.unlink()


def write_source(source: Path, text: str) -> None:
    """Changes a module of a copy."""
    source.write_text(text, encoding="utf-8")
    forget_compiled(source)


@contextmanager
def mutated(source: Path, change: Callable[[str], str]) -> Iterator[None]:
    """Changes a module of a copy for the time of a `with` block."""
    original = source.read_text(encoding="utf-8")
    write_source(source, change(original))
    try:
        yield
    finally:
        write_source(source, original)


def python() -> str:
    return sys.executable
