"""A short run of bench.malformed: its mutations against a live region, without measurements."""

from __future__ import annotations

import pytest

from anabranch.bench.malformed import attack

pytestmark = pytest.mark.live


def test_malformed_requests_break_nothing() -> None:
    assert attack(2000, seed=7, growth_max=None).failures == []
