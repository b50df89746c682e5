"""Deadlines in seconds are rounded as Redis rounds them.

The other tests here allow times to differ a little, because time passes between two replies. So
they did not see that EXPIRETIME rounded down: 2000000001522 ms gave 2000000001.
"""

from __future__ import annotations

import pytest
import redis

from tests.support.engine_cluster import cluster


@pytest.mark.oracle
@pytest.mark.parametrize("at_ms", [2000000001000, 2000000001499, 2000000001500, 2000000001522])
def test_expiretime(oracle: redis.Redis, at_ms: int) -> None:
    (us,) = cluster(1)
    us.ok("XADD", "s", "*", "f", "v")
    oracle.execute_command("XADD", "s", "*", "f", "v")
    for name in ("EXPIRETIME", "PEXPIRETIME"):
        us.ok("PEXPIREAT", "s", str(at_ms))
        oracle.execute_command("PEXPIREAT", "s", at_ms)
        assert us.ok(name, "s") == oracle.execute_command(name, "s")
