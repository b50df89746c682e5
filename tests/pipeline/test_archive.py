"""The archive without Spark: its files, killed runs, names of streams, targets and reports."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from anabranch.pipeline.errors import OptionError, PipelineError
from anabranch.pipeline.jobs import folders
from anabranch.pipeline.jobs.archive import job as archive_job
from anabranch.pipeline.jobs.archive import report as archive_report
from anabranch.pipeline.jobs.archive import restore_report
from anabranch.pipeline.jobs.archive.files import ArchiveFiles, Batch
from anabranch.pipeline.jobs.archive.names import check_text, exact
from anabranch.pipeline.jobs.archive.restore import RestoreOptions, run, targets_of
from anabranch.pipeline.jobs.archive.row_sets import LogComparison
from anabranch.pipeline.jobs.report import Report
from anabranch.pipeline.options import SourceOptions

ENDS = [{"orders": {"us": 10}}, {"orders": {"us": 20}}]


@pytest.fixture
def files(tmp_path: Path) -> ArchiveFiles:
    found = ArchiveFiles(tmp_path / "archive")
    with found.locked():
        found.create("test")
    return found


def stage(files: ArchiveFiles, number: int, days: dict[str, list[str]]) -> Path:
    """Writes files as Spark does: day → their contents."""
    staged = files.stage(number)
    for day, contents in days.items():
        for at, text in enumerate(contents):
            path = staged / f"date={day}" / f"part-{at:05d}.snappy.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    return staged


def contents(files: ArchiveFiles) -> list[str]:
    """The contents of all files that a reader finds."""
    return sorted(path.read_text() for path in files.entries.rglob("*.parquet"))


# -- batches


def test_a_batch_comes_in(files: ArchiveFiles) -> None:
    batch = files.install(0, stage(files, 0, {"2026-11-22": ["a"], "2026-11-23": ["b"]}), ENDS[0])
    assert batch.files == {
        "date=2026-11-22/b00000000-0000.parquet": 1,
        "date=2026-11-23/b00000000-0001.parquet": 1,
    }
    assert files.batches() == [batch]
    assert files.reached() == ENDS[0]
    assert files.holds(0, ENDS[0]) and not files.holds(1, ENDS[1])
    assert files.faults() == [] and files.unfinished() == []


class Killed(Exception):
    """The process ends here."""


@pytest.mark.parametrize("step", range(12))
def test_a_run_is_killed_at_each_step(
    files: ArchiveFiles, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers see nothing twice before and after the repetition, which splits files otherwise."""
    files.install(0, stage(files, 0, {"2026-11-22": ["a"]}), ENDS[0])
    left = step
    real = folders.sync

    def sync(path: Path) -> None:
        nonlocal left
        if not left:
            raise Killed
        left -= 1
        real(path)

    staged = stage(files, 1, {"2026-11-22": ["b", "c"], "2026-11-23": ["d", "e"]})
    monkeypatch.setattr(folders, "sync", sync)
    try:
        files.install(1, staged, ENDS[1])
        assert step >= 9
    except Killed:
        assert step < 9
    monkeypatch.undo()
    seen = contents(files)
    assert seen == sorted(set(seen)) and seen[0] == "a"
    assert files.faults() == []
    if not files.holds(1, ENDS[1]):
        assert sorted(files.unfinished()) == sorted(
            str(path.relative_to(files.entries)) for path in files.entries.rglob("b00000001-*")
        )
        files.install(1, stage(files, 1, {"2026-11-22": ["bc"], "2026-11-23": ["de"]}), ENDS[1])
        assert contents(files) == ["a", "bc", "de"]
    assert files.reached() == ENDS[1] and files.unfinished() == []


def test_a_checkpoint_of_another_archive(files: ArchiveFiles) -> None:
    files.install(0, stage(files, 0, {}), ENDS[0])
    for number, end in ((0, ENDS[1]), (2, ENDS[1])):
        with pytest.raises(PipelineError, match="do not belong together"):
            files.holds(number, end)
    with pytest.raises(PipelineError, match="is gone, but the archive holds entries"):
        files.check_checkpoint()
    (files.checkpoint / "offsets").mkdir()
    (files.checkpoint / "offsets" / "0").write_text(f"v1\n{{}}\n{json.dumps(ENDS[0])}")
    files.check_checkpoint()
    assert files.end_in_checkpoint(0) == ENDS[0]
    (files.checkpoint / "offsets" / "1").write_text("v9\n{}\n{}")
    for number in (1, 2):
        with pytest.raises(PipelineError, match=f"does not say where batch {number} ends"):
            files.end_in_checkpoint(number)


