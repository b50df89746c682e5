"""The commands of archive, restore and lag: mistakes that are found before Spark is started."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from anabranch.cli.addresses import RegionAddress, write_file
from anabranch.cli.errors import CliError, UsageError
from anabranch.cli.pipeline import common
from anabranch.cli.pipeline.archive import archive, restore
from anabranch.cli.pipeline.audit import audit
from anabranch.cli.pipeline.lag import lag
from anabranch.pipeline.jobs.report import Report, Table
from tests.pipeline.serving import EngineServer
from tests.support.engine_cluster import cluster


@pytest.mark.parametrize(
    ("command", "given", "message"),
    [
        (archive, {"folder": "a", "verify": True, "no_proof": True}, "--verify or --no-proof"),
        (archive, {"folder": "s3://bucket/a"}, "DIR: s3://bucket/a is a URL"),
        (archive, {"folder": "a", "at": ["nowhere"]}, "--at"),
        (restore, {"folder": "hdfs://host/a"}, "DIR: hdfs://host/a is a URL"),
        (lag, {"out": "s3://o"}, "--out: s3://o is a URL"),
    ],
)
def test_mistakes(command: Callable[..., None], given: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        command(**given)


def test_a_missing_password_is_told_before_spark_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark took a minute to start on a busy machine, and only then the job asked for it."""
    for name in ("REDISCLI_AUTH", "ANABRANCH_REQUIREPASS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(common, "open_session", lambda *_: pytest.fail("Spark was started"))
    (us,) = cluster(1, requirepass="secret")
    with EngineServer(us.engine) as server:
        path = tmp_path / "cluster.toml"
        write_file(path, "c", [RegionAddress("us", 1, f"127.0.0.1:{server.port}")])
        with pytest.raises(CliError, match=r"us at 127\.0\.0\.1:\d+ asks for a password"):
            audit(cluster=path)
        with pytest.raises(CliError, match="refuses this password"):
            audit(cluster=path, password="wrong")


def test_a_name_with_a_newline_stays_in_its_row(capsys: pytest.CaptureFixture[str]) -> None:
    """A stream with a newline in its name broke the table of the job lag."""
    rows = [["a\nb\x1b[31m\\n", "1"], ["plain", "22"]]
    common._print(
        Report(True, ["done"], [Table("Streams", ["stream", "n"], rows, frozenset({1}))], {})
    )
    assert capsys.readouterr().out.splitlines() == [
        "done",
        "",
        "Streams",
        "stream           n",
        "a\\nb\\x1b[31m\\n   1",
        "plain           22",
    ]
