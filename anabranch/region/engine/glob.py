"""Redis's glob patterns: ``*``, ``?``, ``[a-z]``, ``[^…]``, and a backslash before a literal byte.

A pattern is parsed once into tokens. Each token matches one byte, or any run of bytes (``*``).
Matching backtracks only to the last star: if the tokens after it do not match, the star takes one
more byte. Earlier stars need no second try, because a longer run for one of them could not make
more matches possible than a longer run for the last star. So the cost of a match is at most the
product of both lengths for any pattern, while retrying every star would be exponential.
"""

from __future__ import annotations

from typing import Final

_STAR: Final = 42
_QUESTION: Final = 63
_OPEN: Final = 91
_CLOSE: Final = 93
_CARET: Final = 94
_DASH: Final = 45
_BACKSLASH: Final = 92

# Tokens: 0 to 255 match that byte, _ANY any one byte, _RUN any run of bytes, and _CLASS + index a
# byte of the class with that index.
_ANY: Final = 256
_RUN: Final = 257
_CLASS: Final = 258


class Glob:
    """One pattern, ready to be matched many times."""

    def __init__(self, pattern: bytes, ignore_case: bool = False) -> None:
        self.pattern: Final = pattern
        self.ignore_case: Final = ignore_case
        self.tokens: list[int] = []
        # For each class, 256 bytes: 1 if the class contains that byte, else 0.
        self.classes: list[bytes] = []
        self._read(pattern.lower() if ignore_case else pattern)
        self.matches_all: Final = self.tokens == [_RUN]

    def _read(self, pattern: bytes) -> None:
        tokens = self.tokens
        size = len(pattern)
        index = 0
        while index < size:
            byte = pattern[index]
            if byte == _STAR:
                if not tokens or tokens[-1] != _RUN:
                    tokens.append(_RUN)
            elif byte == _QUESTION:
                tokens.append(_ANY)
            elif byte == _OPEN:
                index = self._read_class(pattern, index + 1)
            else:
                if byte == _BACKSLASH and index + 1 < size:
                    index += 1
                    byte = pattern[index]
                tokens.append(byte)
            index += 1

    def _read_class(self, pattern: bytes, index: int) -> int:
        """Reads the class whose content begins at `index`.

        Returns the index of its closing bracket. A class without one ends with the pattern.
        """
        size = len(pattern)
        negated = index < size and pattern[index] == _CARET
        if negated:
            index += 1
        contains = bytearray(256)
        while index < size and pattern[index] != _CLOSE:
            if pattern[index] == _BACKSLASH and index + 1 < size:
                index += 1
                contains[pattern[index]] = 1
            elif index + 2 < size and pattern[index + 1] == _DASH:
                first = min(pattern[index], pattern[index + 2])
                last = max(pattern[index], pattern[index + 2])
                for byte in range(first, last + 1):
                    contains[byte] = 1
                index += 2
            else:
                contains[pattern[index]] = 1
            index += 1
        if negated:
            for byte in range(256):
                contains[byte] ^= 1
        self.tokens.append(_CLASS + len(self.classes))
        self.classes.append(bytes(contains))
        return index

    def matches(self, text: bytes) -> bool:
        """Whether the pattern matches the whole of `text`."""
        if self.matches_all:
            return True
        if self.ignore_case:
            text = text.lower()
        tokens = self.tokens
        token_count = len(tokens)
        size = len(text)
        at_token = 0
        at_byte = 0
        # Index of the last star passed, and the byte at which its run ended in the last attempt.
        star_token = -1
        star_byte = 0
        while at_byte < size:
            token = tokens[at_token] if at_token < token_count else -1
            if token == _RUN:
                star_token = at_token
                star_byte = at_byte
                at_token += 1
            elif (
                token == text[at_byte]
                or token == _ANY
                or (token >= _CLASS and self.classes[token - _CLASS][text[at_byte]])
            ):
                at_token += 1
                at_byte += 1
            elif star_token >= 0:
                star_byte += 1
                at_byte = star_byte
                at_token = star_token + 1
            else:
                return False
        while at_token < token_count and tokens[at_token] == _RUN:
            at_token += 1
        return at_token == token_count