def test_files_that_are_lost_changed_or_foreign(files: ArchiveFiles) -> None:
    files.install(0, stage(files, 0, {"2026-11-22": ["a", "b"]}), ENDS[0])
    day = files.entries / "date=2026-11-22"
    (day / "b00000000-0000.parquet").unlink()
    (day / "b00000000-0001.parquet").write_text("bb")
    (day / "mine.parquet").write_text("x")
    assert files.faults() == [
        "The file date=2026-11-22/b00000000-0000.parquet of batch 0 is lost.",
        "The file date=2026-11-22/b00000000-0001.parquet has 2 bytes, and was written with 1.",
        "The file date=2026-11-22/mine.parquet is not of this archive, and readers read it, too.",
    ]


def commit(files: ArchiveFiles, number: int) -> None:
    """What Spark does after a batch."""
    (files.checkpoint / "commits").mkdir(exist_ok=True)
    (files.checkpoint / "commits" / str(number)).write_text("v1")


def test_lists_that_are_lost(files: ArchiveFiles) -> None:
    """Without the list of the last batch, its files counted as those of a killed run."""
    for number, text in enumerate("abc"):
        files.install(number, stage(files, number, {"2026-11-22": [text]}), ENDS[0])
        commit(files, number)
    lists = sorted((files.folder / "state" / "batches").iterdir())
    for number in (1, 2):
        lists[number].unlink()
    assert files.faults() == [
        f"The list of the files of batch {number} is lost: {lists[number]}." for number in (1, 2)
    ]
    assert files.unfinished() == []
    lists[0].write_text("{}")
    with pytest.raises(PipelineError, match="it has no 'end'"):
        files.faults()


def test_a_damaged_archive_is_not_restored(files: ArchiveFiles) -> None:
    """The entries of its sound files were added, and the report told of the damage afterwards."""
    files.install(0, stage(files, 0, {"2026-11-22": ["a", "b"]}), ENDS[0])
    for path in files.entries.rglob("*.parquet"):
        path.write_text("")
    nothing: Any = None
    message = (
        "is damaged, so nothing was restored. The file date=2026-11-22/b00000000-0000.parquet has "
        "0 bytes, and was written with 1. Other faults: 1. Put the files back"
    )
    with pytest.raises(PipelineError, match=message):
        run(nothing, RestoreOptions(files.folder, {"endpoints": "us=h:1"}), nothing)


