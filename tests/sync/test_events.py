"""Events are one line each, whatever their fields contain."""

from __future__ import annotations

import logging
import re

import pytest

from anabranch.sync.session.events import LoggedEvent


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("eu", "eu"),
        (12, "12"),
        ("127.0.0.1:7101", "127.0.0.1:7101"),
        ("", '""'),
        ("no route", '"no route"'),
        ('a "b" \\c', '"a \\"b\\" \\\\c"'),
        ("a\nevent=forged\r\t", '"a\\nevent=forged\\r\\t"'),
        ("\x1b[2J\u2028", '"\\u001b[2J\\u2028"'),
        ("ü", '"ü"'),
    ],
)
def test_values(value: object, shown: str) -> None:
    line = LoggedEvent(logging.INFO, "link_lost", "is lost", {"peer": value}).line("us")
    assert line == f'event=link_lost region=us peer={shown} text="is lost"'
    assert "\n" not in line and re.fullmatch(r'(\w+=([^" ]+|"([^"\\]|\\.)*")( |$))+', line)
