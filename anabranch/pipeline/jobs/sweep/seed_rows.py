"""Results of simulated seeds as rows of a table, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from anabranch.sim.history import Violation
from anabranch.sim.run import Result

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA: Final = (
    "seed BIGINT, checker STRING,"
    " violations ARRAY<STRUCT<checker STRING, at_ms BIGINT, region INT, text STRING>>,"
    " virtual_ms BIGINT, trace_hash STRING, counters MAP<STRING, BIGINT>"
)
"""`checker` is the judge of the first violation; null for a seed that passed."""


def row_of(result: Result) -> dict[str, Any]:
    """The row of one seed, by column."""
    return {
        "seed": result.seed,
        "checker": result.violations[0].checker if result.violations else None,
        "violations": [{**one._asdict(), "text": _unicode(one.text)} for one in result.violations],
        "virtual_ms": result.virtual_ms,
        "trace_hash": result.trace_hash,
        "counters": sorted(result.counters.items()),
    }


def batch_of(results: Sequence[Result]) -> pa.RecordBatch:
    """The rows of some seeds, as Spark takes them from Python."""
    # Imported here: the driver and the unit tests do without it.
    import pyarrow as pa

    violation = pa.struct(
        [
            ("checker", pa.string()),
            ("at_ms", pa.int64()),
            ("region", pa.int32()),
            ("text", pa.string()),
        ]
    )
    columns = [
        ("seed", pa.int64()),
        ("checker", pa.string()),
        ("violations", pa.list_(violation)),
        ("virtual_ms", pa.int64()),
        ("trace_hash", pa.string()),
        ("counters", pa.map_(pa.string(), pa.int64())),
    ]
    rows = [row_of(one) for one in results]
    return pa.RecordBatch.from_pylist(rows, schema=pa.schema(columns))


def result_of(row: Mapping[str, Any]) -> Result:
    """The result that a row was made of, without its counters."""
    violations = [
        Violation(one["checker"], one["at_ms"], one["region"], one["text"])
        for one in row["violations"]
    ]
    return Result(row["seed"], violations, row["trace_hash"], row["virtual_ms"])


def _unicode(text: str) -> str:
    # Names of keys are any bytes, and come as surrogates. Arrow takes only Unicode.
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
