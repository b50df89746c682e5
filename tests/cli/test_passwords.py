"""Where commands find the password of the regions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from anabranch.cli import main
from anabranch.cli.addresses import RegionAddress, write_file
from anabranch.cli.errors import UsageError
from anabranch.cli.passwords import find_password


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    """A cluster file whose configuration has a password."""
    (tmp_path / "settings.toml").write_text("requirepass = 'of the config'\n")
    places = [RegionAddress("us", 1, "127.0.0.1:1")]
    write_file(tmp_path / "cluster.toml", "local", places, tmp_path / "settings.toml")
    return tmp_path


def test_the_first_source_counts(cluster: Path, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("of the file\r\nsecond line\n")
    environment = {"REDISCLI_AUTH": "of redis", "ANABRANCH_REQUIREPASS": "of anabranch"}
    assert find_password("given", None, environment, cluster) == "given"
    assert find_password(None, file, environment, cluster) == "of the file"
    assert find_password(None, None, environment, cluster) == "of redis"
    del environment["REDISCLI_AUTH"]
    assert find_password(None, None, environment, cluster) == "of anabranch"
    assert find_password(None, None, {"REDISCLI_AUTH": ""}, cluster) == "of the config"
    assert find_password("", None, environment, cluster) is None


def test_addresses_alone_have_no_configuration(cluster: Path) -> None:
    assert find_password(None, None, {}, cluster, ["127.0.0.1:1"]) is None


def test_the_cluster_file_has_the_path_and_not_the_password(cluster: Path) -> None:
    text = (cluster / "cluster.toml").read_text()
    assert str(cluster / "settings.toml") in text and "of the config" not in text


def test_a_configuration_that_is_gone_gives_no_password(cluster: Path) -> None:
    """A region that asks for one then says so itself."""
    (cluster / "settings.toml").unlink()
    assert find_password(None, None, {}, cluster) is None
    assert find_password(None, None, {}, cluster / "nowhere") is None


def commands(command: Any, name: str = "anabranch") -> Iterator[tuple[str, set[str]]]:
    """(name, parameters) of a command and of all commands below it."""
    yield name, {parameter.name for parameter in command.params}
    for below, one in getattr(command, "commands", {}).items():
        yield from commands(one, f"{name} {below}")


def test_every_command_that_asks_regions_takes_the_password_from_all_sources() -> None:
    """A new command needs `takes_password` in `cli.main`."""
    found = dict(commands(get_command(main.application())))
    asking = {name for name, parameters in found.items() if "password" in parameters}
    assert asking >= {"anabranch status", "anabranch link cut", "anabranch member lost"}
    assert [name for name in found if {"at"} <= found[name] and name not in asking] == []
    assert [name for name in asking if "password_file" not in found[name]] == []


def test_mistakes_are_told(cluster: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="give --password or --password-file, not both"):
        find_password("given", tmp_path / "password", {}, cluster)
    with pytest.raises(UsageError, match=r"--password-file: cannot read .*nowhere: No such file"):
        find_password(None, tmp_path / "nowhere", {}, cluster)
    (tmp_path / "empty").write_text("\n")
    with pytest.raises(UsageError, match="is empty, not a password"):
        find_password(None, tmp_path / "empty", {}, cluster)
