"""The judge `twin` of a chaos run, on tapes of engines that the test drives."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.chaos import taped
from anabranch.sim.calls import Call
from anabranch.sim.tapes.writing import FOLDER
from tests.sim.test_tapes import Taped, use


def regions(tmp_path: Path, bytes_max: int = 1 << 20) -> tuple[Taped, Taped, dict[str, Path]]:
    """Two regions, and their data directories."""
    data = {"us": tmp_path / "us", "eu": tmp_path / "eu"}
    us, eu = (
        Taped(folder, number, 2, bytes_max, FOLDER)
        for number, folder in enumerate(data.values(), start=1)
    )
    return us, eu, data


@pytest.mark.parametrize("bytes_max", [1 << 20, 6000])
def test_regions_that_are_right(tmp_path: Path, bytes_max: int) -> None:
    us, eu, data = regions(tmp_path, bytes_max)
    use(us, eu, 40)
    us.writer.close()
    eu.writer.close()
    found, notes = taped.judge(data)
    assert found == []
    assert [note.split(",")[0].split()[-1] for note in notes] == ["us", "eu"]
    assert all(("its oldest tapes are gone" in note) == (bytes_max == 6000) for note in notes)


def test_a_wrong_reply(tmp_path: Path) -> None:
    us, eu, data = regions(tmp_path)
    take = us.writer._take

    def lying(call: Call) -> None:
        call.replies = [4] if call.argv[:1] == (b"XLEN",) else call.replies
        take(call)

    us.writer._take = lying  # type: ignore[method-assign]
    us.ok("XADD k * t a")
    us.ok("XLEN k")
    eu.ok("EXISTS k")
    us.writer.close()
    eu.writer.close()
    (text,), _ = taped.judge(data)
    assert "us at 1000 ms" in text and "XLEN k: replied 4; expected 1; before it:" in text
    assert "XADD k * t a" in text


def test_tapes_that_are_missing_or_of_another_version(tmp_path: Path) -> None:
    us, eu, data = regions(tmp_path)
    us.writer.close()
    eu.writer.close()
    (tape,) = (data["eu"] / FOLDER).iterdir()
    tape.write_bytes(b"anabranch tape 1\n")
    found, _ = taped.judge(data | {"ap": tmp_path / "ap"})
    assert found[0] == "ap wrote no tape" and "is no tape of this version" in found[1]


def test_a_region_of_which_nothing_was_judged(tmp_path: Path) -> None:
    us, eu, data = regions(tmp_path)
    use(us, eu, 2)
    us.writer.close()
    eu.writer.close()
    (tape,) = (data["eu"] / FOLDER).iterdir()
    tape.rename(tape.with_name("00000002.tape"))
    found, notes = taped.judge(data)
    assert found == [] and "its oldest tapes are gone" in notes[1]
    whole = tape.with_name("00000002.tape").read_bytes()
    tape.with_name("00000002.tape").write_bytes(whole[:40])
    found, _ = taped.judge(data)
    assert found == ["the twin judged no call of eu"]
