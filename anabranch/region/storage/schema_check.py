"""What a database has that no region makes: triggers, views, tables, columns, expressions. Pure.

A file that was put back comes from somebody who may have changed it. A trigger would change what
the region writes, and a view, a default or a generated column would run expressions. Such a schema
is refused whole, because nothing says what else in the file is not the region's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final

from anabranch.region.storage import schema

# The rows of the schema: type, name, table, SQL (None for an index that a PRIMARY KEY needs).
OBJECTS: Final = "SELECT type, name, tbl_name, sql FROM sqlite_master"
# Name, type, whether it is NOT NULL, default, place in the PRIMARY KEY, kind (0: plain).
COLUMNS: Final = (
    'SELECT name, type, "notnull", dflt_value, pk, hidden FROM pragma_table_xinfo(?) ORDER BY name'
)

Object = tuple[object, ...]
Column = tuple[object, ...]

_WORDS: Final = re.compile(r"\w+|[^\w\s]")
_NAMES_MAX: Final = 5


def _words(sql: str) -> list[str]:
    words = [word.lower() for word in _WORDS.findall(sql)]
    # SQLite does not store these words.
    return words[:2] + words[5:] if words[2:5] == ["if", "not", "exists"] else words


_MADE: Final[list[list[str]]] = [_words(statement) for statement in schema.TABLES]
_TABLES: Final[dict[str, frozenset[str]]] = {
    words[2]: frozenset(words) for words in _MADE if words[1] == "table"
}
_INDEXES: Final[dict[str, list[str]]] = {words[2]: words for words in _MADE if words[1] == "index"}


def _columns_of(words: Sequence[str]) -> set[str]:
    return {word for word, kind in pairwise(words) if kind in _TYPES}


_TYPES: Final = frozenset({"text", "blob", "integer"})
_COLUMNS: Final[dict[str, set[str]]] = {
    words[2]: _columns_of(words) for words in _MADE if words[1] == "table"
}


def strange(objects: Iterable[Object], columns: Mapping[str, Sequence[Column]]) -> str:
    """What no region makes, in words; empty if the schema is that of a region.

    Args:
        objects: The rows of OBJECTS.
        columns: Table → its rows of COLUMNS, for each table in `objects`.
    """
    found = []
    for kind, name, table, sql in objects:
        if kind == "table" and name in _TABLES:
            if not _is_made(str(name), str(sql), columns.get(str(name), ())):
                found.append(f"the table {name} with another definition")
        elif kind != "index" or not _is_made_index(str(name), str(table), sql):
            found.append(f"the {kind} {name}")
    if len(found) > _NAMES_MAX:
        found[_NAMES_MAX:] = [f"{len(found) - _NAMES_MAX} more"]
    return ", ".join(found)


def _is_made(name: str, sql: str, columns: Sequence[Column]) -> bool:
    """Whether a region makes this table.

    Without further words there is no CHECK, no DEFAULT and no other expression. An upgrade has
    added columns at the end, so the order of the words may differ.
    """
    return frozenset(_words(sql)) <= _TABLES[name] and all(
        column[0] in _COLUMNS[name] and column[3] is None and column[5] == 0 for column in columns
    )


def _is_made_index(name: str, table: str, sql: object) -> bool:
    """Whether a region makes this index. Without SQL it is that of a PRIMARY KEY."""
    if sql is None:
        return table in _TABLES
    return _words(str(sql)) == _INDEXES.get(name)
