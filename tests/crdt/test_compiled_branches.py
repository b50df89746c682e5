"""Code that only the compiled build runs, run by the interpreter beside the code that it replaces.

`IS_COMPILED` chooses between two ways to the same result. A tracer does not see into compiled
modules, so these tests set `IS_COMPILED` and run the way of the compiled build interpreted. In the
compiled build itself it is built in, and both calls take the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from librt.strings import BytesWriter

from anabranch.crdt import cursor, encoding, ids, scan
from anabranch.crdt.cursor import ReverseCursor
from anabranch.crdt.encoding import stands_at, write_part
from anabranch.crdt.ids import MAX_ID, IdError, halves, make
from anabranch.crdt.node import decode_fields
from anabranch.crdt.region_log import NodeLimits, RegionLog
from anabranch.crdt.scan import word
from tests.crdt.test_logs import append

Both = Callable[[Callable[[], object]], tuple[object, object]]


@pytest.fixture
def both(monkeypatch: pytest.MonkeyPatch) -> Both:
    """Calls a function as the interpreter would, and as the compiled build would."""

    def run(call: Callable[[], object]) -> tuple[object, object]:
        interpreted = call()
        with monkeypatch.context() as patch:
            for module in (cursor, encoding, ids, scan):
                patch.setattr(module, "IS_COMPILED", True)
            patch.setattr(encoding, "_WORDS_BYTES_MAX", 64)
            return interpreted, call()

    return run


def test_ids_that_are_whole_and_others(both: Both) -> None:
    digits = ["", "0", "7", "00012", "123456789012345678", "1234567890123456789"]
    digits += ["18446744073709551615", "18446744073709551616", "x", "1x", "+1"]
    texts = [f"{ms}{dash}{seq}" for ms in digits for dash in ("-", "", "--") for seq in digits]

    def read(text: str) -> object:
        try:
            return halves(text.encode(), 9)
        except IdError as error:
            return str(error)

    interpreted, compiled = both(lambda: [read(text) for text in texts])
    assert interpreted == compiled
    assert (7, 12) in [read(text) for text in texts]


def test_parts_of_any_length(both: Both) -> None:
    data = bytes(range(200))

    def written() -> list[bytes]:
        found = []
        for start in (0, 1, 50):
            for length in (*range(20), *range(60, 70), 150):
                out = BytesWriter()
                write_part(out, data, start, start + length)
                found.append(out.getvalue())
                assert found[-1] == data[start : start + length]
        return found

    interpreted, compiled = both(written)
    assert interpreted == compiled


def test_a_text_at_an_offset(both: Both) -> None:
    """Equal texts, and texts that differ in one byte, of any length and up to the end."""
    draw = Random(1)
    data = draw.randbytes(40)
    asked = []
    for size in range(20):
        for start in (0, 3, len(data) - size, len(data) - size + 1):
            text = data[start : start + size].ljust(size, b"\0")
            asked.append((start, text))
            for place in range(size):
                asked.append((start, text[:place] + bytes([text[place] ^ 1]) + text[place + 1 :]))
    interpreted, compiled = both(lambda: [stands_at(data, start, text) for start, text in asked])
    assert interpreted == compiled == [data[s : s + len(text)] == text for s, text in asked]


def test_words_of_numbers(both: Both) -> None:
    numbers = [0, 1, (1 << 32) - 1, 1 << 32, (5 << 32) + 7, (1 << 63) - 1]
    interpreted, compiled = both(lambda: [word(number) for number in numbers])
    assert interpreted == compiled == numbers


def log_of(gaps: list[int]) -> RegionLog:
    """A log of two nodes, whose entries have IDs with these gaps between them."""
    log = RegionLog(1, NodeLimits(len(gaps) - 2, 4096))
    entry_id = make(5, 1)
    for counter, gap in enumerate(gaps, 1):
        entry_id += gap
        append(log, entry_id, counter, (b"f", b"v" * counter))
    return log


# An entry with the usual gap in its ID follows from its first four bytes.
GAPS = [0, 1000, 1000, 1, 1000, 1 << 64, 1000]


def test_a_walk_over_entries_with_the_usual_gap_and_others(both: Both) -> None:
    nodes = log_of(GAPS).node_map.nodes
    assert len(nodes) == 2

    def walked() -> list[tuple[int, int, list[bytes]]]:
        found = []
        for node in nodes:
            scan = node.scan()
            while scan.step():
                fields = decode_fields(node.names, scan.payload())
                found.append((scan.counter, scan.id(), fields))
                assert not scan.is_too_high()
        return found

    interpreted, compiled = both(walked)
    assert interpreted == compiled
    assert [counter for counter, _, _ in walked()] == list(range(1, len(GAPS) + 1))


def test_a_log_is_read_backward(both: Both) -> None:
    log = log_of(GAPS)

    def walked() -> list[tuple[int, int]]:
        found = []
        backward = ReverseCursor(log)
        backward.seek_id(MAX_ID)
        while backward.valid:
            found.append((backward.counter, backward.id()))
            backward.step()
        return found

    interpreted, compiled = both(walked)
    assert interpreted == compiled
    assert [counter for counter, _ in walked()] == list(range(len(GAPS), 0, -1))
