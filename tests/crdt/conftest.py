"""Settings of the property tests: every run draws the same examples, without a time limit."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile(
    "crdt",
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("crdt")
