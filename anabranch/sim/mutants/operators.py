"""Mechanical mutants: small changes of one line, made by the operators of cosmic-ray.

cosmic-ray has an operator for each pair of comparisons, arithmetic signs and so on. `OPERATORS`
lists those whose mutants a test can be expected to notice, and one of our own, which removes a
statement. Only the bodies of functions are mutated: constants, annotations and defaults decide
little. Strings, assertions and logging are left alone.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final

from cosmic_ray.ast import get_ast
from cosmic_ray.operators.operator import Operator
from cosmic_ray.plugins import get_operator

Node = Any
"""A node or a leaf of a syntax tree of parso, which keeps all characters of the source."""

_COMPARISONS: Final = (
    "Lt_LtE Lt_GtE LtE_Lt LtE_Gt Gt_GtE Gt_LtE GtE_Gt GtE_Lt Eq_NotEq NotEq_Eq Is_IsNot IsNot_Is"
)
_SIGNS: Final = (
    "Add_Sub Sub_Add Mul_FloorDiv FloorDiv_Mul Div_Mul Mod_Mul "
    "LShift_RShift RShift_LShift BitAnd_BitOr BitOr_BitAnd BitXor_BitAnd"
)
_OTHERS: Final = (
    "AddNot ReplaceTrueWithFalse ReplaceFalseWithTrue ReplaceAndWithOr ReplaceOrWithAnd "
    "ReplaceBreakWithContinue ReplaceContinueWithBreak NumberReplacer ZeroIterationForLoop "
    "ReplaceUnaryOperator_Delete_Not ReplaceUnaryOperator_Delete_USub"
)
_LOGGERS: Final = ("_log", "logging", "logger")
_LEFT_ALONE: Final = ("assert_stmt", "fstring", "decorator")


class RemoveStatement(Operator):  # type: ignore[misc]
    """Puts `pass` in the place of a call, an assignment to a part of an object, `del` or `raise`.

    An assignment to a name stays, because without it there is mostly only a NameError; so does an
    assignment in `__init__`.
    """

    def mutation_positions(self, node: Node) -> Iterator[tuple[object, object]]:
        if node.type == "simple_stmt" and _is_removable(node):
            yield node.start_pos, node.end_pos

    def mutate(self, node: Node, index: int) -> Node:
        prefix = node.get_first_leaf().prefix
        node.children[0] = get_ast(prefix + "pass")
        return node

    @classmethod
    def examples(cls) -> tuple[object, ...]:
        return ()


def _is_removable(line: Node) -> bool:
    statement = line.children[0]
    kind = statement.type
    if kind == "expr_stmt":
        target, sign = statement.children[:2]
        if sign.type == "operator" and sign.value == "=":
            function = line.search_ancestor("funcdef").name.value
            return function != "__init__" and target.type in ("atom_expr", "power")
        return bool(sign.type == "operator")  # += and its like, not an annotation
    if kind in ("atom_expr", "power"):
        is_called: bool = statement.children[-1].get_code().startswith("(")
        return is_called and statement.get_first_leaf().value != "super"
    return kind in ("del_stmt", "raise_stmt") or statement.get_code().strip() == "raise"


def _operators() -> dict[str, Operator]:
    names = [
        *(f"ReplaceComparisonOperator_{name}" for name in _COMPARISONS.split()),
        *(f"ReplaceBinaryOperator_{name}" for name in _SIGNS.split()),
        *_OTHERS.split(),
    ]
    return {
        **{name: get_operator(f"core/{name}")() for name in names},
        "RemoveStatement": RemoveStatement(),
    }


OPERATORS: Final = _operators()

Key = tuple[str, str, int, str, str]
"""(path, function, nth mutant with the same lines there, line before, line after)."""


@dataclass(frozen=True)
class Mutant:
    """A changed line.

    `before` and `after` are the line's texts without indentation, `where` the function that
    contains it. `nth` counts, from 1, the mutants of the function with equal `before` and `after`.
    """

    path: str
    line: int
    operator: str
    where: str
    before: str
    after: str
    nth: int

    def key(self) -> Key:
        """Names the mutant while its line stays unchanged, wherever the line moves."""
        return (self.path, self.where, self.nth, self.before, self.after)

    def diff(self) -> str:
        return (
            f"{self.path}:{self.line} ({self.where}; {self.operator})"
            f"\n-    {self.before}\n+    {self.after}"
        )

    def apply(self, source: str) -> str:
        """The mutated source."""
        lines = source.splitlines(keepends=True)
        lines[self.line - 1] = lines[self.line - 1].replace(self.before, self.after, 1)
        return "".join(lines)

    def is_another(self, source: str) -> bool:
        """Whether the mutated source compiles to another program than `source`."""
        try:
            return ast.dump(ast.parse(self.apply(source))) != ast.dump(ast.parse(source))
        except SyntaxError:
            return False


def mutants_of(path: str, source: str) -> list[Mutant]:
    """Every mutant of a module, in the order of the text.

    The caller still has to ask `Mutant.is_another`.
    """
    lines = source.splitlines(keepends=True)
    found: set[tuple[int, str, str, str]] = set()
    for node, where in _decisions(get_ast(source), "", False):
        for name, operator in OPERATORS.items():
            for index, _ in enumerate(operator.mutation_positions(node)):
                if not (name == "AddNot" and _is_negated_otherwise(node)):
                    found |= {
                        (line, after, name, where)
                        for line, after in _changed(lines, node, operator, index)
                    }
    seen: Counter[tuple[str, str, str]] = Counter()
    mutants: list[Mutant] = []
    for line, after, name, where in sorted(found):
        before = lines[line - 1].strip()
        seen[where, before, after] += 1
        nth = seen[where, before, after]
        mutants.append(Mutant(path, line, name, where, before, after, nth))
    return mutants


def _decisions(node: Node, where: str, inside: bool) -> Iterator[tuple[Node, str]]:
    """The nodes of function bodies that may be mutated, each with the name of its function."""
    if node.type in _LEFT_ALONE or (
        node.type == "simple_stmt" and node.get_first_leaf().value in _LOGGERS
    ):
        return
    children = getattr(node, "children", [])
    if node.type in ("funcdef", "classdef"):
        where = f"{where}.{node.name.value}" if where else node.name.value
        inside, children = node.type == "funcdef", children[-1:]
    elif node.type == "annassign":
        children = children[3:]
    elif inside:
        yield node, where
    for child in children:
        yield from _decisions(child, where, inside)


def _is_negated_otherwise(node: Node) -> bool:
    """Whether another operator negates the condition of an `if`, `while` or `x if y else z`."""
    condition = node.children[2 if node.type == "test" else 1]
    return condition.type == "not_test" or (
        condition.type == "comparison"
        and condition.children[1].get_code().strip() not in ("in", "not in")
    )


def _changed(lines: list[str], node: Node, operator: Operator, index: int) -> list[tuple[int, str]]:
    """(number, text without indentation) of the changed line; [] if the change is longer."""
    first, column = node.get_start_pos_of_prefix()
    last, end = node.end_pos
    copy = deepcopy(node, {id(node.parent): node.parent})  # without the tree around it
    code = operator.mutate(copy, index).get_code()
    before = [*lines[first - 1 : last], ""]
    text = before[0][:column] + code + before[last - first][end:]
    after = [*text.splitlines(keepends=True), ""]
    if len(before) != len(after) and len(after) != len(before) - 1:
        return []
    changed = [
        (first + number, new.strip())
        for number, (old, new) in enumerate(zip(before, after, strict=False))
        if old != new
    ]
    return changed if len(changed) == 1 else []
