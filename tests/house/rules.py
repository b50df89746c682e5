"""Checks of the source tree: sizes, assignments from outside, and the lists of packages.

Each check is a function that takes the syntax trees of all sources and returns a line for every
violation. `make lint` runs all checks (`python -m tests.house.rules`). `test_rules` plants a
violation of each in a temporary tree.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Union

ROOT: Final = Path(__file__).resolve().parents[2]
PACKAGES: Final = ("anabranch", "examples")
FUNCTION_LINES_MAX: Final = 60
MODULE_LINES_MAX: Final = 400
METHODS_MAX: Final = 40
ATTRIBUTES_MAX: Final = 20
# `ATTRIBUTES_MAX` holds for the classes of these packages.
COUNTED: Final = tuple(Path("anabranch", name) for name in ("crdt", "region", "sync"))
# The usual names of variables whose fields only the object's own methods may set.
CLOSED: Final = frozenset({"engine", "hub", "driver", "state"})
# Folders in which a variable `state` may be something else than the engine's state.
OWN_STATE: Final = tuple(
    Path("anabranch", *names)
    for names in (("region", "engine"), ("sim", "checkers"), ("sim", "twin"))
)
# Packages without a list of their files: all files of `sync/wire` are generated.
UNLISTED: Final = frozenset({Path("anabranch", "sync", "wire")})
ORDER_HEADING: Final = "Reading order:"
ORDER_LINE: Final = re.compile(r"- `(\w+)`: \S.*")

Function = Union[ast.FunctionDef, ast.AsyncFunctionDef]


def sources(root: Path = ROOT) -> Iterator[Path]:
    """The path of each Python file of the product, relative to the root; no generated files."""
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            if not path.name.endswith("_pb2.py"):
                yield path.relative_to(root)


def parsed(root: Path = ROOT) -> dict[Path, ast.Module]:
    """The syntax trees of all sources, by path."""
    return {path: ast.parse((root / path).read_text(encoding="utf-8")) for path in sources(root)}


def long_functions(trees: dict[Path, ast.Module]) -> list[str]:
    """Functions of more than 60 lines."""
    found = []
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                assert node.end_lineno is not None
                lines = node.end_lineno - node.lineno + 1
                if lines > FUNCTION_LINES_MAX:
                    found.append(f"{path}:{node.lineno}: {node.name} has {lines} lines")
    return found


def long_modules(trees: dict[Path, ast.Module]) -> list[str]:
    """Modules of more than 400 lines, up to the end of their last statement."""
    found = []
    for path, tree in trees.items():
        lines = tree.body[-1].end_lineno if tree.body else 0
        assert lines is not None
        if lines > MODULE_LINES_MAX:
            found.append(f"{path}: it has {lines} lines")
    return found


def many_methods(trees: dict[Path, ast.Module]) -> list[str]:
    """Classes with more than 40 methods, those of their bases included."""
    found = []
    for path, node, chain in _chains(trees):
        names = {
            one.name
            for each in chain
            for one in each.body
            if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef))
        }
        if len(names) > METHODS_MAX:
            found.append(f"{path}:{node.lineno}: {node.name} has {len(names)} methods")
    return found


def large_classes(trees: dict[Path, ast.Module]) -> list[str]:
    """Classes of `crdt`, `region` and `sync` with more than 20 attributes, inherited ones included.

    An attribute is a name annotated in the class body, or a field of `self` that a method sets.
    """
    found = []
    for path, node, chain in _chains(trees):
        names = set().union(*(_attributes(each) for each in chain))
        if len(names) > ATTRIBUTES_MAX and set(COUNTED) & set(path.parents):
            found.append(f"{path}:{node.lineno}: {node.name} has {len(names)} attributes")
    return found


def _chains(trees: dict[Path, ast.Module]) -> list[tuple[Path, ast.ClassDef, list[ast.ClassDef]]]:
    """Each class with its path, and itself followed by all its bases.

    Two classes may have one name. So a base is the class of that name in the same module, or else
    the one that the module imports.
    """
    classes: dict[Path, dict[str, ast.ClassDef]] = {
        path: {node.name: node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
        for path, tree in trees.items()
    }
    imported = {path: _imported(tree) for path, tree in trees.items()}

    def chain(path: Path, name: str) -> list[ast.ClassDef]:
        while name not in classes.get(path, {}):
            if name not in imported.get(path, {}):
                return []
            path, name = imported[path][name]
        node = classes[path][name]
        names = [base.id for base in node.bases if isinstance(base, ast.Name) and base.id != name]
        return [node, *(one for each in names for one in chain(path, each))]

    return [
        (path, node, chain(path, name))
        for path, names in classes.items()
        for name, node in names.items()
    ]


def _imported(tree: ast.Module) -> dict[str, tuple[Path, str]]:
    """The names that a module imports from others: the file and the name there of each."""
    found: dict[str, tuple[Path, str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            module = Path(*node.module.split(".")).with_suffix(".py")
            for one in node.names:
                found[one.asname or one.name] = (module, one.name)
    return found


def _attributes(node: ast.ClassDef) -> set[str]:
    names = {
        one.target.id
        for one in node.body
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
    }
    for target in _targets(node):
        if isinstance(target.value, ast.Name) and target.value.id == "self":
            names.add(target.attr)
    return names


def _targets(tree: ast.AST) -> Iterator[ast.Attribute]:
    """The attributes that the statements of a tree set or delete, each once."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, (ast.Store, ast.Del)):
            yield node


