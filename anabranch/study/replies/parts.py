"""Parts of replies as values. Names of keys, groups and consumers, and values, are bytes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Optional, Union

from anabranch.answers import vector_of
from anabranch.crdt import ids
from anabranch.crdt.place import Place, at_counters, at_id
from anabranch.crdt.vector import Dot

ToldPlace = Union[str, list[int]]
"""A start or a floor as replies have it: an entry ID, or a flat vector."""


def raw(value: Any) -> bytes:
    """A name or value. In a text, surrogates stand for bytes that are not UTF-8."""
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogateescape")


def word(value: Any) -> str:
    """A word that is no name of users, such as a field, a kind or an ID."""
    return value.decode() if isinstance(value, bytes) else str(value)


def fields_of(reply: Any) -> dict[str, Any]:
    """A map reply by names, from a RESP3 map or a flat array."""
    if isinstance(reply, dict):
        return {word(name): value for name, value in reply.items()}
    return {word(reply[index]): reply[index + 1] for index in range(0, len(reply), 2)}


def id_of(value: Any) -> int:
    """An entry ID as a number."""
    return ids.parse(raw(value), 0)


def dot_of(pair: Any) -> Dot:
    """A dot, from [region_id, counter] or from a longer list that begins so."""
    return int(pair[0]), int(pair[1])


def dots_of(pairs: Iterable[Any]) -> list[Dot]:
    """Dots, in their order."""
    return [dot_of(pair) for pair in pairs]


def deadline_of(value: Any) -> Optional[int]:
    """The time of a deadline; None: never."""
    return value if isinstance(value, int) else None


def told_place(value: Any) -> ToldPlace:
    """A place as the reply has it."""
    return [int(one) for one in value] if isinstance(value, list) else word(value)


def place_of(told: ToldPlace) -> Place:
    """A place as a value that tells which entries lie below it."""
    return at_counters(vector_of(told)) if isinstance(told, list) else at_id(id_of(told))
