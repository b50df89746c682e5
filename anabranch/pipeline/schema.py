"""The columns of the source, and the check of a schema that a user gave."""

from __future__ import annotations

from typing import Final

from pyspark.sql.types import (
    ArrayType,
    AtomicType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from anabranch.pipeline.errors import OptionError

_FIELDS: Final[dict[str, DataType]] = {
    "array": ArrayType(
        StructType([StructField("name", StringType()), StructField("value", BinaryType())])
    ),
    "map": MapType(StringType(), BinaryType()),
    "json": StringType(),
    "raw": ArrayType(
        StructType([StructField("name", BinaryType()), StructField("value", BinaryType())])
    ),
}
# Types that the text of a field can become.
_TYPED: Final[tuple[type[AtomicType], ...]] = (
    StringType,
    BinaryType,
    BooleanType,
    ByteType,
    ShortType,
    IntegerType,
    LongType,
    FloatType,
    DoubleType,
    DecimalType,
    DateType,
    TimestampType,
    TimestampNTZType,
)


def default_schema(fields_format: str) -> StructType:
    """The schema without one of the user. `fields_format`: the option `fieldsFormat`."""
    return StructType(
        [
            StructField("stream", StringType()),
            StructField("id", StringType()),
            StructField("region", StringType()),
            StructField("counter", LongType()),
            StructField("ts", TimestampType()),
            StructField("fields", _FIELDS[fields_format]),
        ]
    )


def check_schema(schema: StructType, fields_format: str) -> None:
    """Raises OptionError if a column has a type that the source cannot give it."""
    own = {field.name: field.dataType for field in default_schema(fields_format)}
    for field in schema:
        if field.name in own:
            if field.dataType != own[field.name]:
                raise OptionError(
                    f"the column {field.name} has the type {field.dataType.simpleString()} in the "
                    f"schema, but it is {own[field.name].simpleString()}"
                    + (f" with fieldsFormat {fields_format}" if field.name == "fields" else "")
                )
        elif not isinstance(field.dataType, _TYPED):
            raise OptionError(
                f"the column {field.name} has the type {field.dataType.simpleString()}, which a "
                "field of an entry cannot become. Possible are string, binary, boolean, numbers, "
                "decimal, date and timestamp"
            )
    names = [field.name for field in schema]
    for name in names:
        if names.count(name) > 1:
            raise OptionError(f"the schema has two columns of the name {name}")
