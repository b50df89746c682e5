"""The choice between the two builds of the hot modules: compiled, or interpreted from source.

`pip install .` compiles the modules that setup.py lists, and installs their source beside them.
Python prefers the compiled ones. With ``ANABRANCH_PURE=1`` in the environment a path hook finds
only source files within this package. Both builds come from the same source.

`anabranch/__init__.py` imports this module before any other.
"""

from __future__ import annotations

import os
import site
import sys
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES, SOURCE_SUFFIXES, FileFinder, SourceFileLoader
from importlib.util import find_spec
from pathlib import Path

_PACKAGE = os.path.dirname(os.path.abspath(__file__))
# setup.py compiles this module in every compiled build, so its file type tells the build.
_WITNESS = "anabranch.crdt.vector"
_NOTE = "build.txt"


def _source_finder(path: str) -> FileFinder:
    """Path hook: finds only source files in the directories of this package; refuses others."""
    directory = os.path.abspath(path)
    if directory.startswith(_PACKAGE + os.sep):
        return FileFinder(path, (SourceFileLoader, SOURCE_SUFFIXES))
    raise ImportError("not a directory of a compiled package", path=path)


def version() -> str:
    """The installed version; "(not installed)" in a source tree."""
    # Imported here: the import takes long, and few commands need it.
    from importlib import metadata

    try:
        return metadata.version("anabranch")
    except metadata.PackageNotFoundError:
        return "(not installed)"


def pure_asked_for() -> bool:
    """Whether the environment asks for the interpreted modules."""
    return os.environ.get("ANABRANCH_PURE", "") not in ("", "0")


def _prefer_source() -> None:
    sys.path_hooks.insert(0, _source_finder)
    for cached in list(sys.path_importer_cache):
        if os.path.abspath(cached).startswith(_PACKAGE + os.sep):
            del sys.path_importer_cache[cached]


def kind() -> str:
    """Returns the build that runs, ``compiled`` or ``interpreted``. `INFO server` shows it."""
    spec = find_spec(_WITNESS)
    origin = (spec.origin or "") if spec is not None else ""
    return "compiled" if origin.endswith(tuple(EXTENSION_SUFFIXES)) else "interpreted"


def reason() -> str:
    """Returns why this build is interpreted, as text for the operator; empty when compiled."""
    if kind() == "compiled":
        return ""
    if pure_asked_for():
        return "ANABRANCH_PURE is set"
    note = Path(_PACKAGE, _NOTE)
    return note.read_text(encoding="utf-8").strip() if note.exists() else "this is a source tree"


def describe() -> str:
    """One line for a test header or ``anabranch --version``."""
    why = reason()
    return f"{kind()} ({why}), in {_PACKAGE}" if why else f"{kind()}, in {_PACKAGE}"


def root() -> Path:
    """The directory that holds the running package: site-packages, or a source tree."""
    return Path(_PACKAGE).parent


def command(module: str = "anabranch.cli.main") -> list[str]:
    """Returns the beginning of a command line that runs `module` of this build.

    The command line works from any directory, in the variables that `environment` returns.
    """
    return [sys.executable, "-P", "-m", module]


def environment() -> dict[str, str]:
    """Returns the environment that `command` needs: a source tree is put on PYTHONPATH."""
    variables = dict(os.environ)
    if str(root()) not in (*site.getsitepackages(), site.getusersitepackages()):
        paths = [str(root()), variables.get("PYTHONPATH", "")]
        variables["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    return variables


def include_source_tree(tree: Path) -> None:
    """Makes the packages that only a source tree has importable from that tree.

    These are `anabranch.bench`, `anabranch.sim.mutants` and `anabranch.chaos.mutants`. Modules that
    are installed still come from the installation.
    """
    for name, folder in (
        ("anabranch", tree / "anabranch"),
        ("anabranch.sim", tree / "anabranch" / "sim"),
        ("anabranch.chaos", tree / "anabranch" / "chaos"),
    ):
        package = import_module(name)
        if not any(os.path.realpath(path) == os.path.realpath(folder) for path in package.__path__):
            package.__path__.append(str(folder))


if pure_asked_for():
    _prefer_source()
