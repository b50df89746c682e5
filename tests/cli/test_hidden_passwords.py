"""T21: the password of a region comes from a file, or is hidden in the list of processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from anabranch.cli.errors import UsageError
from anabranch.cli.passwords import find_password, from_config
from anabranch.hidden_arguments import places
from anabranch.region.config import load
from anabranch.region.option_values import ConfigError
from tests.cli.test_config import flags
from tests.support.cluster import child_env

SECRET = "öffne dich, Sesam"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "password"
    path.write_text(f"{SECRET}\r\nsecond line\n", encoding="utf-8")
    path.chmod(0o600)
    return path


def test_t21_a_region_takes_its_password_from_a_file(file: Path, tmp_path: Path) -> None:
    config = load(flags(requirepass_file=str(file)), {})
    assert config.settings.text("requirepass") == SECRET
    assert not [one for one in config.warnings if "password" in one]
    variables = {"ANABRANCH_REQUIREPASS_FILE": str(file)}
    assert load(flags(), variables).settings.text("requirepass") == SECRET
    (tmp_path / "us.toml").write_text(f'requirepass-file = "{file}"\n')
    assert load(flags(), {}, tmp_path / "us.toml").settings.text("requirepass") == SECRET


def test_t21_mistakes_are_told(file: Path, tmp_path: Path) -> None:
    given = {"requirepass_file": str(file)}
    with pytest.raises(ConfigError, match="give --requirepass-file or --requirepass, not both"):
        load(flags(**given, requirepass="x"), {})
    with pytest.raises(ConfigError, match="--requirepass-file: cannot read .*: No such file"):
        load(flags(requirepass_file=str(tmp_path / "none")), {})
    file.write_text("\n")
    with pytest.raises(ConfigError, match="the first line of .* is empty, not a password"):
        load(flags(**given), {})
    file.write_text("x\n")
    file.chmod(0o644)
    (warning,) = [one for one in load(flags(**given), {}).warnings if "password" in one]
    assert f"every user of this machine may read {file}" in warning


def test_t21_commands_take_the_password_from_that_file(file: Path, tmp_path: Path) -> None:
    variables = {"ANABRANCH_REQUIREPASS_FILE": str(file)}
    assert find_password(None, None, variables, None, ["127.0.0.1:1"]) == SECRET
    with pytest.raises(UsageError, match="ANABRANCH_REQUIREPASS_FILE: cannot read"):
        find_password(None, None, {"ANABRANCH_REQUIREPASS_FILE": str(tmp_path / "none")})
    (tmp_path / "us.toml").write_text(f'requirepass-file = "{file}"\n')
    assert from_config(tmp_path / "us.toml") == SECRET


@pytest.mark.parametrize(
    ("words", "hidden"),
    [
        (["serve", "--requirepass", "secret", "--name", "us"], ["secret"]),
        (["serve", "--requirepass=secret"], ["secret"]),
        (["status", "--password", "a b", "--password=c"], ["a b", "c"]),
        (["serve", "--requirepass"], [""]),
        (["serve", "--requirepass-file", "f", "--password-file=f"], []),
    ],
)
def test_t21_where_passwords_are(words: list[str], hidden: list[str]) -> None:
    arguments = b"".join(word.encode() + b"\0" for word in words)
    assert [arguments[first:last].decode() for first, last in places(arguments)] == hidden


@pytest.mark.parametrize("form", [["--requirepass", SECRET], [f"--requirepass={SECRET}"]])
def test_t21_the_argument_is_hidden_from_the_list_of_processes(
    form: list[str], tmp_path: Path
) -> None:
    """`ps` showed the password to every user of the machine."""
    # The process waits for its input, after the command line has begun.
    program = (
        "import sys; from anabranch import __main__; import anabranch.cli.main as main;"
        "main.main = lambda: (print(sys.argv[-1], flush=True), sys.stdin.read());"
        "__main__.main()"
    )
    words = [sys.executable, "-c", program, "serve", *form]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=child_env(), cwd=Path.cwd()
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        told = process.stdout.readline().decode().strip()
        shown = Path(f"/proc/{process.pid}/cmdline").read_bytes()
        process.stdin.close()
    assert told == form[-1], "the process itself has its password"
    assert SECRET.encode() not in shown and b"Sesam" not in shown
    assert b"--requirepass" in shown and b"serve" in shown
