"""Checks of the source tree, each a function that returns a line for every violation.

`make lint` runs them all (`python -m tests.house.rules`), and the tests beside this file plant a
violation of each.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Union

ROOT: Final = Path(__file__).resolve().parents[2]
PACKAGES: Final = ("anabranch", "crdt", "region", "sync", "cli", "sim", "bench")
FUNCTION_LINES_MAX: Final = 60
ATTRIBUTES_MAX: Final = 20
# Where classes are held to `ATTRIBUTES_MAX`.
COUNTED: Final = ("crdt", "region", "sync")
# Objects whose fields only their own methods set, by the names that variables have for them.
CLOSED: Final = frozenset({"engine", "hub", "driver", "state"})
# Folders in which `state` is something of their own.
OWN_STATE: Final = (Path("region", "engine"), Path("sim", "oracle"))

Function = Union[ast.FunctionDef, ast.AsyncFunctionDef]


def sources(root: Path = ROOT) -> Iterator[Path]:
    """Every Python file of the product, relative to the root; nothing that is generated."""
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            relative = path.relative_to(root)
            linked = any((root / above).is_symlink() for above in relative.parents)
            if not linked and not path.name.endswith("_pb2.py"):
                yield relative


def parsed(root: Path = ROOT) -> dict[Path, ast.Module]:
    """The syntax tree of every source."""
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


def large_classes(trees: dict[Path, ast.Module]) -> list[str]:
    """Classes of `crdt`, `region` and `sync` with more than 20 attributes, inherited ones included."""
    classes: dict[str, tuple[Path, ast.ClassDef]] = {}
    for path, tree in trees.items():
        if path.parts[0] in COUNTED:
            for node in ast.walk(tree):
                if isinstance(node, ast.ClassDef):
                    classes[node.name] = (path, node)
    found = []
    for name, (path, node) in classes.items():
        attributes = _attributes(node, classes)
        if len(attributes) > ATTRIBUTES_MAX:
            found.append(f"{path}:{node.lineno}: {name} has {len(attributes)} attributes")
    return found


def _attributes(node: ast.ClassDef, classes: dict[str, tuple[Path, ast.ClassDef]]) -> set[str]:
    names: set[str] = set()
    for base in node.bases:
        if isinstance(base, ast.Name) and base.id in classes and base.id != node.name:
            names |= _attributes(classes[base.id][1], classes)
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            names.add(statement.target.id)
    for inner in ast.walk(node):
        for target in _targets(inner):
            if isinstance(target.value, ast.Name) and target.value.id == "self":
                names.add(target.attr)
    return names


def _targets(node: ast.AST) -> Iterator[ast.Attribute]:
    """The attributes that a statement sets or deletes."""
    for inner in ast.iter_child_nodes(node):
        for one in ast.walk(inner) if isinstance(node, (ast.Assign, ast.AnnAssign)) else [inner]:
            if isinstance(one, ast.Attribute) and isinstance(one.ctx, (ast.Store, ast.Del)):
                yield one


def assignments_from_outside(trees: dict[Path, ast.Module]) -> list[str]:
    """Assignments to a field of engine, hub or driver, or of anything that they hold."""
    found = []
    for path, tree in trees.items():
        closed = CLOSED - {"state"} if set(OWN_STATE) & set(path.parents) else CLOSED
        for node in ast.walk(tree):
            for target in _targets(node):
                names = _chain(target.value)
                if closed.intersection(names):
                    text = f"{'.'.join(names)}.{target.attr}"
                    found.append(f"{path}:{target.lineno}: {text} is set from outside")
    return found


def _chain(node: ast.expr) -> list[str]:
    """["self", "driver", "engine"] for `self.driver.engine`; calls and subscripts are looked through."""
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


CHECKS: Final = (long_functions, large_classes, assignments_from_outside)


def violations(root: Path = ROOT) -> list[str]:
    """All violations of all rules."""
    trees = parsed(root)
    return [line for check in CHECKS for line in check(trees)]


if __name__ == "__main__":
    lines = violations()
    print("\n".join(lines) or "the house is in order")
    sys.exit(1 if lines else 0)
