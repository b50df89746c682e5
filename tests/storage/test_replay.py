"""A start that replays the log finds what the region had; each docstring tells a bug (S13.1)."""

from __future__ import annotations

import pytest

from tests.storage.histories import one_region


def test_delref_and_the_deliveries_of_its_own_block() -> None:
    """XREADGROUP and then XTRIM … DELREF in one commit left entries pending for ever after a start.

    The delivery is a local record, and replay applies local records after the block that was open
    when they were made. So replay delivered the trimmed entries again after their removal. Such
    entries can neither be claimed nor be announced as acknowledged.
    """
    region = one_region()
    for number in range(4):
        region.say("XADD", "k1", "*", "f", b"v%d" % number)
    region.say("XGROUP", "CREATE", "k1", "g", "0")
    region.commit_all()
    region.say("XREADGROUP", "GROUP", "g", "anna", "STREAMS", "k1", ">")
    region.say("XADD", "k1", "*", "f", "later")
    region.say("XTRIM", "k1", "MAXLEN", 2, "DELREF")
    region.say("XREADGROUP", "GROUP", "g", "anna", "STREAMS", "k1", ">")
    region.commit_all()
    region.crash()
    assert region.engine.keyspace.keys[b"k1"].groups[b"g"].delivery.pel.length == 2


@pytest.mark.parametrize("is_checkpointed", [False, True])
def test_retired_pairs_answered_again(is_checkpointed: bool) -> None:
    """After a start, retired pairs answered retries again.

    A producer had more pairs than its maxsize, so its oldest pair was retired (S9.3), and the retry
    of that pair was a new add. A start replayed both adds, and all pairs answered. These were more
    pairs than the limit, and a retry got the ID of the first add instead of the second.
    """
    region = one_region()
    for iid in ("a", "b", "c", "a"):
        region.cluster.clock.passes(1)
        last = region.say("XADD", "k1", "IDMP", "p", iid, "*", "f", "v")
    region.commit_all()
    if is_checkpointed:
        region.checkpoint()
    region.crash()
    pairs = region.engine.keyspace.keys[b"k1"].pairs
    assert [(pair.iid, pair.is_retired) for pair in pairs.everything()] == [
        (b"a", True),
        (b"b", True),
        (b"c", False),
        (b"a", False),
    ]
    assert pairs.count_answering() == 2
    assert region.engine.keyspace.pair_limits.retired == 2
    assert region.say("XADD", "k1", "IDMP", "p", "a", "*", "f", "v") == last
    assert region.say("XADD", "k1", "IDMP", "p", "b", "*", "f", "v") != last
    assert region.say("XLEN", "k1") == 5
