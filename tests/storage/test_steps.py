"""The steps of a checkpoint are short, whatever the size of keys and nodes (S13.1)."""

from __future__ import annotations

from anabranch.crdt.apply import add, apply
from anabranch.crdt.effects import CreateGroup
from anabranch.crdt.keyspace import Keyspace
from anabranch.crdt.node import encode_names, encode_values
from anabranch.crdt.region_log import NodeLimits
from anabranch.region.storage.checkpoint import Checkpointer


def captured(keyspace: Keyspace, checkpointer: Checkpointer) -> list[int]:
    """How many keys each step of a checkpoint captures."""
    checkpointer.begin(keyspace, 0, 1000)
    found: list[int] = []
    while checkpointer.has_more():
        checkpointer.capture(keyspace, 0)
        found.append(len(checkpointer.pending))
        checkpointer.written()
    return found


def test_a_step_ends_when_it_has_captured_many_nodes() -> None:
    """Small nodes and tiny states: only the number of nodes can end a step, after some 8,000."""
    keyspace = Keyspace(1, NodeLimits(1, 0))
    names, values = encode_names([b"f"]), encode_values([b""])
    counter = 0
    for key in (b"a", b"b", b"c"):
        stream = keyspace.get_or_create(key)
        for _ in range(5_000):
            counter += 1
            add(keyspace, stream, counter, 0, counter, names, values)
    assert captured(keyspace, Checkpointer({}, {}, 0, 1 << 20)) == [2, 1]


def test_a_step_ends_when_it_has_captured_large_states() -> None:
    """Keys without a node: only what their groups take can end a step."""
    keyspace = Keyspace(1, NodeLimits())
    for counter, key in enumerate((b"a", b"b", b"c", b"d", b"e"), 1):
        create = CreateGroup(key, bytes(10_000), 0, False, {})
        apply(keyspace, create, 1, counter, 1000, True)
    checkpointer = Checkpointer({}, {}, 0, 1 << 20)
    checkpointer.capture_bytes = 40_000
    assert captured(keyspace, checkpointer) == [2, 2, 1]
