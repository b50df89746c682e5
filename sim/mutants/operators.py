"""Mechanical mutants: small changes of one line, by the standard operators of mutation testing.

A mutant replaces some characters of one line. Code that makes no decisions is left alone:
annotations, strings, assertions, logging, `__slots__`. mutmut and cosmic-ray have most of these
operators, too. But neither removes statements or changes return values, and neither gives a mutant
as a change of text that a list of equivalent mutants can name.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Optional

# Each comparison becomes its neighbour at the boundary, and its negation.
_COMPARISONS: Final = {
    "<": ("<=", ">="),
    "<=": ("<", ">"),
    ">": (">=", "<="),
    ">=": (">", "<"),
    "==": ("!=",),
    "!=": ("==",),
    "is": ("is not",),
    "is not": ("is",),
    "in": ("not in",),
    "not in": ("in",),
}
_ARITHMETIC: Final = {
    "+": "-",
    "-": "+",
    "*": "//",
    "//": "*",
    "/": "*",
    "%": "*",
    "<<": ">>",
    ">>": "<<",
    "&": "|",
    "|": "&",
    "^": "&",
    "**": "*",
}
_RETURNS: Final = {"int": "0", "bytes": 'b""', "str": '""', "float": "0.0"}
_LOGGERS: Final = ("_log", "logging", "logger")


Key = tuple[str, str, int, str, str]
"""(path, function, nth mutant with the same lines there, line before, line after)."""


@dataclass(frozen=True)
class Mutant:
    """A changed line.

    `before` and `after` are the line's texts without indentation, `where` the function that
    contains it. `text` replaces the characters from `column` to `end`. `nth` counts, from 1, the
    mutants of the function with equal `before` and `after`.
    """

    path: str
    line: int
    column: int
    end: int
    text: str
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
        line = lines[self.line - 1]
        lines[self.line - 1] = line[: self.column] + self.text + line[self.end :]
        return "".join(lines)

    def is_another(self, source: str) -> bool:
        """Whether the mutated source compiles to another program than `source`."""
        try:
            return ast.dump(ast.parse(self.apply(source))) != ast.dump(ast.parse(source))
        except SyntaxError:
            return False


@dataclass(frozen=True)
class _Change:
    line: int
    column: int
    end: int
    text: str
    operator: str


class _Source:
    """A module's text and tokens; columns are in characters, as in `str`."""

    def __init__(self, source: str) -> None:
        self.lines = source.splitlines(keepends=True)
        self.tokens = [
            token
            for token in tokenize.generate_tokens(io.StringIO(source).readline)
            if token.type in (tokenize.OP, tokenize.NAME, tokenize.NUMBER)
        ]

    def column(self, line: int, byte_offset: int) -> int:
        """The column in characters; ast counts UTF-8 bytes."""
        return len(self.lines[line - 1].encode()[:byte_offset].decode())

    def start(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        return node.lineno, self.column(node.lineno, node.col_offset)

    def end(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None and node.end_col_offset is not None
        return node.end_lineno, self.column(node.end_lineno, node.end_col_offset)

    def between(self, start: tuple[int, int], end: tuple[int, int]) -> list[tokenize.TokenInfo]:
        """The tokens from one position to another, without parentheses."""
        return [
            token
            for token in self.tokens
            if start <= token.start and token.end <= end and token.string not in "()"
        ]

    def one_line(self, node: ast.expr | ast.stmt) -> Optional[tuple[int, int, int]]:
        """(line, column, end) of a node on one line; None for a longer node."""
        line, column = self.start(node)
        end_line, end = self.end(node)
        return (line, column, end) if line == end_line else None


class _Finder:
    """Walks a module and lists the changes of each function."""

    def __init__(self, source: _Source) -> None:
        self.source = source
        self.found: list[tuple[str, _Change]] = []

    def walk(self, node: ast.AST, where: str, returns: str) -> None:
        """`returns` is the return annotation of the function that contains the node."""
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            where = f"{where}.{node.name}" if where else node.name
            if not isinstance(node, ast.ClassDef):
                returns = ast.unparse(node.returns) if node.returns is not None else ""
                bound: set[str] = set()
                for statement in node.body:
                    self._removals(statement, where, bound)
                for default in [
                    *node.args.defaults,
                    *(one for one in node.args.kw_defaults if one is not None),
                ]:
                    self.walk(default, where, returns)
            for statement in node.body:
                self.walk(statement, where, returns)
            return
        if isinstance(
            node, ast.Assert | ast.Import | ast.ImportFrom | ast.JoinedStr
        ) or _is_left_alone(node):
            return
        if isinstance(node, ast.AnnAssign):
            if node.value is not None:
                self.walk(node.value, where, returns)
            return
        for change in self._changes(node, returns):
            self.found.append((where, change))
        for child in ast.iter_child_nodes(node):
            self.walk(child, where, returns)

    # -- expressions

    def _changes(self, node: ast.AST, returns: str) -> Iterator[_Change]:
        if isinstance(node, ast.Compare):
            operands = [node.left, *node.comparators]
            for left, right in pairwise(operands):
                yield from self._replaced(
                    left, right, lambda text: _COMPARISONS.get(text, ()), "comparison"
                )
        elif isinstance(node, ast.BinOp):
            yield from self._replaced(
                node.left, node.right, lambda text: (_ARITHMETIC[text],), "arithmetic"
            )
        elif isinstance(node, ast.AugAssign):
            yield from self._replaced(
                node.target, node.value, lambda text: (_ARITHMETIC[text[:-1]] + "=",), "arithmetic"
            )
        elif isinstance(node, ast.BoolOp):
            for left, right in pairwise(node.values):
                yield from self._replaced(
                    left, right, lambda text: ("or" if text == "and" else "and",), "and/or"
                )
        elif isinstance(node, ast.UnaryOp):
            yield from self._unary(node)
        elif isinstance(node, ast.Constant):
            yield from self._constant(node)
        elif isinstance(node, ast.If | ast.While | ast.IfExp):
            yield from self._condition(node.test)
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in ("min", "max")
        ):
            yield from self._whole(node.func, "max" if node.func.id == "min" else "min", "min/max")
        elif isinstance(node, ast.Continue):
            yield from self._whole(node, "break", "continue/break")
        elif isinstance(node, ast.Break):
            yield from self._whole(node, "continue", "continue/break")
        elif isinstance(node, ast.Return) and node.value is not None:
            yield from self._returned(node.value, returns)

    def _replaced(
        self, left: ast.expr, right: ast.expr, by: object, operator: str
    ) -> Iterator[_Change]:
        """Changes the operator between two operands."""
        assert callable(by)
        tokens = self.source.between(self.source.end(left), self.source.start(right))
        if not tokens or tokens[0].start[0] != tokens[-1].start[0]:
            return
        text = " ".join(token.string for token in tokens)
        for other in by(text):
            yield _Change(
                tokens[0].start[0], tokens[0].start[1], tokens[-1].end[1], other, operator
            )

    def _whole(self, node: ast.expr | ast.stmt, text: str, operator: str) -> Iterator[_Change]:
        place = self.source.one_line(node)
        if place is not None:
            yield _Change(*place, text, operator)

    def _unary(self, node: ast.UnaryOp) -> Iterator[_Change]:
        place = self.source.one_line(node)
        if place is None:
            return
        line, column, _ = place
        if isinstance(node.op, ast.Not):
            yield _Change(line, column, self.source.start(node.operand)[1], "", "removed not")
        elif isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant):
            yield _Change(line, column, column + 1, "", "removed minus")

    def _constant(self, node: ast.Constant) -> Iterator[_Change]:
        value = node.value
        if isinstance(value, bool):
            yield from self._whole(node, str(not value), "True/False")
        elif isinstance(value, int):
            yield from self._whole(node, "0" if value == 1 else str(value + 1), "constant")

    def _condition(self, test: ast.expr) -> Iterator[_Change]:
        """Negates conditions that the other operators do not change."""
        if isinstance(test, ast.Name | ast.Attribute | ast.Call | ast.Subscript | ast.BinOp):
            place = self.source.one_line(test)
            if place is not None:
                line, column, _ = place
                yield _Change(line, column, column, "not ", "negated condition")

    def _returned(self, value: ast.expr, returns: str) -> Iterator[_Change]:
        if isinstance(value, ast.Constant):
            return
        if returns == "bool":
            yield from self._whole(value, "True", "returned value")
            yield from self._whole(value, "False", "returned value")
        elif returns in _RETURNS:
            yield from self._whole(value, _RETURNS[returns], "returned value")
        elif returns.startswith("Optional["):
            yield from self._whole(value, "None", "returned value")
        elif returns.startswith("list[") and not (isinstance(value, ast.List) and not value.elts):
            yield from self._whole(value, "[]", "returned value")
        elif returns == "Vector" or returns.startswith("dict["):
            yield from self._whole(value, "{}", "returned value")

    # -- statements

    def _removals(self, statement: ast.stmt, where: str, bound: set[str]) -> None:
        """Removals of statements.

        The first binding of a variable or an attribute stays: without it there is only a NameError.
        """
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            return
        removable = isinstance(statement, ast.AugAssign | ast.Delete)
        if isinstance(statement, ast.Expr):
            removable = (
                isinstance(statement.value, ast.Call)
                and not _is_left_alone(statement)
                and not _is_super(statement.value)
            )
        elif isinstance(statement, ast.Raise):
            removable = True
        elif isinstance(statement, ast.Assign):
            names = {
                name.id
                for target in statement.targets
                for name in ast.walk(target)
                if isinstance(name, ast.Name)
            }
            stored = {
                name.id
                for target in statement.targets
                for name in ast.walk(target)
                if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
            }
            removable = stored <= bound and bool(names) and not where.endswith(".__init__")
            bound |= stored
        elif isinstance(statement, ast.AnnAssign):
            if isinstance(statement.target, ast.Name):
                bound.add(statement.target.id)
        elif isinstance(statement, ast.For | ast.AsyncFor):
            bound |= {name.id for name in ast.walk(statement.target) if isinstance(name, ast.Name)}
        if removable:
            for change in self._whole(statement, "pass", "removed statement"):
                self.found.append((where, change))
        for block in ("body", "orelse", "finalbody"):
            for inner in getattr(statement, block, []):
                self._removals(inner, where, bound)
        for handler in getattr(statement, "handlers", []):
            for inner in handler.body:
                self._removals(inner, where, bound)


