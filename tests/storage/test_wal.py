"""What counts as damage of a write-ahead log, on files that SQLite wrote."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from anabranch.region.storage.wal import FRAME_HEADER_BYTES, HEADER_BYTES, damage

PAGE_BYTES = 4096
FRAME_BYTES = FRAME_HEADER_BYTES + PAGE_BYTES


@pytest.fixture
def written(tmp_path: Path) -> bytes:
    """A WAL of at least four frames, the bytes of a database that is still open."""
    database = sqlite3.connect(tmp_path / "db", isolation_level=None)
    database.execute(f"PRAGMA page_size = {PAGE_BYTES}")
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("CREATE TABLE t (x)")
    for number in range(4):
        database.execute("INSERT INTO t VALUES (?)", (b"%d" % number * 100,))
    data = (tmp_path / "db-wal").read_bytes()
    database.close()
    assert len(data) >= HEADER_BYTES + 4 * FRAME_BYTES
    return data


def flipped(data: bytes, offset: int) -> bytes:
    return data[:offset] + bytes([data[offset] ^ 1]) + data[offset + 1 :]


def body_of(frame: int) -> int:
    return HEADER_BYTES + frame * FRAME_BYTES + FRAME_HEADER_BYTES + 7


def test_a_sound_one_and_a_torn_end_are_no_damage(written: bytes) -> None:
    assert damage(b"") == damage(bytes(HEADER_BYTES)) == damage(written) == ""
    last = (len(written) - HEADER_BYTES) // FRAME_BYTES - 1
    for torn in (written[:-100], flipped(written, body_of(last))):
        assert damage(torn) == ""
    two = flipped(flipped(written, body_of(last)), body_of(last - 1))
    assert damage(two) == "", "the end is torn before two frames"


def test_a_wrong_frame_before_a_sound_one_is_damage(written: bytes) -> None:
    assert damage(flipped(written, body_of(1))) == "frame 2 is wrong, and frame 3 after it is sound"
    both = flipped(flipped(written, body_of(0)), body_of(1))
    assert damage(both) == "frame 1 is wrong, and frame 3 after it is sound"


def test_frames_of_a_former_run_are_no_damage(written: bytes) -> None:
    """After a reset SQLite overwrites the file from its beginning, and old frames stay behind."""
    salts_at = HEADER_BYTES + 2 * FRAME_BYTES + 8
    former = written[:salts_at] + bytes(8) + written[salts_at + 8 :]
    assert damage(flipped(former, body_of(1))[: HEADER_BYTES + 3 * FRAME_BYTES]) == ""


def test_a_wrong_header_is_damage_if_a_frame_is_sound(written: bytes) -> None:
    assert damage(flipped(written, 25)) == "its header is wrong, and frames after it are sound"
    other_page_size = written[:8] + b"\0\0\0\1" + written[12:]
    assert damage(other_page_size) == "its header is wrong, and frames after it are sound"
    assert damage(flipped(written, 25)[: HEADER_BYTES + 100]) == ""
