"""Which build of the hot modules runs: compiled, or their Python source. The packages that it serves import this before anything else.

`pip install .` compiles the modules that setup.py lists, and installs their source beside them. Python prefers the
compiled one. With ``ANABRANCH_PURE=1`` in the environment the source is taken instead: directories of the compiled packages get
a finder that knows source files only. So there is one source, and one switch.

It stands outside the packages because both rings need it and `crdt` may import nothing of ours.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES, SOURCE_SUFFIXES, FileFinder, SourceFileLoader
from importlib.util import find_spec
from pathlib import Path

_ROOT = os.path.dirname(os.path.abspath(__file__))
_PACKAGES = ("crdt", "region", "sync", "sim")
# Any module that setup.py always compiles: it stands for all of them.
_WITNESS = "crdt.vector"


def _source_finder(path: str) -> FileFinder:
    """A path hook: takes the directories of the compiled packages, and finds only source files in them."""
    directory = os.path.abspath(path)
    if any(directory == package or directory.startswith(package + os.sep) for package in _directories()):
        return FileFinder(path, (SourceFileLoader, SOURCE_SUFFIXES))
    raise ImportError("not a directory of a compiled package", path=path)


def _directories() -> list[str]:
    return [os.path.join(_ROOT, package) for package in _PACKAGES]


def pure_asked_for() -> bool:
    """Whether the environment asks for the interpreted modules."""
    return os.environ.get("ANABRANCH_PURE", "") not in ("", "0")


def _prefer_source() -> None:
    sys.path_hooks.insert(0, _source_finder)
    for cached in list(sys.path_importer_cache):
        if any(os.path.abspath(cached).startswith(package) for package in _directories()):
            del sys.path_importer_cache[cached]


def kind() -> str:
    """``compiled`` or ``interpreted``: the build that this process runs; `INFO server` shows it as ``anabranch_build``."""
    spec = find_spec(_WITNESS)
    origin = (spec.origin or "") if spec is not None else ""
    return "compiled" if origin.endswith(tuple(EXTENSION_SUFFIXES)) else "interpreted"


def reason() -> str:
    """Why this build is what it is, for people: empty when it is compiled."""
    if kind() == "compiled":
        return ""
    if pure_asked_for():
        return "ANABRANCH_PURE is set"
    note = Path(_ROOT, "anabranch_build.txt")
    return note.read_text(encoding="utf-8").strip() if note.exists() else "this is a source tree"


def describe() -> str:
    """One line for a test header or ``anabranch --version``."""
    why = reason()
    return f"{kind()} ({why}), in {_ROOT}" if why else f"{kind()}, in {_ROOT}"


if pure_asked_for():
    _prefer_source()

if __name__ == "__main__":
    print(f"anabranch build: {describe()}")
