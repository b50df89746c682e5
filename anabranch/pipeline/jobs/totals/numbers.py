"""Exact sums of the values of fields: texts as decimals, and what is no number.

A number is written in decimal digits, with a point and an exponent if wanted: `7`, `-1.50`,
`1.25e2`. Sums are exact, because no digit of a number is ever dropped. So the digits of a number
are limited, and a text beyond the limits is no number.
"""

from __future__ import annotations

import re
from decimal import Context, Decimal, Inexact, InvalidOperation, Overflow
from typing import Final, Optional

_DIGITS_MAX: Final = 100
_EXPONENT_MAX: Final = 100
_NUMBER: Final = re.compile(rb"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,4})?")
# Wide enough for 10^30 numbers within the limits; a sum that did not fit would be an error.
EXACT: Final = Context(prec=500, traps=[Inexact, InvalidOperation, Overflow])


def number_of(text: bytes) -> Optional[Decimal]:
    """The number that a value is; None if it is none."""
    text = text.strip()
    if len(text) > 2 * _DIGITS_MAX or not _NUMBER.fullmatch(text):
        return None
    value = Decimal(text.decode("ascii"))
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    if len(digits) > _DIGITS_MAX or not -_EXPONENT_MAX <= exponent <= _EXPONENT_MAX:
        return None
    return value


class Sum:
    """A running sum of one field.

    `total` is the sum of the `numbers` values that are numbers; `missing` counts entries without
    the field, `others` those whose value is no number.
    """

    def __init__(
        self, total: Decimal = Decimal(0), numbers: int = 0, missing: int = 0, others: int = 0
    ) -> None:
        self.total = total
        self.numbers = numbers
        self.missing = missing
        self.others = others

    def add(self, text: Optional[bytes]) -> None:
        """Takes the value of one entry; None if it has no such field."""
        if text is None:
            self.missing += 1
            return
        value = number_of(text)
        if value is None:
            self.others += 1
            return
        self.total = EXACT.add(self.total, value)
        self.numbers += 1


def plain(total: Decimal) -> str:
    """A number without an exponent, and without zeros at the end of its decimals."""
    text = f"{total:f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text
