"""Compiled copies of the tree: planted bugs in the build that users run."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Final

from anabranch.sim.mutants.tree import ROOT, environment, is_compiled, python

_BUILD: Final = ("setup.py", "--quiet", "build_ext", "--inplace")
_TEXT_MAX: Final = 500


class NotCompiled(Exception):
    """The modules of a copy cannot be compiled; the text says why."""


def compile_tree(tree: Path) -> None:
    """Compiles the hot modules of a copy, in place and without optimization.

    After the first time it takes some ten seconds, because unchanged C files are not compiled
    again.

    Raises:
        NotCompiled: mypyc or the C compiler refuses the source, or one of them is missing.
    """
    shutil.copy2(ROOT / "setup.py", tree)
    ended = subprocess.run(
        [python(), *_BUILD],
        cwd=tree,
        env={**environment(tree), "ANABRANCH_OPT_LEVEL": "0"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    if ended.returncode or not is_compiled(tree):
        text = ended.stdout.decode("utf-8", "replace")
        raise NotCompiled(_first_error(text)[:_TEXT_MAX])


def _first_error(text: str) -> str:
    """The first line of a build's output that tells of an error, otherwise all of it."""
    errors = [line for line in text.splitlines() if " error: " in line]
    return errors[0] if errors else text.strip()
