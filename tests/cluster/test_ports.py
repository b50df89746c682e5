"""Ports that nobody listens on yet are given once."""

from __future__ import annotations

import random

import pytest

from anabranch.cluster import ports


def test_a_port_is_not_given_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy got the port of a region that had not started yet."""
    drawn = random.Random(7)
    monkeypatch.setattr(ports, "random", drawn)
    first = ports.free_ports(3)
    row = ports.free_row(4)
    drawn.seed(7)
    again = [*ports.free_ports(3), ports.free_row(4)]
    given = [*first, *range(row, row + 4), *again[:3], *range(again[3], again[3] + 4)]
    assert len(set(given)) == len(given) == 14
