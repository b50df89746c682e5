"""The build steps beyond pyproject.toml: gRPC stubs from proto/, hot modules compiled with mypyc.

Environment:
    ANABRANCH_NO_COMPILE=1   installs the interpreted modules only (fast to build, slower to run).
    ANABRANCH_OPT_LEVEL=0..3 optimization of the C compiler (default below).
"""

from __future__ import annotations

import os
import runpy
import shlex
import shutil
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from glob import glob
from pathlib import Path
from typing import Any, ClassVar

from setuptools import Command, Distribution, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

# COMPILED: patterns of the modules to compile; a benchmark justifies each. INTERPRETED: modules
# that match these patterns but stay Python.
COMPILED = [
    "anabranch/crdt/**/*.py",
    "anabranch/region/engine/**/*.py",
    "anabranch/region/resp/**/*.py",
    "anabranch/region/storage/*.py",
    "anabranch/region/driver/*.py",
    # The performers that handle each read of a socket and each reading of the clock.
    "anabranch/region/live/server.py",
    "anabranch/region/live/system_clock.py",
    "anabranch/sync/session/*.py",
    "anabranch/pipeline/entry_hashes.py",
    "anabranch/pipeline/column_buffers.py",
    "anabranch/pipeline/node_columns.py",
    "anabranch/sim/history.py",
    "anabranch/sim/world/*.py",
    "anabranch/sim/checkers/*.py",
    "anabranch/sim/calls.py",
    "anabranch/sim/arguments.py",
    "anabranch/sim/logged.py",
    "anabranch/sim/twin/*.py",
    "anabranch/sim/rules.py",
    "anabranch/sim/replies.py",
    "anabranch/sim/unrolled.py",
]
INTERPRETED = {
    "anabranch/sim/world/draining.py",
    # It looks at the frames of Python.
    "anabranch/sim/world/planted_error.py",
    "anabranch/sim/world/vfs.py",
}
OPT_LEVEL = os.environ.get("ANABRANCH_OPT_LEVEL", "3")

ROOT = Path(__file__).resolve().parent
os.chdir(ROOT)


def why_not_compiled() -> str:
    """The reason for not compiling the hot modules, as text for users; empty to compile them."""
    if os.environ.get("ANABRANCH_NO_COMPILE", "") not in ("", "0"):
        return "ANABRANCH_NO_COMPILE was set when it was built"
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")[0]
    if shutil.which(compiler) is None:
        return f"there was no C compiler ({compiler}) when it was built"
    if not Path(sysconfig.get_paths()["include"], "Python.h").exists():
        return "Python.h was missing when it was built: install python3-dev"
    try:
        import mypyc.build  # noqa: F401
    except ImportError:
        return "mypyc was missing when it was built"
    return ""


def modules() -> list[str]:
    """Paths of the modules to compile.

    The `__init__` of a package stays Python, so that `ANABRANCH_PURE` need not choose between two
    builds of it.
    """
    found = {path for pattern in COMPILED for path in glob(pattern, recursive=True)}
    return sorted(path for path in found - INTERPRETED if not path.endswith("__init__.py"))


def generate_stubs() -> None:
    """Writes sync/wire/*_pb2*.py from proto/ by running sync/generate.py."""
    script = ROOT / "anabranch" / "sync" / "generate.py"
    if script.exists():
        runpy.run_path(str(script), run_name="__main__")


REASON = why_not_compiled() if modules() else "nothing to compile"


class AnabranchDistribution(Distribution):
    """Declares extension modules without translating them to C.

    Otherwise every metadata hook would run the translation.
    """

    def has_ext_modules(self) -> bool:
        return REASON == ""


class BuildPython(build_py):
    """Copies the source modules, and writes the note that `anabranch.build.reason` reads."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        note = Path(self.build_lib, "anabranch", "build.txt")
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(REASON, encoding="utf-8")


class BuildCompiled(build_ext):
    """Builds the extension modules: mypyc translates them, then the C compiler runs on all cores.

    The translation happens when the command runs, not when setup.py is read.
    """

    def run(self) -> None:
        if REASON:
            return
        from mypy.version import __version__ as mypyc_version
        from mypyc.build import mypycify

        # C files and objects are kept for the next build. Another version of mypyc or another
        # optimization level uses another directory.
        directory = str(Path("build", f"mypyc-{mypyc_version}-O{OPT_LEVEL}"))
        self.distribution.ext_modules = mypycify(
            modules(),
            opt_level=OPT_LEVEL,
            debug_level="0",
            multi_file=True,
            target_dir=directory,
            group_name="anabranch",
        )
        if sys.platform != "win32":
            # All files make up one extension module, so calls between them need no symbols that the
            # dynamic linker could replace.
            for extension in self.distribution.ext_modules:
                extension.extra_compile_args.append("-fvisibility=hidden")
        self.swig_opts: Any = None
        super().finalize_options()
        super().run()

    def build_extensions(self) -> None:
        """Builds like the base class, but on all cores, and compiles only changed files."""
        compiler: Any = self.compiler
        compile_one = compiler._compile
        newest_header = max(
            [os.path.getmtime(path) for path in glob("build/mypyc-*/**/*.h", recursive=True)],
            default=0.0,
        )

        def compile_all(
            sources: list[str], output_dir: str | None = None, **options: Any
        ) -> list[str]:
            depends, extra_postargs = options.get("depends"), options.get("extra_postargs")
            _, objects, extra, flags, build = compiler._setup_compile(
                output_dir,
                options.get("macros"),
                options.get("include_dirs"),
                sources,
                depends,
                extra_postargs,
            )
            arguments = compiler._get_cc_args(
                flags, options.get("debug", False), options.get("extra_preargs")
            )

            def one(target: str) -> None:
                source, suffix = build[target]
                changed = max(os.path.getmtime(source), newest_header)
                if not (os.path.exists(target) and os.path.getmtime(target) > changed):
                    compile_one(target, source, suffix, arguments, extra, flags)

            with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
                list(pool.map(one, [target for target in objects if target in build]))
            return list(objects)

        compiler.compile = compile_all
        super().build_extensions()


class CompiledModules(Command):
    """`python setup.py compiled_modules` prints the modules that are compiled."""

    description = "print the modules that are compiled"
    user_options: ClassVar[list[tuple[str, str | None, str]]] = []

    def initialize_options(self) -> None:
        """The command has no options."""

    def finalize_options(self) -> None:
        """The command has no options."""

    def run(self) -> None:
        """Prints one path per line."""
        print("\n".join(modules()))


if {"build", "build_py", "build_ext", "bdist_wheel", "editable_wheel", "install", "develop"} & set(
    sys.argv
):
    generate_stubs()
    if REASON:
        print(
            f"\n*** anabranch will run INTERPRETED, and so slower: {REASON}. ***\n", file=sys.stderr
        )

setup(
    distclass=AnabranchDistribution,
    cmdclass={
        "build_py": BuildPython,
        "build_ext": BuildCompiled,
        "compiled_modules": CompiledModules,
    },
)
