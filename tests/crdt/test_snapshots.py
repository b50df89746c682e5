"""Snapshots that are not whole are refused (S11.3)."""

from __future__ import annotations

import pytest

from anabranch.crdt.encoding import Malformed, Reader, put_bytes
from anabranch.crdt.keyspace import Keyspace
from anabranch.crdt.snapshot import read_snapshot
from tests.crdt.support import Twin, snapshot_bytes


def test_snapshot_without_its_end_is_refused() -> None:
    """A truncated snapshot is refused (S11.3).

    The bug: a staged snapshot without its last chunks was accepted as a complete one. Its vector
    covers the missing entries, so the join would have removed them, in this region and by the next
    snapshot in all others. Now the head of a snapshot states the number of records that follow.
    """
    twin = Twin(1)
    for key in (b"a", b"b"):
        for _ in range(3):
            twin.add(key)
    chunks = []
    reader = Reader(b"".join(snapshot_bytes(twin.keyspace)))
    while not reader.at_end():
        record = bytearray()
        put_bytes(record, reader.bytes_())
        chunks.append(bytes(record))
    assert len(chunks) > 4
    for length in range(len(chunks)):
        with pytest.raises(Malformed):
            read_snapshot(chunks[:length], twin.limits)
    with pytest.raises(Malformed):
        read_snapshot([*chunks, chunks[-1]], twin.limits)
    whole: Keyspace = read_snapshot(chunks, twin.limits)
    assert whole.digest() == twin.keyspace.digest()
