"""Rows of Arrow batches as entries: values as text, and columns that cannot be written."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

from anabranch.pipeline.errors import OptionError, PipelineError
from anabranch.pipeline.sink_options import SinkOptions
from anabranch.region.resp.request import word_bytes

# Rows need PyArrow and the types of PySpark.
pytestmark = pytest.mark.spark

NOON = datetime(2024, 2, 29, 12, 0, 0, 250000, tzinfo=UTC)


def options(**more: str) -> SinkOptions:
    return SinkOptions({"endpoints": "h:1", "stream": "s", **more})


def made(columns: dict[str, Any], found: SinkOptions | None = None, skip: int = 0) -> list[Any]:
    """Stream, identity and fields of each row of a batch; the first `skip` rows are cut off."""
    import pyarrow as pa

    from anabranch.pipeline.rows import RowMaker

    batch = pa.RecordBatch.from_pydict(columns).slice(skip)
    rows = RowMaker(found or options(), "partition 0").rows(batch)
    return [(row.stream, row.identity, row.field_count, row.words) for row in rows]


def words(*fields: object) -> bytes:
    return word_bytes(*(one if isinstance(one, bytes) else str(one) for one in fields))


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        ("ann", None, "ann"),
        (b"\xff\0", None, b"\xff\0"),
        (-7, None, "-7"),
        (0.1, None, "0.1"),
        (0.1, "float32", "0.1"),
        (True, None, "true"),
        (Decimal("1.50"), None, "1.50"),
        (Decimal("0.0000000000"), None, "0.0000000000"),
        (date(2024, 2, 29), None, "2024-02-29"),
        (NOON, None, "2024-02-29T12:00:00.250000Z"),
        (NOON.astimezone(timezone(timedelta(hours=9))), None, "2024-02-29T12:00:00.250000Z"),
        (NOON.replace(tzinfo=None), None, "2024-02-29T12:00:00.250000"),
    ],
)
def test_values(value: object, kind: str | None, text: str | bytes) -> None:
    import pyarrow as pa

    assert made({"v": pa.array([value], kind)}) == [(b"s", b"", 1, words("v", text))]


def test_a_time_without_a_text() -> None:
    """Arrow writes its own words about such a value, and the sink wrote them into the entry."""
    import pyarrow as pa

    for zone in ("UTC", None):
        column = pa.array([1 << 62], pa.timestamp("us", zone))
        with pytest.raises(PipelineError, match="lies beyond the years that have a text"):
            made({"v": column})


def test_null_is_left_out() -> None:
    found = made({"a": ["1", None], "b": [None, 2], "ts": [NOON, NOON], "id": ["x", "y"]})
    assert [one[3] for one in found] == [words("a", "1"), words("b", 2)]


@pytest.mark.parametrize("skip", [0, 2])
def test_the_column_fields(skip: int) -> None:
    """As an array and as a map, also in a batch that is a slice of a longer one."""
    import pyarrow as pa

    pairs = [[("a", "1"), ("a", "2")], None, [], [("b", None), ("c", "3")]]
    array = [None if row is None else [{"name": n, "value": v} for n, v in row] for row in pairs]
    struct = pa.struct([("name", pa.string()), ("value", pa.string())])
    expected = [words("a", 1, "a", 2, "n", 0), words("n", 1), words("n", 2), words("c", 3, "n", 3)]
    for column in (
        pa.array(array, pa.list_(struct)),
        pa.array(pairs, pa.map_(pa.string(), pa.string())),
    ):
        found = made({"fields": column, "n": range(4)}, skip=skip)
        assert [one[3] for one in found] == expected[skip:]


def test_stream_and_id_of_a_row() -> None:
    found = SinkOptions({"endpoints": "h:1", "idColumn": "key"})
    assert made({"stream": ["a", "b"], "key": [7, 8]}, found) == [
        (b"a", b"7", 1, words("key", 7)),
        (b"b", b"8", 1, words("key", 8)),
    ]


@pytest.mark.parametrize(
    ("columns", "more", "message"),
    [
        ({"a": ["1", None]}, {}, "row 2 of partition 0 has no field: all its columns are null"),
        (
            {"a": ["1"], "stream": [""]},
            {"stream": ""},
            "row 1 of partition 0 has no stream: the column stream is null or empty",
        ),
        ({"a": ["1"], "k": [None]}, {"idColumn": "k"}, "row 1 of partition 0 has no id: k is null"),
        (
            {"fields": [[{"name": "b", "value": "x"}], [{"name": None, "value": "lost"}]]},
            {},
            "row 2 of partition 0 has a value in the column fields whose name is null",
        ),
    ],
)
def test_rows_that_cannot_be_written(
    columns: dict[str, Any], more: dict[str, str], message: str
) -> None:
    given = {"endpoints": "h:1", "stream": "s", **more}
    with pytest.raises(PipelineError, match=message):
        made(columns, SinkOptions({name: value for name, value in given.items() if value}))


@pytest.mark.parametrize(
    ("schema", "more", "message"),
    [
        ("a STRING, b STRUCT<c INT>", {}, "the column b has the type struct<c:int>"),
        ("a INTERVAL DAY", {}, "the column a has the type interval day, which is not the value"),
        ("fields ARRAY<STRING>", {}, "the column fields has the type array<string>; it must be"),
        ("fields STRING", {}, "the column fields has the type string; it must be array<struct<"),
        ("fields BINARY", {}, "the column fields has the type binary; it must be array<struct<"),
        ("fields MAP<STRING,INT>", {"idColumn": "fields"}, "the column fields holds several"),
        ("fields MAP<STRING,ARRAY<INT>>", {}, "it must be array<struct<name:string,value:…>>"),
        ("id STRING, ts TIMESTAMP", {}, "no column becomes a field of an entry"),
        ("a INT", {"stream": ""}, "there is no column stream: give the option stream"),
        ("a INT", {"idColumn": "b"}, "idColumn: there is no column b; there are a"),
        ("a INT, a INT", {}, "there are two columns of the name a"),
    ],
)
def test_columns_that_cannot_be_written(
    spark: Any, schema: str, more: dict[str, str], message: str
) -> None:
    from pyspark.sql.types import StructType

    from anabranch.pipeline.rows import check_columns

    given = {"endpoints": "h:1", "stream": "s", **more}
    found = SinkOptions({name: value for name, value in given.items() if value})
    with pytest.raises(OptionError, match=re.escape(message)):
        check_columns(StructType.fromDDL(schema), found)
