"""Counts with their nouns, for messages."""

from __future__ import annotations


def counted(count: int, noun: str, nouns: str = "") -> str:
    """``1 region``, ``2 regions``. `nouns` is the plural, if it is not `noun` with an s."""
    return f"{count} {noun if count == 1 else nouns or noun + 's'}"
