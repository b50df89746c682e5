"""A small run of bench.malformed: the same mutations against a live region, and nothing timed."""

from __future__ import annotations

import pytest

from anabranch.bench.malformed import attack

pytestmark = pytest.mark.live


def test_malformed_requests_break_nothing() -> None:
    assert attack(2000, seed=7, growth_max=None, quiet=True).failures == []