def test_an_archive_whose_file_cannot_be_read(
    files: ArchiveFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark names a file of which the reader of the report has never heard."""
    files.install(0, stage(files, 0, {"2026-11-22": ["a"]}), ENDS[0])

    def fail(*_: object) -> None:
        raise ValueError("no footer")

    monkeypatch.setattr(archive_job, "_compare", fail)
    nothing: Any = None
    options = archive_job.ArchiveOptions(files.folder, {})
    with pytest.raises(ValueError, match="no footer"):
        archive_job._proof(nothing, files, options, {})
    for path in files.entries.rglob("*.parquet"):
        path.unlink()
    with pytest.raises(PipelineError, match="is damaged and cannot be read. The file date=2026"):
        archive_job._proof(nothing, files, options, {})


def test_one_job_at_a_time(files: ArchiveFiles) -> None:
    with (
        files.locked(),
        pytest.raises(PipelineError, match="another job works on the archive"),
        ArchiveFiles(files.folder).locked(),
    ):
        pass


def test_directories_that_are_no_archive(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="holds no archive"):
        ArchiveFiles(tmp_path / "nothing").identity()
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(OptionError, match="is not empty and holds no archive"):
        ArchiveFiles(tmp_path).check_place()
    with pytest.raises(OptionError, match="is a file"):
        ArchiveFiles(tmp_path / "notes.txt").check_place()


def test_an_archive_that_lost_its_state(files: ArchiveFiles) -> None:
    """The next run began a new archive in it: its first batch replaced files of the old one."""
    (files.checkpoint / "offsets").mkdir()
    (files.checkpoint / "offsets" / "0").write_text(f"v1\n{{}}\n{json.dumps(ENDS[0])}")
    files.install(0, stage(files, 0, {"2026-11-22": ["a"]}), ENDS[0])
    files.check_place()
    files.check_checkpoint()
    # Only the lists of batches and the checkpoint are lost.
    shutil.rmtree(files.folder / "state" / "batches")
    shutil.rmtree(files.checkpoint)
    with pytest.raises(PipelineError, match="is gone, but the archive holds entries"):
        files.check_checkpoint()
    shutil.rmtree(files.folder / "state")
    with pytest.raises(OptionError, match=r"holds entries, and .*archive\.json is gone"):
        ArchiveFiles(files.folder).check_place()


def test_an_archive_of_a_later_version(files: ArchiveFiles) -> None:
    (files.folder / "state" / "archive.json").write_text('{"format": 2}')
    with pytest.raises(PipelineError, match="has the format 2, and this version"):
        files.identity()
    (files.folder / "state" / "archive.json").write_text("[]")
    with pytest.raises(PipelineError, match="is no JSON object"):
        files.identity()


# -- names


@pytest.mark.parametrize(
    "name", ["orders", "a*b", "x[1]", "a\\b", "w\\*", "a,b", " a", "b\t", "é,"]
)
def test_exact_names(name: str) -> None:
    """The option reads the stream of the name, and none that is only like it."""
    given = {"endpoints": "127.0.0.1:1", "streams": exact(name)}
    options = SourceOptions(given, is_streaming=True)
    assert options.names_stream(name)
    assert not any(options.names_stream(other) for other in (f"{name}x", f"x{name}", "x1", "ab"))


def test_names_that_spark_cannot_hold() -> None:
    check_text(["orders", "é"])
    with pytest.raises(OptionError, match=r"b'\\xff' is not UTF-8"):
        check_text(["orders", "\udcff"])
    with pytest.raises(OptionError, match="whose name is empty"):
        check_text([""])


def test_targets() -> None:
    given = {"endpoints": "127.0.0.1:1"}
    options = RestoreOptions(Path("archive"), given, "o*", "old:")
    assert targets_of(["odd", "orders", "rides"], options) == {
        "odd": "old:odd",
        "orders": "old:orders",
    }
    missing = RestoreOptions(Path("archive"), given, "trips")
    with pytest.raises(OptionError, match="holds no stream 'trips'; it holds orders, rides"):
        targets_of(["orders", "rides"], missing)
    with pytest.raises(OptionError, match="is not UTF-8"):
        targets_of(["orders"], RestoreOptions(Path("archive"), given, "*", "\udcff"))


# -- reports


def comparison(**more: int) -> LogComparison:
    given = {"entries": 3, "size": 30, "twice": 0, "missing": 0, "alone": 0, "differ": 0, **more}
    return LogComparison("orders", "us", **given)


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"missing": 1}, "not in the archive: 1 entry of us in the stream 'orders'"),
        ({"twice": 2}, "more than once in the archive: 2 entries of us in the stream 'orders'"),
        (
            {"differ": 1},
            "with another ID or other fields in the archive: 1 entry of us in the stream 'orders'",
        ),
    ],
)
def test_a_wrong_archive(files: ArchiveFiles, more: dict[str, int], sentence: str) -> None:
    run = archive_report.Archived(files, [], [comparison(**more)], {}, [], is_proof=True)
    found = archive_report.report(run)
    assert not found.passed and found.lines[1] == sentence and found.facts["faults"] == [sentence]


def test_a_right_archive(files: ArchiveFiles) -> None:
    """Entries that were removed from their stream since are counted, and no error."""
    added = [Batch(0, ENDS[0], {"x": 5, "y": 6})]
    run = archive_report.Archived(files, added, [comparison(alone=2)], ENDS[0], ["rides"], True)
    found = archive_report.report(run)
    assert found.passed
    assert found.lines[1:] == [
        "added by this run: 2 files with 11 bytes",
        "deleted or trimmed in their streams since: 2 entries",
        "The stream 'rides' is gone; its archived entries stay.",
    ]
    assert found.tables[0].rows == [["orders", "us", "3", "30", "10", "2"]]


def test_reports_of_restores() -> None:
    def report(**more: int) -> Report:
        run = restore_report.Restored(
            Path("archive"), {"orders": "old:orders"}, [comparison(**more)], 1, []
        )
        return restore_report.report(run)

    assert report().passed and "restored before: 1 entry" in report().lines
    wrong = report(alone=1, twice=2, differ=3)
    assert not wrong.passed
    assert wrong.lines[1:4] == [
        "not in the stream 'old:orders': 1 entry of us",
        "more than once in the stream 'old:orders': 2 entries of us",
        "with other fields or another original ID in the stream 'old:orders': 3 entries of us",
    ]
