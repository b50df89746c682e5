"""Resolves the backticked references of docs, docstrings and comments against the source tree.

An `Index` is built from the syntax trees of the product's packages; nothing is imported. `check`
tells why one backticked text refers to nothing, or returns None. It recognises a text by its form:

- a path has a slash, and a file suffix or a trailing slash or a top folder of ours;
- a dotted name begins with one of our packages, with a class, or with a module or variable;
- a call ends in `()`, or has arguments;
- a word with capitals is a class, a constant, or a word of a command;
- any other word is an identifier, a module, a command word, or a string of the code, which covers
  the names of settings, figures, states and counters;
- other texts with spaces are commands: only the module after `python -m` is resolved;
- everything else (numbers, IDs, patterns, punctuation) refers to nothing of ours.
"""

from __future__ import annotations

import ast
import builtins
import os
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple, Optional

PACKAGES: Final = ("anabranch", "crdt", "region", "sync", "sim", "cli", "bench")
# Other folders whose files and modules may be named; their docstrings are not checked.
OTHERS: Final = ("tests", "docs", "proto")
SUFFIXES: Final = r"\.(?:py|pyi|md|txt|toml|sql|proto|patch|jsonl?|ya?ml|log|lock|cfg)"

_WORD: Final = re.compile(r"[a-z_][a-z0-9_]*")
_CAPITALS: Final = re.compile(r"_?[A-Z][A-Za-z0-9_]*")
_DOTTED: Final = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")
_HYPHENS: Final = re.compile(r"[a-z]+(?:-[a-z0-9]+)+")


class Reference(NamedTuple):
    """A backticked text, and where it stands. `is_literal`: it has two backticks in a docstring."""

    path: Path
    line: int
    text: str
    is_literal: bool


