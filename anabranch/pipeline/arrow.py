"""Arrow record batches of the entries that `NodeColumns` decodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal, InvalidOperation
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from anabranch.pipeline.column_buffers import TextBuffers, Validity
from anabranch.pipeline.errors import PipelineError
from anabranch.pipeline.node_columns import ARRAY, JSON, MAP, NO_FIELDS, RAW, NodeColumns

# Rows of a batch. An answer of CRDT.NODES has fewer, unless entries are tiny.
BATCH_ROWS_MAX: Final = 1 << 16
# The columns that are not fields of the entry.
FORMS: Final = {"array": ARRAY, "map": MAP, "json": JSON, "raw": RAW}
# Most digits of a decimal in Arrow.
_DIGITS_MAX: Final = 38
ENTRY_COLUMNS: Final = ("stream", "id", "region", "counter", "ts", "fields")


class BatchMaker:
    """Makes batches of one schema for one range of a region log.

    `stream` and `region` are the texts of those columns, `fields_format` is that of the option.
    With `fails_fast`, a field that does not fit its typed column is an error, else it is null.
    """

    def __init__(
        self,
        schema: pa.Schema,
        stream: str,
        region: str,
        after: int,
        end: int,
        fields_format: str,
        fails_fast: bool,
    ) -> None:
        self._schema: Final = schema
        self._stream: Final = stream
        self._region: Final = region
        self._fails_fast: Final = fails_fast
        form = FORMS[fields_format] if "fields" in schema.names else NO_FIELDS
        self._typed: Final = [name for name in schema.names if name not in ENTRY_COLUMNS]
        self._decoder: Final = NodeColumns(
            after, end, form, [name.encode() for name in self._typed]
        )
        self._makers: Final[dict[str, Callable[[pa.DataType, int], pa.Array]]] = {
            "stream": lambda kind, rows: pa.repeat(pa.scalar(self._stream, kind), rows),
            "region": lambda kind, rows: pa.repeat(pa.scalar(self._region, kind), rows),
            "id": self._ids,
            "counter": self._counters,
            "ts": self._times,
            "fields": self._json if form == JSON else self._fields,
        }

    def batches(self, answer: bytes) -> Iterator[pa.RecordBatch]:
        """The batches of one answer of CRDT.NODES."""
        self._decoder.feed(answer)
        while rows := self._decoder.decode(BATCH_ROWS_MAX):
            arrays = [self._column(field, rows) for field in self._schema]
            yield pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _column(self, field: pa.Field, rows: int) -> pa.Array:
        maker = self._makers.get(field.name)
        array = (
            maker(field.type, rows)
            if maker is not None
            else self._typed_column(field, self._decoder.typed[self._typed.index(field.name)], rows)
        )
        if array.null_count and not field.nullable:
            raise PipelineError(
                f"the column '{field.name}' may not be null in the schema, but an entry has no "
                "value for it that fits"
            )
        return array

    def _ids(self, kind: pa.DataType, rows: int) -> pa.Array:
        decoder = self._decoder
        return _array(kind, rows, decoder.id_offsets.getvalue(), decoder.ids.getvalue())

    def _counters(self, kind: pa.DataType, rows: int) -> pa.Array:
        return _array(kind, rows, self._decoder.counters.getvalue())

    def _times(self, kind: pa.DataType, rows: int) -> pa.Array:
        decoder = self._decoder
        return _array(kind, rows, decoder.times.getvalue(), validity=decoder.has_time)

    def _json(self, kind: pa.DataType, rows: int) -> pa.Array:
        decoder = self._decoder
        return _array(kind, rows, decoder.json_offsets.getvalue(), decoder.json.getvalue())

    def _fields(self, kind: pa.DataType, rows: int) -> pa.Array:
        """The fields as a list of structs, or as a map, which has the same buffers."""
        decoder = self._decoder
        offsets = decoder.value_offsets.getvalue()
        count = len(offsets) // 4 - 1
        entry = (
            pa.struct([kind.key_field, kind.item_field])
            if pa.types.is_map(kind)
            else kind.value_type
        )
        names = _array(
            entry.field(0).type, count, decoder.name_offsets.getvalue(), decoder.names.getvalue()
        )
        values = _array(pa.binary(), count, offsets, decoder.values.getvalue())
        pairs = pa.Array.from_buffers(entry, count, [None], children=[names, values])
        lists = [None, pa.py_buffer(decoder.list_offsets.getvalue())]
        return pa.Array.from_buffers(kind, rows, lists, children=[pairs])

    def _typed_column(self, field: pa.Field, buffers: TextBuffers, rows: int) -> pa.Array:
        """The values of a field as its type."""
        found = _array(
            pa.binary(),
            rows,
            buffers.offsets.getvalue(),
            buffers.data.getvalue(),
            validity=buffers.validity,
        )
        try:
            return _converted(found, field.type)
        except pa.ArrowInvalid as error:
            if self._fails_fast:
                raise PipelineError(
                    f"a value of the field '{field.name}' in stream '{self._stream}' is not of "
                    f"type {field.type} (mode FAILFAST): {error}"
                ) from None
        return pa.chunked_array(_fitting(found, field.type), type=field.type).combine_chunks()


def _array(
    kind: pa.DataType, rows: int, *buffers: bytes, validity: Validity | None = None
) -> pa.Array:
    bits = pa.py_buffer(validity.bits()) if validity is not None and validity.missing else None
    return pa.Array.from_buffers(kind, rows, [bits, *map(pa.py_buffer, buffers)])


def _converted(found: pa.Array, kind: pa.DataType) -> pa.Array:
    """Bytes as values of a type. Raises ArrowInvalid if one of them does not fit."""
    if pa.types.is_binary(kind):
        return found
    texts = found.cast(pa.string())
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        try:
            return texts.cast(kind)
        except pa.ArrowInvalid:
            # Texts without a zone: they are UTC.
            return pc.assume_timezone(texts.cast(pa.timestamp(kind.unit)), kind.tz)
    if pa.types.is_decimal(kind):
        _check_digits(texts, kind)
    values = texts.cast(kind)
    if pa.types.is_floating(kind):
        _check_range(texts, values)
    return values


def _check_digits(texts: pa.Array, kind: pa.DataType) -> None:
    """Raises ArrowInvalid for a number that does not fit a decimal and that Arrow misreads.

    Arrow (26) returns another number where the digits before the point are too many for the type,
    or where there are more than 38 digits. It returns 0, or crashes, where there are more than 38
    decimals.
    """
    digits = kind.precision - kind.scale
    perhaps = rf"[eE]|[0-9]{{{digits + 1}}}|[0-9.]{{{_DIGITS_MAX + 1}}}"
    for text in texts.filter(pc.match_substring_regex(texts, perhaps)).to_pylist():
        try:
            value = Decimal(text)
        except InvalidOperation:
            # No number: Arrow says so.
            continue
        exponent = value.as_tuple().exponent
        if isinstance(exponent, int) and (
            exponent < -_DIGITS_MAX
            or len(value.as_tuple().digits) > _DIGITS_MAX
            or (value and value.adjusted() >= digits)
        ):
            raise pa.ArrowInvalid(f"the number '{text:.100}' does not fit {kind}")


def _check_range(texts: pa.Array, values: pa.Array) -> None:
    """Raises ArrowInvalid if a number in digits has become infinity; `inf` is a value itself."""
    infinite = texts.filter(pc.is_inf(values))
    for text in infinite.filter(pc.match_substring_regex(infinite, "[0-9]")).to_pylist():
        raise pa.ArrowInvalid(f"the number '{text:.100}' is beyond the range of {values.type}")


def _fitting(found: pa.Array, kind: pa.DataType) -> list[pa.Array]:
    """Values as a type, in pieces; those that do not fit become null.

    Halves are tried again, so a few values that do not fit cost little.
    """
    try:
        return [_converted(found, kind)]
    except pa.ArrowInvalid:
        if len(found) == 1:
            return [pa.nulls(1, kind)]
        half = len(found) // 2
        return [*_fitting(found.slice(0, half), kind), *_fitting(found.slice(half), kind)]
