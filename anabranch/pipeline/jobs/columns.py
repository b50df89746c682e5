"""Columns that several jobs derive from those of the source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import Column

_MS_OF_DAY: Final = 86_400_000


def day() -> Column:
    """The UTC day of the column `ts`; the time zone of the session does not matter."""
    from pyspark.sql import functions as f

    return f.expr(f"date_from_unix_date(CAST(unix_millis(ts) DIV {_MS_OF_DAY} AS INT))")


def text(data: Column) -> Column:
    """Bytes as a text; those that are not UTF-8 become U+FFFD."""
    from pyspark.sql import functions as f

    return f.make_valid_utf8(data.cast("string"))


def is_text(data: Column) -> Column:
    """Whether bytes are UTF-8."""
    from pyspark.sql import functions as f

    return f.is_valid_utf8(data.cast("string"))
