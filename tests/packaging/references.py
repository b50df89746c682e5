"""Resolves the backticked references of docs, docstrings and comments against the source tree.

`check` tells why one backticked text refers to nothing, or returns None. It recognises a text by
its form:

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
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple, Optional

from tests.packaging.source_index import FOLDERS, OTHERS, PACKAGES, Index, members, top_level

SUFFIXES: Final = r"\.(?:py|pyi|md|txt|toml|sql|proto|patch|jsonl?|ya?ml|log|lock|cfg)"

# The functions in the expressions of alerts.
PROMETHEUS_FUNCTIONS: Final = ("increase",)

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


def in_code(index: Index) -> Iterator[Reference]:
    """The references of all docstrings and comments of the product."""
    for path, (text, tree) in index.parsed.items():
        yield from in_comments(path, text)
        for node in ast.walk(tree):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                yield from in_docstrings(path, node)


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


def places_in(text: str) -> Iterator[tuple[str, str]]:
    """What a text says to be in a file, commands aside: (name, path of the file)."""
    yield from re.findall(
        r"`(?!CRDT\.)([A-Za-z_][\w.]*)(?:\(\))?`\s+(?:in|of)\s+`([\w./]+\.py)`", text
    )


# -- resolving


def check_place(root: Path, name: str, path: str) -> Optional[str]:
    """The reason why `name` is not defined in the file at `path`; None if it is.

    A name of one word must be a top-level name of the file, and `Class.member` a member that the
    class defines there.
    """
    found = [base / path for base in (root / "anabranch", root) if (base / path).exists()]
    if not found:
        return f"there is no file {path}"
    tree = ast.parse(found[0].read_text(encoding="utf-8"))
    first, _, member = name.partition(".")
    if first not in top_level(tree):
        return f"{path} has no {first}"
    classes = [one for one in tree.body if isinstance(one, ast.ClassDef) and one.name == first]
    if member and not any(member in members(one) for one in classes):
        return f"{first} in {path} has no {member}"
    return None


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
    """Paths are relative to the root, to `anabranch/`, to the page's folder or to the package."""
    text = reference.text
    if text.partition("/")[0] in index.made:
        return "a folder that commands make"
    for base in (index.root, index.root / "anabranch", reference.path.parent):
        if "*" in text and next(base.glob(text), None) is not None:
            return None
        if "*" not in text and (base / text).exists():
            return None if not text.endswith("/") or (base / text).is_dir() else "not a folder"
    return "no such file or folder"


def _module(index: Index, text: str) -> Optional[str]:
    """A module to run: those of the product are run as `anabranch.…`, and examples as they are."""
    first, _, rest = text.partition(".")
    name = rest if first == "anabranch" and rest else text
    if first in (*PACKAGES, "tests") and name not in index.modules:
        return "no such module"
    return f"run it as anabranch.{text}" if first in FOLDERS else None


def _call(index: Index, name: str) -> Optional[str]:
    if "." in name:
        return _dotted(index, name)
    known = name in index.functions or name in index.classes or name in index.imported
    if known or name in PROMETHEUS_FUNCTIONS or hasattr(builtins, name):
        return None
    return "no such function"


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
