"""Counts with their nouns, and lists of words, for messages."""

from __future__ import annotations

from collections.abc import Sequence


def counted(count: int, noun: str, nouns: str = "") -> str:
    """``1 region``, ``2 regions``. `nouns` is the plural, if it is not `noun` with an s."""
    return f"{count} {noun if count == 1 else nouns or noun + 's'}"


def joined(words: Sequence[str]) -> str:
    """Words as ``a``, ``a and b``, ``a, b and c``."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def listed(words: Sequence[str], most: int) -> str:
    """Words with commas, at most `most` of them: ``a, b and 2 more``."""
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return f"{', '.join(words[:most])}{more}"
