"""T17: files of a region are its user's alone, and files that are not are told of."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from anabranch.cli.main import application
from anabranch.cli.serve import locked
from anabranch.file_modes import wider
from anabranch.region.live.data_files import DataFiles
from anabranch.region.live.database import FILE_NAME
from tests.storage.test_data_files import run_once


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    """The mask with which every user may read new files."""
    former = os.umask(0o022)
    yield
    os.umask(former)


def modes(directory: Path) -> dict[str, int]:
    return {one.name: one.stat().st_mode & 0o777 for one in (directory, *directory.rglob("*"))}


def test_t17_files_of_a_region_are_its_user_s_alone(tmp_path: Path) -> None:
    """They were readable by every user of the machine, passwords of CONFIG SET on tapes too."""
    directory = tmp_path / "us"
    with locked(directory):
        asyncio.run(run_once(directory))
    found = modes(directory)
    assert found.pop("us") == 0o700
    assert {"region.lock", "region.mark", FILE_NAME} <= found.keys()
    assert set(found.values()) == {0o600}
    assert os.umask(0o022) == 0o022, "the process goes on as before"


def test_t17_backups_and_what_is_restored(tmp_path: Path) -> None:
    asyncio.run(run_once(tmp_path / "us"))
    backup, restored = tmp_path / "us.backup", tmp_path / "restored"
    for words in (
        ("backup", "us", backup, "--data", tmp_path / "us"),
        ("restore", backup, "--data", restored),
    ):
        result = CliRunner().invoke(application(), [str(word) for word in words])
        assert result.exit_code == 0, result.output
    assert backup.stat().st_mode & 0o777 == 0o600
    assert modes(restored)["restored"] == 0o700 and modes(restored)[FILE_NAME] == 0o600


def test_t17_the_mark_needs_no_mask(tmp_path: Path) -> None:
    files = DataFiles(tmp_path / FILE_NAME)
    files.write_mark(7)
    files.close()
    assert modes(tmp_path)["region.mark"] == 0o600


def test_t17_wider_files_are_told_of(tmp_path: Path) -> None:
    directory = tmp_path / "us"
    directory.mkdir(0o755)
    assert wider(directory).endswith(f"close them with `chmod -R go= {directory}`")
    (directory / FILE_NAME).touch(0o644)
    (directory / "region.mark").touch(0o600)
    assert f"may reach {directory} (mode 0755), and the files {FILE_NAME} in it" in wider(directory)
    directory.chmod(0o700)
    assert wider(directory) == "", "nobody else comes to the files"
    assert wider(tmp_path / "missing") == ""


def test_t17_a_volume_of_another_user_counts_by_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o775)
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    assert wider(tmp_path) == ""
    (tmp_path / FILE_NAME).touch(0o640)
    assert FILE_NAME in wider(tmp_path)
