"""Commands as clients send them: arrays of bulk strings."""

from __future__ import annotations

from typing import Union

Word = Union[str, bytes, int]


def command(*words: Word) -> bytes:
    """A command; surrogate escapes in a text become the bytes that they stand for."""
    return b"*%d\r\n%b" % (len(words), word_bytes(*words))


def word_bytes(*words: Word) -> bytes:
    """Words of a command, without the number of words that begins it."""
    parts = []
    for word in words:
        data = word if isinstance(word, bytes) else str(word).encode("utf-8", "surrogateescape")
        parts.append(b"$%d\r\n%b\r\n" % (len(data), data))
    return b"".join(parts)
