"""Values of fields as typed columns: those that do not fit are null, or an error."""

from __future__ import annotations

import math

import pytest

from anabranch.pipeline.errors import PipelineError
from anabranch.pipeline.offsets import Range
from anabranch.pipeline.options import SourceOptions
from anabranch.pipeline.reading import answers
from tests.pipeline.serving import EngineServer, run
from tests.support.engines import single

# PyArrow comes with Spark.
pytestmark = pytest.mark.spark


def column(kind: str, values: list[str], fails_fast: bool = False) -> list[object]:
    """The values of a field of entries, as a column of a type of PyArrow."""
    import pyarrow as pa

    from anabranch.pipeline.arrow import BatchMaker

    types = {"decimal128": pa.decimal128(9, 2), "decimal128(38, 18)": pa.decimal128(38, 18)}
    types["decimal128(38, 0)"] = pa.decimal128(38, 0)
    schema = pa.schema([("v", types.get(kind) or pa.type_for_alias(kind))])
    maker = BatchMaker(schema, "s", "us", 0, len(values), "array", fails_fast)
    with EngineServer(single()) as server:
        run(server, *(f"XADD s * v {value}" for value in values))
        found = SourceOptions({"endpoints": f"127.0.0.1:{server.port}", "streams": "s"}, False)
        batches = [
            batch
            for answer in answers(Range("s", "us", 0, len(values)), found)
            for batch in maker.batches(answer)
        ]
    return [one for batch in batches for one in batch.column(0).to_pylist()]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("float64", "1e400"),
        ("float64", "-1e400"),
        ("float32", "1e39"),
        ("float32", "1" + "0" * 39),
        ("int8", "128"),
        ("int32", "3000000000"),
        ("int64", "9223372036854775808"),
        ("int64", "nan"),
        ("int64", "inf"),
        ("decimal128", "1e400"),
        ("decimal128", "nan"),
        ("decimal128", "1e-41"),
        ("decimal128", "0." + "0" * 60 + "1"),
        ("decimal128", "1e-10000000"),
        ("decimal128", "12345678"),
        ("decimal128(38, 18)", "705616918737124949553"),
        ("decimal128(38, 18)", "64401423114770877019.3272368656643755242"),
        ("decimal128(38, 0)", "-95651617097649710234120315209804715198.68"),
        ("decimal128(38, 18)", "-7056169187371249495.53e2"),
    ],
)
def test_a_number_beyond_its_type(kind: str, text: str) -> None:
    """Arrow makes infinity of floating-point numbers that are too large, without an error.

    It makes other numbers of some decimals that do not fit, 0 of some, and crashes at 1e-10000000.
    """
    assert column(kind, ["1", text, "2"]) == [1, None, 2]
    with pytest.raises(PipelineError, match="the field 'v' in stream 's' is not of type"):
        column(kind, ["1", text, "2"], fails_fast=True)


@pytest.mark.parametrize("kind", ["float64", "float32"])
def test_infinity_and_nan_are_values_of_their_own(kind: str) -> None:
    """The sink writes them as these texts, so a table of floating-point numbers comes back."""
    texts = ["inf", "-inf", "Infinity", "-INF", "1e-400", "nan", "NaN"]
    found = column(kind, texts, fails_fast=True)
    assert found[:5] == [math.inf, -math.inf, math.inf, -math.inf, 0]
    assert all(isinstance(one, float) and math.isnan(one) for one in found[5:])


def test_decimals_that_fit() -> None:
    from decimal import Decimal

    values = ["1234567.89", "-1.25e2", "0", "0.00", "1e-2", "000001234567.10", "1.2E6"]
    assert column("decimal128", values, fails_fast=True) == [Decimal(one) for one in values]
    largest = "9" * 20 + "." + "9" * 18
    assert column("decimal128(38, 18)", [largest], fails_fast=True) == [Decimal(largest)]
