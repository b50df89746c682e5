"""The parser of the package index, which the byte-for-byte comparison does not test."""

from __future__ import annotations

from anabranch.bench.acceptance.package_index import records_of
from tests.acceptance.test_acceptance import SAMPLE


def test_records() -> None:
    dump = (
        "Package: a\nEmpty:\nBlank: \nFiles:\n one\n  two\nDescription: ü\n .\n more\n"
        "Homepage: x: y\n\n\nPackage: b\n"
    ).encode()
    assert records_of(dump) == [
        (
            (b"Package", b"a"),
            (b"Empty", b""),
            (b"Blank", b""),
            (b"Files", b"\n one\n  two"),
            (b"Description", "ü\n .\n more".encode()),
            (b"Homepage", b"x: y"),
        ),
        ((b"Package", b"b"), (b"Homepage", b"")),
    ]


def test_the_sample_is_uneven() -> None:
    records = records_of(SAMPLE.read_bytes())
    assert len(records) > 300 and len(set(records)) == len(records)
    assert len({tuple(name for name, _ in record) for record in records}) > 50
    values = [value for record in records for _, value in record]
    assert (
        any(b"\n" in value for value in values)
        and any(not value for value in values)
        and any(not value.isascii() for value in values)
    )
