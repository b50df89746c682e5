"""A job recognises its cluster by entries, because another cluster may have the same name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from anabranch.pipeline.errors import OptionError, PipelineError
from anabranch.pipeline.jobs import landmarks
from anabranch.pipeline.jobs.archive import job as archive
from anabranch.pipeline.jobs.archive.job import ArchiveOptions
from anabranch.pipeline.jobs.landmarks import check_cluster
from anabranch.pipeline.jobs.report import Report
from anabranch.pipeline.offsets import Offset
from anabranch.pipeline.options import SourceOptions
from anabranch.pipeline.planning import Planner
from anabranch.region.engine.engine import Engine
from anabranch.region.engine.settings import Settings
from tests.pipeline.serving import EngineServer, run
from tests.support.engines import single


def liberal() -> Engine:
    return single(settings=Settings({"crdt-xadd-id-uniqueness-mode": "liberal"}))


@pytest.fixture
def server() -> Iterator[EngineServer]:
    with EngineServer(liberal()) as one:
        yield one


@pytest.fixture
def other() -> Iterator[EngineServer]:
    with EngineServer(liberal()) as one:
        yield one


def check(server: EngineServer, path: Path, reached: Offset | None = None) -> None:
    """What a job does at its start."""
    given = {"endpoints": f"127.0.0.1:{server.port}", "streams": "*", "timeoutSeconds": "20"}
    planner = Planner(SourceOptions(given, is_streaming=False))
    try:
        check_cluster(path, "the archive a", planner.regions, planner.streams(), reached or {})
    finally:
        planner.regions.close()


def test_another_cluster_of_the_same_name(
    server: EngineServer, other: EngineServer, tmp_path: Path
) -> None:
    """Its counters are of other entries, of which those below the place would be skipped."""
    path = tmp_path / "landmarks.json"
    run(server, *(f"XADD s {n}-0 v {n}" for n in range(1, 4)))
    check(server, path)
    run(server, "XADD s 4-0 v 4", "XTRIM s MAXLEN = 1", "XADD t 5-0 v 5")
    for _ in range(2):
        check(server, path, {"s": {"us": 3}})
    run(other, *(f"XADD s {n}-0 v {n}" for n in range(11, 21)))
    message = r"the archive a is of another cluster .* entry 4 of us in 's' was 4-0, and is 14-0"
    with pytest.raises(OptionError, match=message):
        check(other, path, {"s": {"us": 3}})
    check(server, path, {"s": {"us": 3}})


def test_entries_that_are_gone_prove_nothing(server: EngineServer, tmp_path: Path) -> None:
    path = tmp_path / "landmarks.json"
    run(server, "XADD s 1-0 v 1", "XADD s 2-0 v 2")
    check(server, path)
    run(server, "DEL s", "XADD s 3-0 v 3")
    check(server, path, {"s": {"us": 4}})
    run(server, "FLUSHALL")
    check(server, path, {"s": {"us": 5}})


def test_a_region_that_lacks_its_own_effects(server: EngineServer, tmp_path: Path) -> None:
    """Effects of other regions may still arrive, and so they prove nothing."""
    run(server, "XADD s 1-0 v 1")
    with pytest.raises(
        OptionError, match="read the log of us in 's' up to 2, and us has .* up to 1"
    ):
        check(server, tmp_path / "landmarks.json", {"s": {"us": 2}})
    with pytest.raises(OptionError, match="the log of eu, and the regions are us"):
        check(server, tmp_path / "landmarks.json", {"s": {"eu": 2}})


def test_a_region_in_recovery_gets_its_effects_from_others() -> None:
    info = {
        "crdt_region_name": "us",
        "crdt_region_id": "1",
        "crdt_members": "us=1,eu=2",
        "crdt_disk_vector": "1=3",
        "crdt_state": "recovery",
    }
    landmarks._check_end("the archive a", info, {"s": {"us": 5, "eu": 9}})
    with pytest.raises(OptionError, match="up to 5, and us has effects up to 3"):
        landmarks._check_end("the archive a", {**info, "crdt_state": "serving"}, {"s": {"us": 5}})


def test_an_archive_is_of_one_cluster(
    server: EngineServer, other: EngineServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job of one cluster went on with the entries of another of the same name."""
    run(server, "XADD s 1-0 v 1")
    run(other, "XADD s 2-0 v 1")
    started: list[str] = []

    def begin(*_: Any) -> Report:
        started.append("job")
        return Report(True, [])

    monkeypatch.setattr(archive, "_add", begin)
    nothing: Any = MagicMock()

    def archived(server: EngineServer) -> None:
        regions = {"endpoints": f"127.0.0.1:{server.port}"}
        archive.run(nothing, ArchiveOptions(tmp_path / "archive", regions, proves=False), nothing)

    for _ in range(2):
        archived(server)
    with pytest.raises(OptionError, match="is of another cluster of the same name: entry 1"):
        archived(other)
    assert len(started) == 2


def test_a_file_of_a_later_version(server: EngineServer, tmp_path: Path) -> None:
    path = tmp_path / "landmarks.json"
    path.write_text('{"format": 2}')
    run(server, "XADD s 1-0 v 1")
    with pytest.raises(PipelineError, match="has the format 2, and this version"):
        check(server, path)
