"""RESP replies as values with their types, so that a simple string never equals a bulk string."""

from __future__ import annotations

from typing import Final, Union


class Typed:
    """One reply.

    `kind` is its RESP marker. `value` is bytes, an int, None or the list of elements; for a map
    these are keys and values in turn.
    """

    def __init__(self, kind: str, value: Union[int, bytes, list[Typed], None]) -> None:
        self.kind = kind
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Typed) and (self.kind, self.value) == (other.kind, other.value)

    __hash__ = None  # type: ignore[assignment]

    @property
    def elements(self) -> list[Typed]:
        """The elements of an array, set or map; empty for any other reply."""
        return self.value if isinstance(self.value, list) else []

    def __repr__(self) -> str:
        return show(self)


_SCALARS: Final = "+-:,#("
_AGGREGATES: Final = {"*": 1, "~": 1, "%": 2}


def show(reply: Typed) -> str:
    """A reply as one readable line.

    The forms are ``+OK``, ``-ERR …``, ``:3``, ``"bulk"``, ``nil``, ``[…]``, ``{…}`` (map) and
    ``~[…]`` (set).
    """
    if reply.value is None:
        return {"$": "nil", "*": "nil-array", "_": "null"}[reply.kind]
    if isinstance(reply.value, list):
        inner = ", ".join(show(one) for one in reply.value)
        return {"*": f"[{inner}]", "~": f"~[{inner}]", "%": f"{{{inner}}}"}[reply.kind]
    if isinstance(reply.value, int):
        return f":{reply.value}"
    text = reply.value.decode("utf-8", "backslashreplace")
    return f'"{text}"' if reply.kind == "$" else f"{reply.kind}{text}"


class Incomplete(Exception):
    """More bytes are needed."""


def read(data: bytes, at: int = 0) -> tuple[Typed, int]:
    """The reply that begins at offset `at`, and the offset of the next.

    Raises `Incomplete` if `data` does not hold the whole reply.
    """
    end = data.find(b"\r\n", at)
    if end < 0:
        raise Incomplete
    kind = chr(data[at])
    head = data[at + 1 : end]
    after = end + 2
    if kind == ":":
        return Typed(kind, int(head)), after
    if kind == "_":
        return Typed(kind, None), after
    if kind in _SCALARS:
        return Typed(kind, head), after
    size = int(head)
    if size < 0:
        return Typed(kind, None), after
    if kind in "$=":
        if len(data) < after + size + 2:
            raise Incomplete
        return Typed(kind, data[after : after + size]), after + size + 2
    elements: list[Typed] = []
    for _ in range(size * _AGGREGATES[kind]):
        element, after = read(data, after)
        elements.append(element)
    return Typed(kind, elements), after
