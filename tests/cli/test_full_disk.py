"""Commands on a full disk: they name a directory and a cause, and destroy nothing.

A limit on the size of files takes the place of a full disk, because tests mount nothing.
"""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from anabranch.cli.files import placed
from anabranch.whole_file import write_whole
from tests.cli.test_mistakes import FILE, anabranch, told
from tests.storage.test_data_files import run_once


def at_most(bytes_max: int) -> Callable[[], None]:
    """Files of the process cannot grow beyond this size."""

    def prepare() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_max, bytes_max))

    return prepare


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The data directory of a stopped region us."""
    asyncio.run(run_once(tmp_path / "us"))
    return tmp_path / "us"


def run(tmp_path: Path, bytes_max: int, *words: str) -> subprocess.CompletedProcess[str]:
    return anabranch(*words, cwd=tmp_path, prepare=at_most(bytes_max))


@pytest.mark.parametrize("words", [["check", "us"], ["repair", "us", "--yes"]])
def test_a_sound_directory_does_not_look_like_a_broken_disk(
    tmp_path: Path, data: Path, words: list[str]
) -> None:
    """The error was "disk I/O error", because SQLite makes files beside the database."""
    before = (data / "region.sqlite").read_bytes()
    result = run(tmp_path, 1000, *words)
    told(result, 1, "no file can be written in us: File too large", "are free): free space on its")
    assert (data / "region.sqlite").read_bytes() == before


def test_a_backup_names_the_directory(tmp_path: Path, data: Path) -> None:
    told(
        run(tmp_path, 1000, "backup", "us", "copy", "--data", "us"),
        1,
        "cannot back up us to copy: disk I/O error; no file can be written in us: File too large",
    )
    assert sorted(one.name for one in tmp_path.iterdir()) == ["us"]


@pytest.mark.parametrize("bytes_max", [0, 1000])
def test_a_restore_names_the_directory(tmp_path: Path, data: Path, bytes_max: int) -> None:
    """The error was "No space left on device", without a place."""
    assert anabranch("backup", "us", "copy", "--data", "us", cwd=tmp_path).returncode == 0
    result = run(tmp_path, bytes_max, "restore", "copy", "--data", "new")
    written = "cannot write into new: File too large"
    told(result, 1, "cannot restore copy to new: File too large; no" if bytes_max else written)


@pytest.mark.parametrize("bytes_max", [0, 100])
def test_up_names_the_directory(tmp_path: Path, bytes_max: int) -> None:
    """With 100 bytes there is room for the lock, and none for `cluster.toml`."""
    result = run(tmp_path, bytes_max, "up", "--data", "new", "--no-console")
    told(result, 1, "new: File too large")


def test_an_error_without_a_file_gets_one() -> None:
    with pytest.raises(OSError) as found, placed(Path("there")):
        raise OSError(errno.ENOSPC, "no space")
    assert found.value.filename == "there"
    with pytest.raises(OSError) as found, placed(Path("there")):
        raise OSError(errno.ENOENT, "nothing", "here")
    assert found.value.filename == "here"


# -- files that are replaced


def test_a_drawing_stays_as_it_was(tmp_path: Path) -> None:
    """It was cut off to 0 bytes first."""
    (tmp_path / "file.md").write_text(FILE, encoding="utf-8")
    drawing = ["scenario", "run", "file.md", "--svg", "out.svg"]
    assert anabranch(*drawing, cwd=tmp_path).returncode == 0
    before = (tmp_path / "out.svg").read_bytes()
    told(run(tmp_path, 1000, *drawing), 1, "out.svg cannot be written: File too large")
    assert (tmp_path / "out.svg").read_bytes() == before
    assert sorted(one.name for one in tmp_path.iterdir()) == ["file.md", "out.svg"]


def test_a_file_keeps_its_permissions_and_a_link_stays_one(tmp_path: Path) -> None:
    place, link = tmp_path / "place", tmp_path / "link"
    link.symlink_to(place)
    write_whole(link, b"1")
    place.chmod(0o640)
    write_whole(link, b"2")
    assert link.is_symlink() and place.read_bytes() == b"2"
    assert place.stat().st_mode & 0o777 == 0o640


def test_a_pipe_is_written_in_place(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_whole(pipe, b"content")
        assert os.read(reader, 100) == b"content" and pipe.is_fifo()
    finally:
        os.close(reader)
    write_whole(Path("/dev/null"), b"content")
    assert not Path("/dev/null").is_file()


def test_a_file_that_cannot_be_replaced_is_written_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as one that is mounted into a container."""

    def busy(source: Path, target: Path) -> None:
        raise OSError(errno.EBUSY, "busy", str(source))

    file = tmp_path / "file"
    file.write_bytes(b"1")
    monkeypatch.setattr(Path, "replace", busy)
    write_whole(file, b"2")
    assert file.read_bytes() == b"2" and list(tmp_path.iterdir()) == [file]
