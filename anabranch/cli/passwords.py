"""The password of the regions, from the options, the environment, or the configuration of `up`.

The first source that has a password counts: ``--password`` or ``--password-file``, then
``REDISCLI_AUTH`` (which redis-cli reads, too), then ``ANABRANCH_REQUIREPASS``, then the file that
``ANABRANCH_REQUIREPASS_FILE`` names, then `requirepass` or `requirepass-file` in the configuration
file that `cluster.toml` names.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any, Final, Optional

import typer

from anabranch.cli.addresses import RegionAddress, cluster_path, config_file, read_cluster
from anabranch.cli.errors import CliError, UsageError, WrongPassword
from anabranch.cli.signatures import as_command, option, own_options
from anabranch.region.config import PASSWORD_FILE, read_file
from anabranch.region.environment import variable_of
from anabranch.region.option_values import ConfigError
from anabranch.region.password_file import password_in

VARIABLES: Final = ("REDISCLI_AUTH", "ANABRANCH_REQUIREPASS")
FILE_VARIABLE: Final = variable_of(PASSWORD_FILE)

_FileOption = Annotated[
    Optional[Path],
    typer.Option(
        "--password-file", metavar="FILE", help="File with the password of the regions, as a line."
    ),
]


def from_file(path: Path, where: str = "--password-file") -> str:
    """The first line of a file; UsageError if the file cannot be read or the line is empty."""
    try:
        return password_in(path, where)
    except ConfigError as error:
        raise UsageError(str(error)) from None


def from_config(path: Path) -> str | None:
    """The password of a configuration file; None if it has none or cannot be read.

    A region that asks for a password then says so itself.
    """
    try:
        options = read_file(path)
        if PASSWORD_FILE in options:
            return password_in(Path(str(options[PASSWORD_FILE].value)), PASSWORD_FILE)
    except ConfigError:
        return None
    found = options.get("requirepass")
    return str(found.value) if found is not None else None


def find_password(
    given: str | None,
    file: Path | None,
    environment: Mapping[str, str],
    cluster: Path | None = None,
    at: list[str] | None = None,
) -> str | None:
    """The password for the regions that the options name; None if no source has one."""
    if given is not None and file is not None:
        raise UsageError("give --password or --password-file, not both")
    if given is not None:
        return given or None
    if file is not None:
        return from_file(file)
    for variable in VARIABLES:
        if environment.get(variable):
            return environment[variable]
    if environment.get(FILE_VARIABLE):
        return from_file(Path(environment[FILE_VARIABLE]), FILE_VARIABLE)
    if at:
        return None
    try:
        config = config_file(cluster)
    except CliError:
        # `find` reports the mistake in the cluster file.
        return None
    return (from_config(config) or None) if config is not None else None


def _asked(options: dict[str, Any]) -> dict[str, Any]:
    return {name: options[name] for name in ("cluster", "at", "password")}


def _of_every_region(
    error: WrongPassword, cluster: Path | None, at: list[str] | None, password: str | None
) -> WrongPassword:
    """The error of a command, with every region of the cluster file that refuses the password.

    A command ends at the first one. With ``--at``, `find` has asked all.
    """
    if at:
        return error
    places = read_cluster(cluster_path(cluster)).places
    with ThreadPoolExecutor(max_workers=len(places)) as pool:
        found = list(pool.map(lambda place: _refusal(place, password), places))
    refused = [one for one in found if one is not None]
    return WrongPassword.of_all(refused) if refused else error


def _refusal(place: RegionAddress, password: str | None) -> WrongPassword | None:
    """The error of a region that refuses the password; None of one that takes it or is silent."""
    try:
        with place.client(password) as client:
            client.ping()
    except WrongPassword as error:
        return error
    except CliError:
        return None
    return None


def takes_password(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds ``--password-file`` to a command, and passes it the password found as `password`.

    The command has the parameters `cluster`, `at` and `password`. If a region refuses the password,
    the error names every region that does.
    """

    def run(**options: Any) -> Any:
        file = options.pop("password_file")
        options["password"] = find_password(
            options["password"], file, os.environ, options["cluster"], options["at"]
        )
        try:
            return command(**options)
        except WrongPassword as error:
            raise _of_every_region(error, **_asked(options)) from None

    return as_command(run, command, [*own_options(command), option("password_file", _FileOption)])