def _is_left_alone(node: ast.AST) -> bool:
    """Whether a node is logging, `__slots__`, `__all__`, a docstring, or for type checkers only."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return True
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        function = node.value.func
        return (
            isinstance(function, ast.Attribute)
            and isinstance(function.value, ast.Name)
            and function.value.id in _LOGGERS
        )
    if isinstance(node, ast.Assign):
        return any(
            isinstance(target, ast.Name) and target.id.startswith("__") for target in node.targets
        )
    return (
        isinstance(node, ast.If)
        and isinstance(node.test, ast.Name)
        and node.test.id == "TYPE_CHECKING"
    )


def _is_super(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Call)


def mutants_of(path: str, source: str) -> list[Mutant]:
    """Every mutant of a module, in the order of the text.

    The caller still has to ask `Mutant.is_another`.
    """
    text = _Source(source)
    finder = _Finder(text)
    for node in ast.parse(source).body:
        finder.walk(node, "", "")
    found: list[Mutant] = []
    seen: dict[tuple[str, str, str], int] = {}
    places: set[tuple[int, int, int, str]] = set()
    for where, change in sorted(
        finder.found, key=lambda one: (one[1].line, one[1].column, one[1].end, one[1].text)
    ):
        place = (change.line, change.column, change.end, change.text)
        if place in places:
            continue
        places.add(place)
        line = text.lines[change.line - 1]
        before, after = (
            line.strip(),
            (line[: change.column] + change.text + line[change.end :]).strip(),
        )
        where = where or "module"
        nth = seen[where, before, after] = seen.get((where, before, after), 0) + 1
        found.append(Mutant(path, *place, change.operator, where, before, after, nth))
    return found
