"""`--svg` of the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from anabranch.cli.errors import CliError
from anabranch.cli.main import application
from tests.study.drawings import parsed, texts

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "anabranch" / "sim" / "scenarios" / "seed-02-delete-meets-add.md"


def invoke(*arguments: str) -> str:
    """Runs a command that must succeed; its output."""
    result = CliRunner().invoke(application(), list(arguments))
    assert result.exit_code == 0, result.output
    return result.output


def refused(*arguments: str) -> tuple[int, str]:
    """Exit code and text of a command that ends with an error."""
    result = CliRunner().invoke(application(), list(arguments))
    assert isinstance(result.exception, CliError), result.output
    return result.exception.exit_code, str(result.exception)


def test_one_file(tmp_path: Path) -> None:
    out = tmp_path / "new" / "one.svg"
    assert "1 scenario, 0 failed" in invoke("scenario", "run", str(FILE), "--svg", str(out))
    assert "A delete removes only the entries that it observed" in texts(parsed(out.read_text()))
    before = out.read_bytes()
    invoke("scenario", "run", str(FILE), "--svg", str(out))
    assert out.read_bytes() == before


def test_several_files(tmp_path: Path) -> None:
    other = FILE.with_name("seed-01-concurrent-adds.md")
    invoke("scenario", "run", str(FILE), str(other), "--svg", str(tmp_path / "out"))
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "seed-01-concurrent-adds.svg",
        "seed-02-delete-meets-add.svg",
    ]


def test_a_failing_file_is_drawn(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.md"
    wrong.write_text(
        "# Wrong\n\n| Time | us | eu |\n| --- | --- | --- |\n| t1 | `XLEN x` → 1 | |\n"
    )
    result = CliRunner().invoke(
        application(), ["scenario", "run", str(wrong), "--svg", str(tmp_path / "wrong.svg")]
    )
    assert result.exit_code == 1
    assert "XLEN x → 0" in texts(parsed((tmp_path / "wrong.svg").read_text()))


def test_a_part(tmp_path: Path) -> None:
    out = tmp_path / "part.svg"
    path = FILE.with_name("rename-twice.md")
    invoke("scenario", "run", str(path), "--svg", str(out), "--svg-key", "c")
    shown = texts(parsed(out.read_text()))
    assert "This drawing shows only the key c." in shown
    assert not any(one.startswith("XRANGE b") for one in shown)
    code, text = refused("scenario", "run", str(path), "--svg", str(out), "--svg-key", "none")
    assert code == 1 and "nothing happened here: only the key none" in text


@pytest.mark.parametrize("live", [["--live"], ["--at", "127.0.0.1:1"]])
def test_live_regions_are_refused(live: list[str], tmp_path: Path) -> None:
    code, text = refused("scenario", "run", str(FILE), *live, "--svg", str(tmp_path / "x.svg"))
    assert code == 2 and "simulated runs only" in text and not list(tmp_path.iterdir())


def test_wrong_options(tmp_path: Path) -> None:
    svg = str(tmp_path / "x.svg")
    assert refused("scenario", "run", str(FILE), "--svg-key", "x")[0] == 2
    assert refused("simulate", "--svg", svg) == (
        2,
        "--svg draws the run of one seed: give --replay SEED",
    )
    assert "FROM:TO" in refused("simulate", "--replay", "1", "--svg", svg, "--svg-time", "x")[1]
    assert "is a directory" in refused("simulate", "--replay", "1", "--svg", str(tmp_path))[1]


def test_a_seed(tmp_path: Path) -> None:
    out = tmp_path / "seed.svg"
    arguments = ["simulate", "--replay", "17", "--svg", str(out)]
    code, text = refused(*arguments)
    assert code == 1 and "too many for one drawing" in text and "--svg-time FROM:TO" in text
    invoke(*arguments, "--svg-time", "0:200")
    assert any("only 0 to 200 ms" in one for one in texts(parsed(out.read_text())))
