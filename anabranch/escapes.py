"""Any bytes as text that is safe to show, and back.

Names of keys, groups and consumers are any bytes. A control character among them could move a
cursor, change colours or forge lines, so nothing shows it as it is.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

_SHORT: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\"}
_LONG: Final = {escape[1]: character for character, escape in _SHORT.items()}
# Controls, surrogates, and separators of lines and paragraphs.
_ESCAPED: Final = frozenset({"Cc", "Cs", "Zl", "Zp"})
# Characters that change the direction of the text after them.
_DIRECTIONS: Final = frozenset(
    "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)
# `surrogateescape` decodes a byte above 127 that is not UTF-8 to this code plus the byte.
_SURROGATES: Final = 0xDC00
_ESCAPE: Final = re.compile(r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|([nrt\\]))")
# `harmless` leaves these characters as they are.
_LAYOUT: Final = frozenset("\n\t")


def is_harmful(character: str) -> bool:
    """Whether a character controls the output instead of being part of a text."""
    return unicodedata.category(character) in _ESCAPED or character in _DIRECTIONS


def _escape(character: str) -> str:
    code = ord(character)
    if character in _SHORT:
        return _SHORT[character]
    if code < 0x80:
        return f"\\x{code:02x}"
    if _SURROGATES + 0x80 <= code <= _SURROGATES + 0xFF:
        return f"\\x{code - _SURROGATES:02x}"
    return f"\\u{code:04x}"


def shown(value: bytes | str) -> str:
    """A value with escapes for backslashes, control characters and bytes that are not UTF-8.

    Different values have different texts. In a `str`, the bytes that are not UTF-8 are surrogates
    (``surrogateescape``), as in ``sys.argv``.
    """
    text = value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value
    if text.isprintable() and "\\" not in text:
        return text
    return "".join(
        _escape(character) if character == "\\" or is_harmful(character) else character
        for character in text
    )


def harmless(text: str) -> str:
    """Lines of output with escapes for control characters; newlines and tabs stay."""
    if text.isprintable():
        return text
    return "".join(
        _escape(character) if character not in _LAYOUT and is_harmful(character) else character
        for character in text
    )


def one_line(text: str) -> str:
    """Text of one line of output, such as a cell of a table, with escapes for control characters.

    Unlike `shown` it leaves backslashes as they are.
    """
    if text.isprintable():
        return text
    return "".join(_escape(character) if is_harmful(character) else character for character in text)


def original(text: str) -> bytes:
    """The bytes that `shown` shows as this text.

    Raises:
        ValueError: `shown` never returns this text.
    """
    parts = []
    for index, part in enumerate(_ESCAPE.split(text)):
        if part is None:
            continue
        kind = index % 4
        if kind == 0:
            if "\\" in part:
                raise ValueError(f"a backslash must be doubled, or begin an escape: {part!r}")
            parts.append(part.encode("utf-8"))
        elif kind == 1:
            parts.append(bytes([int(part, 16)]))
        elif kind == 2:
            parts.append(chr(int(part, 16)).encode("utf-8"))
        else:
            parts.append(_LONG[part].encode("ascii"))
    return b"".join(parts)
