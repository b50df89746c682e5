"""The commands of archive, restore and totals: mistakes that are found before Spark is started."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from anabranch.cli.errors import UsageError
from anabranch.cli.pipeline.archive import archive, restore
from anabranch.cli.pipeline.totals import totals

COUNT = {"streams": "orders", "key": "user", "sums": "amount"}


@pytest.mark.parametrize(
    ("command", "given", "message"),
    [
        (archive, {"folder": "a", "verify": True, "no_proof": True}, "--verify or --no-proof"),
        (archive, {"folder": "s3://bucket/a"}, "DIR: s3://bucket/a is a URL"),
        (archive, {"folder": "a", "at": ["nowhere"]}, "--at"),
        (restore, {"folder": "hdfs://host/a"}, "DIR: hdfs://host/a is a URL"),
        (
            totals,
            {**COUNT, "checkpoint": "c", "seconds": 3.0, "available_now": True},
            "--seconds or --available-now, not both",
        ),
        (totals, {**COUNT, "checkpoint": "s3://c"}, "--checkpoint: s3://c is a URL"),
        (totals, {**COUNT, "checkpoint": "c", "out": "s3://o"}, "--out: s3://o is a URL"),
    ],
)
def test_mistakes(command: Callable[..., None], given: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        command(**given)
