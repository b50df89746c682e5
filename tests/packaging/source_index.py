"""The names of the source tree: modules, classes, members, functions, arguments, strings.

An `Index` is built from the syntax trees of the product's packages; nothing is imported.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOTS: Final = ("anabranch", "examples")
# The packages in `anabranch`. References name them without it.
FOLDERS: Final = tuple(
    path.parent.name
    for path in sorted((Path(__file__).resolve().parents[2] / "anabranch").glob("*/__init__.py"))
)
PACKAGES: Final = (*ROOTS, *FOLDERS)
# Other folders whose files and modules may be named; their docstrings are not checked.
OTHERS: Final = ("tests", "docs", "proto", "deploy")


class Class(NamedTuple):
    """One class: the names of its bases, and of everything that it defines or sets on self."""

    bases: list[str]
    members: set[str]


class Index:
    """The names of a source tree."""

    def __init__(self, root: Path) -> None:
        self.root = root
        # Dotted module → its top-level names.
        self.modules: dict[str, set[str]] = {}
        self.classes: dict[str, list[Class]] = {}
        self.functions: set[str] = set()
        # Everything that is assigned, imported, defined or an argument.
        self.identifiers: set[str] = set()
        # Names of other software that the code imports, and the modules that it imports whole.
        self.imported: set[str] = set()
        self.imported_modules: set[str] = set()
        self.strings: set[str] = set()
        # Texts with which an f-string begins.
        self.prefixes: set[str] = set()
        # Words of the command table, in upper case: names and syntax.
        self.command_words: set[str] = set()
        # Names of all files.
        # Folders that commands make: a fresh checkout does not have them.
        self.made = {
            line.rstrip("/")
            for line in (root / ".gitignore").read_text(encoding="utf-8").splitlines()
            if line.endswith("/")
        }
        self.files = {path.name for path in root.iterdir() if path.is_file()}
        for folder in (*ROOTS, *OTHERS):
            self.files |= {name for _, _, names in os.walk(root / folder) for name in names}
        # The product's files: text and syntax tree.
        self.parsed: dict[Path, tuple[str, ast.Module]] = {}
        for path in sources(root):
            self._read(path)
        for path in sources(root, ("tests",)):
            text = path.read_text(encoding="utf-8")
            found = re.findall(r"^(?:def|class) (\w+)|^(\w+)(?:: [^=]+)? = ", text, re.MULTILINE)
            names = {name for pair in found for name in pair if name}
            self.modules[_module_name(path.relative_to(root))] = names
            self.identifiers |= names
        for path in sorted((root / "proto").rglob("*.proto")):
            text = path.read_text(encoding="utf-8")
            for name in re.findall(r"^\s*(?:message|enum|service|rpc) (\w+)", text, re.MULTILINE):
                self.classes.setdefault(name, []).append(Class([], set()))
            self.identifiers |= set(re.findall(r"^\s*[\w. ]+ (\w+) = \d+;", text, re.MULTILINE))
        # Words of the files of deploy/: services, variables, proxies, arguments of builds.
        for path in sorted((root / "deploy").rglob("*")):
            if path.is_file():
                self.strings |= set(re.findall(r"[A-Za-z_][\w-]*", path.read_text("utf-8")))

    def _read(self, path: Path) -> None:
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        self.modules[_module_name(path.relative_to(self.root))] = set(top_level(tree))
        self.parsed[path] = text, tree
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                defined = set(members(node))
                bases = [_last_name(base) for base in node.bases]
                self.classes.setdefault(node.name, []).append(Class(bases, defined))
                self.identifiers |= defined | {node.name}
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                self.functions.add(node.name)
                arguments = node.args
                self.identifiers.add(node.name)
                self.identifiers |= {
                    one.arg
                    for one in (
                        *arguments.posonlyargs,
                        *arguments.args,
                        *arguments.kwonlyargs,
                        *filter(None, [arguments.vararg, arguments.kwarg]),
                    )
                }
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                self.identifiers.add(node.id)
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                self._read_import(node)
            else:
                self._read_text(node)

    def _read_import(self, node: ast.Import | ast.ImportFrom) -> None:
        if isinstance(node, ast.ImportFrom):
            ours = (node.module or "").partition(".")[0] in (*PACKAGES, "tests")
            names = {one.asname or one.name for one in node.names}
            self.identifiers |= names
            self.imported |= set() if ours else names | {(node.module or "").partition(".")[0]}
        else:
            names = {one.name.partition(".")[0] for one in node.names}
            self.imported |= names
            self.imported_modules |= names

    def _read_text(self, node: ast.AST) -> None:
        if isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes)):
            value = node.value
            text = value if isinstance(value, str) else value.decode("utf-8", "replace")
            self.strings.add(text)
        elif isinstance(node, ast.JoinedStr) and node.values:
            first = node.values[0]
            if isinstance(first, ast.Constant) and len(str(first.value)) >= 5:
                self.prefixes.add(str(first.value))
        elif isinstance(node, ast.Call) and _last_name(node.func) == "Command":
            for one in ast.walk(node):
                if isinstance(one, ast.Constant) and isinstance(one.value, str):
                    self.command_words |= set(re.findall(r"[A-Z]+", one.value.upper()))

    # -- looking up

    def members_of(self, name: str, seen: frozenset[str] = frozenset()) -> set[str]:
        """The members of all classes of that name, inherited ones included."""
        found: set[str] = set()
        if name in seen:
            return found
        for one in self.classes.get(name, []):
            found |= one.members
            for base in one.bases:
                found |= self.members_of(base, seen | {name})
        return found

    def modules_named(self, last: str) -> list[str]:
        """The modules whose last part is `last`."""
        return [module for module in self.modules if module.rpartition(".")[2] == last]

    def is_data(self, word: str) -> bool:
        """Whether the word is a string of the code, or continues the beginning of an f-string.

        A metric is a string of the code between the prefix of all metrics and, of counters, a
        suffix (region/engine/figures/figure.py).
        """
        metric = word.removeprefix("anabranch_").removesuffix("_total")
        return (
            word in self.strings
            or (word.startswith("anabranch_") and metric in self.strings)
            or any(word.startswith(prefix) for prefix in self.prefixes)
        )


def sources(root: Path, packages: Iterable[str] = ROOTS) -> Iterator[Path]:
    """The Python files of the packages, in order, without generated files."""
    for package in packages:
        for folder, _, names in os.walk(root / package):
            for name in sorted(names):
                if name.endswith(".py") and "_pb2" not in name:
                    yield Path(folder, name)


def _module_name(path: Path) -> str:
    parts = path.with_suffix("").parts
    if parts[0] == "anabranch" and parts[1] in FOLDERS:
        parts = parts[1:]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Subscript):
        return _last_name(node.value)
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def top_level(tree: ast.Module) -> Iterator[str]:
    """The names that a module defines, sets or imports at its top level."""
    for node in ast.walk(ast.Module(body=_statements(tree.body), type_ignores=[])):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from (one.asname or one.name for one in node.names)


def _statements(body: list[ast.stmt]) -> list[ast.stmt]:
    """The statements of a module; of functions and classes only the names."""
    hollow: list[ast.stmt] = []
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            hollow.append(ast.Import(names=[ast.alias(name=node.name)]))
        else:
            hollow.append(node)
    return hollow


def members(node: ast.ClassDef) -> Iterator[str]:
    """The names that a class defines, or sets on self."""
    for statement in node.body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield statement.name
        elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
            yield from (
                one.id for one in ast.walk(statement) if isinstance(one, ast.Name) and _is_set(one)
            )
    for inner in ast.walk(node):
        if isinstance(inner, ast.Attribute) and _is_set(inner):
            if isinstance(inner.value, ast.Name) and inner.value.id in ("self", "cls"):
                yield inner.attr


def _is_set(node: ast.Name | ast.Attribute) -> bool:
    return isinstance(node.ctx, ast.Store)
