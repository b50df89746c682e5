"""Rows of a DataFrame as entries: which columns become what, and Arrow batches as rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Optional

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    FractionalType,
    IntegralType,
    MapType,
    NullType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from anabranch.pipeline.errors import OptionError, PipelineError
from anabranch.pipeline.pairs import RowToAdd
from anabranch.pipeline.resp import encoded
from anabranch.pipeline.sink_options import SinkOptions
from anabranch.region.resp.request import word_bytes

# Columns of the source that a region gives an entry itself.
_GIVEN_BY_REGION: Final = frozenset({"id", "region", "counter", "ts"})
_TEXTS: Final = (
    StringType,
    BinaryType,
    BooleanType,
    IntegralType,
    FractionalType,
    DateType,
    TimestampType,
    TimestampNTZType,
    NullType,
)
# Begins what Arrow writes for a time that it cannot show.
_NO_TIME: Final = b"<value"
# For each row the names and values of its fields, or None.
_Pairs = list[Optional[list[tuple[Optional[bytes], bytes]]]]


def check_columns(schema: StructType, options: SinkOptions) -> None:
    """Raises OptionError if rows of a schema cannot become entries."""
    names = [field.name for field in schema]
    for name in names:
        if names.count(name) > 1:
            raise OptionError(f"there are two columns of the name {name}")
    if not options.stream and "stream" not in names:
        raise OptionError(
            "there is no column stream: give the option stream, or a column of that name"
        )
    if options.id_column and options.id_column not in names:
        raise OptionError(
            f"idColumn: there is no column {options.id_column}; there are {', '.join(names)}"
        )
    if options.id_column == "fields":
        raise OptionError("idColumn: the column fields holds several values; name another column")
    if not field_columns(names):
        raise OptionError(
            "no column becomes a field of an entry: stream, id, region, counter and ts do not"
        )
    for field in schema:
        # `ts` and the like are not written, so their types do not matter.
        if field.name in _GIVEN_BY_REGION and field.name != options.id_column:
            continue
        if field.name == "fields":
            _check_fields(field.dataType)
        elif not isinstance(field.dataType, _TEXTS):
            raise OptionError(
                f"the column {field.name} has the type {field.dataType.simpleString()}, which is "
                "not the value of a field. Possible are string, binary, boolean, numbers, decimal, "
                "date and timestamp; turn others into text first, as to_json does"
            )


def field_columns(names: list[str]) -> list[str]:
    """The columns that become fields, in their order."""
    return [name for name in names if name != "stream" and name not in _GIVEN_BY_REGION]


def _check_fields(kind: DataType) -> None:
    """Raises OptionError if the column `fields` has the wrong type."""
    if isinstance(kind, MapType):
        name, value = kind.keyType, kind.valueType
    elif (
        isinstance(kind, ArrayType)
        and isinstance(kind.elementType, StructType)
        and kind.elementType.names == ["name", "value"]
    ):
        name, value = (field.dataType for field in kind.elementType)
    else:
        name = value = None
    if not isinstance(name, (StringType, BinaryType)) or not isinstance(value, _TEXTS):
        raise OptionError(
            f"the column fields has the type {kind.simpleString()}; it must be "
            "array<struct<name:string,value:…>> or map<string,…>, with values that are not nested"
        )


class RowMaker:
    """Makes rows of the Arrow batches of one task.

    `place` names the task in errors. Raises PipelineError for a row that cannot become an entry.
    """

    def __init__(self, options: SinkOptions, place: str) -> None:
        self._options: Final = options
        self._stream: Final = encoded(options.stream)
        self._place: Final = place
        self._made = 0

    def rows(self, batch: pa.RecordBatch) -> Iterator[RowToAdd]:
        """The rows of a batch."""
        names = batch.schema.names
        columns = [
            (word_bytes(name), texts(batch.column(names.index(name))))
            for name in field_columns(names)
            if name != "fields"
        ]
        pairs = _pairs(batch.column(names.index("fields"))) if "fields" in names else None
        identities = self._texts(batch, self._options.id_column)
        streams = None if self._stream else self._texts(batch, "stream")
        for at in range(batch.num_rows):
            self._made += 1
            parts: list[bytes] = []
            count = 0
            if pairs is not None:
                for name, value in pairs[at] or ():
                    if name is None:
                        raise self._wrong("has a value in the column fields whose name is null")
                    parts.append(word_bytes(name, value))
                    count += 1
            for name_word, values in columns:
                here = values[at]
                if here is not None:
                    parts.append(b"%b$%d\r\n%b\r\n" % (name_word, len(here), here))
                    count += 1
            if not count:
                raise self._wrong("has no field: all its columns are null")
            stream = self._stream if streams is None else streams[at]
            if not stream:
                raise self._wrong("has no stream: the column stream is null or empty")
            identity = b"" if identities is None else identities[at]
            if identities is not None and not identity:
                raise self._wrong(f"has no id: {self._options.id_column} is null or empty")
            yield RowToAdd(self._made, stream, count, b"".join(parts), identity or b"")

    def _texts(self, batch: pa.RecordBatch, name: str) -> Optional[list[Optional[bytes]]]:
        return texts(batch.column(batch.schema.names.index(name))) if name else None

    def _wrong(self, what: str) -> PipelineError:
        return PipelineError(f"row {self._made} of {self._place} {what}")


def texts(column: pa.Array) -> list[Optional[bytes]]:
    """The values of a column as the bytes of a field; None where they are null."""
    kind = column.type
    if pa.types.is_null(kind):
        return [None] * len(column)
    if pa.types.is_decimal(kind):
        return [None if one is None else f"{one:f}".encode() for one in column.to_pylist()]
    if pa.types.is_timestamp(kind):
        column = _iso(column)
    elif not (pa.types.is_binary(kind) or pa.types.is_large_binary(kind)):
        column = column.cast(pa.string())
    found: list[Optional[bytes]] = column.cast(pa.binary()).to_pylist()
    if pa.types.is_temporal(kind) and any(one and one.startswith(_NO_TIME) for one in found):
        raise PipelineError(f"a value of the type {kind} lies beyond the years that have a text")
    return found


def _iso(column: pa.Array) -> pa.Array:
    """Timestamps as ISO 8601: in UTC with a Z, or without a zone if their type has none."""
    if column.type.tz is None:
        return pc.replace_substring(column.cast(pa.string()), " ", "T")
    # Without a zone Arrow shows the instant in UTC, and needs no table of time zones.
    plain = column.cast(pa.timestamp(column.type.unit, "UTC")).cast(pa.int64())
    shown = plain.cast(pa.timestamp(column.type.unit)).cast(pa.string())
    joined: pa.Array = pc.binary_join_element_wise(
        pc.replace_substring(shown, " ", "T"), pa.scalar("Z"), ""
    )
    return joined


def _pairs(column: pa.Array) -> _Pairs:
    """The column `fields` as the pairs of each row."""
    if pa.types.is_map(column.type):
        names, values = column.keys, column.items
    else:
        # The values of all rows, to which the offsets refer.
        names, values = (column.values.field(part) for part in (0, 1))
    name_texts, value_texts = texts(names), texts(values)
    ends = column.offsets.to_pylist()
    found: _Pairs = []
    for at, is_null in enumerate(column.is_null().to_pylist()):
        if is_null:
            found.append(None)
            continue
        row = []
        for n in range(ends[at], ends[at + 1]):
            name, value = name_texts[n], value_texts[n]
            if value is not None:
                row.append((name, value))
        found.append(row)
    return found