def assignments_from_outside(trees: dict[Path, ast.Module]) -> list[str]:
    """Assignments to a field of an engine, hub or driver, or of an object that they hold."""
    found = []
    for path, tree in trees.items():
        closed = CLOSED - {"state"} if set(OWN_STATE) & set(path.parents) else CLOSED
        for target in _targets(tree):
            names = _chain(target.value)
            if closed.intersection(names):
                text = f"{'.'.join(names)}.{target.attr}"
                found.append(f"{path}:{target.lineno}: {text} is set from outside")
    return found


def _chain(node: ast.expr) -> list[str]:
    """["self", "driver", "engine"] for `self.driver.engine`; without calls and subscripts."""
    names: list[str] = []
    while True:
        if isinstance(node, ast.Attribute):
            names.append(node.attr)
            node = node.value
        elif isinstance(node, (ast.Subscript, ast.Call)):
            node = node.value if isinstance(node, ast.Subscript) else node.func
        else:
            if isinstance(node, ast.Name):
                names.append(node.id)
            return names[::-1]


def reading_orders(trees: dict[Path, ast.Module]) -> list[str]:
    """Packages whose docstring does not list each of their modules and sub-packages exactly once.

    The list follows a line `Reading order:` and an empty line. An entry is one line
    "- `name`: sentence."; it may go on in lines that are indented by two spaces. A package whose
    only file is `__init__.py` needs no list.
    """
    found = []
    for path, tree in trees.items():
        docstring = ast.get_docstring(tree) or ""
        if path.name != "__init__.py" or path.parent in UNLISTED:
            continue
        parts = _parts(path.parent, trees)
        if not parts and ORDER_HEADING not in docstring:
            continue
        listed, wrong = _listed(docstring)
        found += [f"{path}: {text}" for text in wrong]
        for name in sorted(parts):
            if listed.count(name) != 1:
                found.append(f"{path}: `{name}` is listed {listed.count(name)} times")
        for name in sorted(set(listed) - parts):
            found.append(f"{path}: `{name}` is listed and does not exist")
    return found


def _listed(docstring: str) -> tuple[list[str], list[str]]:
    """(the listed names, what is wrong with the form of the list)."""
    lines = docstring.splitlines()
    if lines.count(ORDER_HEADING) != 1:
        return [], [f"'{ORDER_HEADING}' stands there {lines.count(ORDER_HEADING)} times"]
    at = lines.index(ORDER_HEADING) + 1
    names: list[str] = []
    wrong = [] if lines[at : at + 1] == [""] else ["no empty line follows the heading"]
    entries: list[str] = []
    for line in lines[at + 1 :]:
        if line.startswith("  ") and entries:
            entries[-1] += " " + line.strip()
        elif line:
            entries.append(line)
        else:
            break
    for entry in entries:
        matched = ORDER_LINE.fullmatch(entry)
        if matched is None or not entry.endswith("."):
            wrong.append(f"'{entry}' is not of the form '- `name`: sentence.'")
        else:
            names.append(matched[1])
    return names, wrong


def _parts(package: Path, trees: dict[Path, ast.Module]) -> set[str]:
    """The names of the package's modules and sub-packages."""
    modules = {path.stem for path in trees if path.parent == package} - {"__init__"}
    packages = {path.parent.name for path in trees if path.parent.parent == package}
    return modules | packages


CHECKS: Final = (
    long_functions,
    long_modules,
    many_methods,
    large_classes,
    assignments_from_outside,
    reading_orders,
)


def violations(root: Path = ROOT) -> list[str]:
    """The violations of all rules, a line each."""
    trees = parsed(root)
    return [line for check in CHECKS for line in check(trees)]


if __name__ == "__main__":
    lines = violations()
    print("\n".join(lines) or "no violations")
    sys.exit(1 if lines else 0)
