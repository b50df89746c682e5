"""Start and recovery (S13.6, S13.7): a region that lost effects issues none before it has them back."""

from __future__ import annotations

from region.engine.lifecycle import RECOVERY, STARTING
from tests.review.support import carry, cluster, code, sync


def test_a_recovery_that_begins_during_the_start_is_durable() -> None:
    """S13.7: the state is durable.

    us comes back from an old backup and is still starting when eu says that it holds more of us's effects. us crashes right
    after it has written that down; at the next start nobody is reachable. It must still be in recovery, not issue after patience.
    """
    us, eu = cluster(2)
    us.ok("XADD", "x", "*", "f", "1")
    us.commit()
    backup = len(us.rows)
    us.ok("XADD", "x", "*", "f", "2")
    sync(us, eu)
    us.patience_ms = 1000
    us.restart(2000, backup)
    assert us.engine.lifecycle.state == STARTING
    us.engine.peer_holds(2, eu.engine.life, eu.engine.disk_vector, 2001)
    assert us.engine.lifecycle.state == RECOVERY
    us.commit()
    us.restart(3000)
    us.at(9000)
    assert us.engine.lifecycle.state == RECOVERY
    assert code(us("XADD", "x", "*", "f", "3")) == "READONLY"


def test_own_effects_from_a_peer_while_starting_begin_a_recovery() -> None:
    """S13.7: a region that meets a peer holding more of its effects than it has is in recovery, even before its start is over.

    When eu greeted us, eu did not have us's second effect; then it came to eu from ap, and eu relays it. us, which lost it, is still
    starting: it would have applied its own effect like another's and gone on to issue.
    """
    us, eu, ap = cluster(3)
    us.ok("XADD", "x", "*", "f", "1")
    us.commit()
    backup = len(us.rows)
    carry(us, eu)
    us.ok("XADD", "x", "*", "f", "2")
    carry(us, ap)
    us.patience_ms = 1000
    us.restart(2000, backup)
    us.engine.peer_holds(2, eu.engine.life, eu.engine.disk_vector, 2001)
    assert us.engine.lifecycle.state == STARTING
    carry(ap, eu)
    carry(eu, us)
    assert us.engine.lifecycle.state == RECOVERY


def test_a_snapshot_with_own_effects_while_starting_begins_a_recovery() -> None:
    """S13.7: the same by snapshot."""
    us, eu = cluster(2)
    us.ok("XADD", "x", "*", "f", "1")
    sync(us, eu)
    us.patience_ms = 1000
    us.restart(2000, 0)
    us.engine.join(list(eu.engine.snapshot_cut().chunks(1 << 20)), 2, 2001)
    assert us.engine.lifecycle.state == RECOVERY
    us.commit()
    assert int(us.meta["recovery"]) == us.engine.lifecycle.recovery > 0