# -- the index


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
        self.files = {path.name for path in root.iterdir() if path.is_file()}
        for folder in (*PACKAGES, *OTHERS):
            self.files |= {name for _, _, names in os.walk(root / folder) for name in names}
        # References of the product's docstrings and comments.
        self.references: list[Reference] = []
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

    def _read(self, path: Path) -> None:
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        self.modules[_module_name(path.relative_to(self.root))] = set(_top_level(tree))
        self.references += in_comments(path, text)
        for node in ast.walk(tree):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                self.references += in_docstrings(path, node)
            if isinstance(node, ast.ClassDef):
                members = set(_members(node))
                bases = [_last_name(base) for base in node.bases]
                self.classes.setdefault(node.name, []).append(Class(bases, members))
                self.identifiers |= members | {node.name}
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
        suffix (region/engine/figures.py).
        """
        metric = word.removeprefix("anabranch_").removesuffix("_total")
        return (
            word in self.strings
            or (word.startswith("anabranch_") and metric in self.strings)
            or any(word.startswith(prefix) for prefix in self.prefixes)
        )


def sources(root: Path, packages: Iterable[str] = PACKAGES) -> Iterator[Path]:
    """The Python files of the packages, in order, without links and generated files."""
    for package in packages:
        for folder, _, names in os.walk(root / package):
            for name in sorted(names):
                if name.endswith(".py") and "_pb2" not in name:
                    yield Path(folder, name)


def _module_name(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Subscript):
        return _last_name(node.value)
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _top_level(tree: ast.Module) -> Iterator[str]:
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


def _members(node: ast.ClassDef) -> Iterator[str]:
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


# -- the references


def in_markdown(path: Path) -> Iterator[Reference]:
    """The inline code of a Markdown page; blocks of code are not looked at."""
    fenced = False
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            for _, text in re.findall(r"(?<!`)(`{1,2})(?!`)(.+?)(?<!`)\1(?!`)", line):
                yield Reference(path, number, text.strip().replace("\\|", "|"), False)


def in_docstrings(path: Path, node: ast.AST) -> Iterator[Reference]:
    """The backticked texts of the strings that stand alone in a module, class or function."""
    for one in getattr(node, "body", []):
        if isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant):
            if isinstance(one.value.value, str):
                yield from _in_text(path, one.lineno, one.value.value)


def in_comments(path: Path, text: str) -> Iterator[Reference]:
    """The backticked texts of comments. A reference may go over the end of a line."""
    first, lines = 0, list[str]()
    for number, line in enumerate([*text.splitlines(), ""], 1):
        comment = re.search(r"(?:^\s*|  )# ?(.*)", line)
        if comment is not None:
            first = first or number
            lines.append(comment[1])
        elif lines:
            yield from _in_text(path, first, "\n".join(lines))
            first, lines = 0, []


def _in_text(path: Path, line: int, text: str) -> Iterator[Reference]:
    for found in re.finditer(r"(?<!`)(`{1,2})(?!`)([^`]+?)\1(?!`)", text):
        inner = re.sub(r"\s+", " ", found[2].strip())
        yield Reference(path, line + text.count("\n", 0, found.start()), inner, found[1] == "``")


# -- resolving


def check(index: Index, reference: Reference, allowed: Iterable[str] = ()) -> Optional[str]:
    """The reason why a reference leads nowhere; None if it does, or if it is none."""
    text = reference.text
    if text in allowed:
        return None
    signature = re.match(r"(?:await )?([A-Za-z_][\w.]*)\(\S", text)
    if signature is not None and not reference.is_literal:
        return _call(index, signature[1])
    if re.search(r"\s", text):
        module = re.match(r"(?:\$ )?python (?:-\S+ )*?-m ([\w.]+)", text)
        return None if module is None else _module(index, module[1])
    if _is_path(index, text):
        return _path(index, reference)
    if reference.is_literal:
        return None
    if text.endswith("()"):
        return _call(index, text[:-2])
    if re.fullmatch(rf"[\w-]+{SUFFIXES}", text):
        return None if text in index.files else "no such file"
    if _DOTTED.fullmatch(text):
        return _dotted(index, text)
    if _CAPITALS.fullmatch(text):
        return _capitals(index, text)
    return _plain(index, text)


def _is_path(index: Index, text: str) -> bool:
    if not re.fullmatch(r"[\w.*-]+(?:/[\w.*-]*)+", text):
        return False
    first = text.partition("/")[0]
    return (
        text.endswith("/")
        or re.search(SUFFIXES + "$", text) is not None
        or first in (*PACKAGES, *OTHERS)
    )


def _path(index: Index, reference: Reference) -> Optional[str]:
    """Paths are relative to the root, to the page's folder, or to the module's package."""
    text = reference.text
    for base in (index.root, reference.path.parent):
        if "*" in text and next(base.glob(text), None) is not None:
            return None
        if "*" not in text and (base / text).exists():
            return None if not text.endswith("/") or (base / text).is_dir() else "not a folder"
    return "no such file or folder"


def _module(index: Index, text: str) -> Optional[str]:
    """A module to run: those of the product are run as `anabranch.…`."""
    first, _, rest = text.partition(".")
    name = rest if first == "anabranch" and rest else text
    if first in (*PACKAGES, "tests") and name not in index.modules:
        return "no such module"
    return f"run it as anabranch.{text}" if first in PACKAGES and first != "anabranch" else None


def _call(index: Index, name: str) -> Optional[str]:
    if "." in name:
        return _dotted(index, name)
    known = name in index.functions or name in index.classes or name in index.imported
    return None if known or hasattr(builtins, name) else "no such function"


def _dotted(index: Index, text: str) -> Optional[str]:
    parts = text.split(".")
    if parts[0] == "anabranch":
        parts = parts[1:]
        if len(parts) == 1:
            return None if parts[0] in {*index.modules, *index.modules["anabranch"]} else "no such"
    if parts[0] in (*PACKAGES, "tests") and len(parts) > 1:
        if ".".join(parts[:2]) in index.modules or parts[0] not in index.identifiers:
            return _in_packages(index, parts)
    if parts[0] in index.classes:
        return _members_exist(index, parts)
    if _CAPITALS.fullmatch(parts[0]) and parts[0] not in index.identifiers:
        return "no such class" if not parts[0].isupper() else None
    for module in index.modules_named(parts[0]):
        if parts[1] in index.modules[module] or f"{module}.{parts[1]}" in index.modules:
            return _members_exist(index, parts[1:])
    if parts[0] in index.imported_modules or (
        parts[0] in index.imported and not parts[0].islower()
    ):
        return None
    if parts[0] in index.identifiers:
        return _of_variable(index, parts)
    if parts[0] in index.imported or parts[0] in sys.stdlib_module_names:
        return None
    return f"no {text}"


def _of_variable(index: Index, parts: list[str]) -> Optional[str]:
    """`engine.tick`: if classes are named as the variable is, one of them must have the member."""
    class_name = parts[0].strip("_").title().replace("_", "")
    classes = [name for name in index.classes if name.endswith(class_name)]
    if classes and not any(parts[1] in index.members_of(name) for name in classes):
        return f"no {class_name} has {parts[1]}"
    missing = [one for one in parts[1:] if one not in index.identifiers]
    return f"nothing has {missing[0]}" if missing else None


def _in_packages(index: Index, parts: list[str]) -> Optional[str]:
    length = len(parts)
    while length and ".".join(parts[:length]) not in index.modules:
        length -= 1
    rest = parts[length:]
    if not rest:
        return None
    module = ".".join(parts[:length])
    if not length or rest[0] not in index.modules[module]:
        return f"{module or 'the tree'} has no {rest[0]}"
    return _members_exist(index, rest)


def _members_exist(index: Index, parts: list[str]) -> Optional[str]:
    """`Class.member.member`: the first must be of the class, the others of any class."""
    if len(parts) == 1 or parts[0] not in index.classes:
        return None
    if parts[1] not in index.members_of(parts[0]):
        return f"{parts[0]} has no {parts[1]}"
    missing = [one for one in parts[2:] if one not in index.identifiers]
    return f"nothing has {missing[0]}" if missing else None


def _capitals(index: Index, text: str) -> Optional[str]:
    """A class, a constant, a word of a command, or a string of the code."""
    known = (
        text in index.classes
        or text in index.identifiers
        or text in index.imported
        or hasattr(builtins, text)
        or (text.isupper() and "_" not in text and text in index.command_words)
        or (text.isupper() and index.is_data(text))
    )
    return None if known else "no such class, constant or command word"


def _plain(index: Index, text: str) -> Optional[str]:
    """Flags, words with hyphens, and plain words; anything else refers to nothing."""
    if re.fullmatch(r"--[a-z][a-z-]*", text):
        return None if index.is_data(text) or index.is_data(text[2:]) else "no such flag"
    if _HYPHENS.fullmatch(text):
        return None if index.is_data(text) else "no such setting or word of the code"
    if _WORD.fullmatch(text) is None:
        return None
    known = (
        text in index.identifiers
        or text in index.imported
        or text in PACKAGES
        or index.is_data(text)
        or bool(index.modules_named(text))
        or text.upper() in index.command_words
        or hasattr(builtins, text)
        or text in sys.stdlib_module_names
    )
    return None if known else "no such name in the code"
