"""One setting: its name, type, default and bounds, and how a value is written."""

from __future__ import annotations

from typing import Optional, Union

Value = Union[int, str]


class Setting:
    """One setting.

    `text` describes it for users. `rule` names the rules of docs/semantics.md behind it, such as
    "S6.2, S9.2"; only docs/settings.md shows them. `minimum` and `maximum` bound an integer,
    `choices` are the values of a string. `is_bytes`: the integer is a size. CONFIG SET may change
    the setting if it is `mutable`; otherwise the start reads it once. A setting that is `fixed` has
    its default value always.
    """

    def __init__(
        self,
        name: str,
        default: Value,
        text: str,
        *,
        minimum: int = 0,
        maximum: int = (1 << 63) - 1,
        choices: Optional[list[str]] = None,
        mutable: bool = True,
        fixed: bool = False,
        is_bytes: bool = False,
        rule: str = "",
    ) -> None:
        self.name = name
        self.default = default
        self.text = text
        self.minimum = minimum
        self.maximum = maximum
        self.choices = choices
        self.mutable = mutable and not fixed
        self.fixed = fixed
        self.is_bytes = is_bytes
        self.rule = rule

    def parse(self, text: str) -> Value:
        """Parses a value. Sizes may have Redis's units (``64mb``).

        Raises:
            ValueError: `text` is not a valid value. The message names the expected form.
        """
        if self.fixed:
            if text.lower() != str(self.default).lower():
                raise ValueError(f"{self.name} cannot be '{text}': {self.text}")
            return self.default
        if isinstance(self.default, str):
            if self.choices is not None and text.lower() not in self.choices:
                raise ValueError(f"{self.name} must be one of: {', '.join(self.choices)}")
            return text.lower() if self.choices is not None else text
        number = self.number(text)
        if number is None:
            raise ValueError(
                f"{self.name} must be "
                f"{'a memory size such as 64mb' if self.is_bytes else 'an integer'}, not '{text}'"
            )
        if not self.minimum <= number <= self.maximum:
            raise ValueError(
                f"{self.name} must be between {self.minimum} and {self.maximum}, not {number}"
            )
        return number

    def number(self, text: str) -> Optional[int]:
        """The integer or size that `text` writes, whatever the bounds; None if it writes none."""
        return _parse_size(text) if self.is_bytes else _parse_integer(text)


# The units that a size may end with; they are those of Redis.
_UNITS = {
    "": 1,
    "b": 1,
    "k": 1000,
    "kb": 1 << 10,
    "m": 1000**2,
    "mb": 1 << 20,
    "g": 1000**3,
    "gb": 1 << 30,
}


# Digits of the longest number that is parsed; no setting may have a value with so many.
_DIGITS_MAX = 100


def _parse_integer(text: str) -> Optional[int]:
    """Digits, with a minus sign or none. `int` would also take spaces, underscores and a plus."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= _DIGITS_MAX):
        return None
    return int(text)


def _parse_size(text: str) -> Optional[int]:
    digits = text.lower().rstrip("bkmg")
    unit = _UNITS.get(text.lower()[len(digits) :])
    number = None if digits.startswith("-") else _parse_integer(digits)
    return None if number is None or unit is None else number * unit
