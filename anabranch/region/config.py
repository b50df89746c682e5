"""One region's configuration, from flags, environment, a TOML file and defaults.

Flags override environment variables (``ANABRANCH_…``), which override the TOML file, which
overrides the defaults. Every option has one name, in four spellings: flag
``--crdt-sync-interval-ms``, environment ``ANABRANCH_CRDT_SYNC_INTERVAL_MS``, TOML key
``crdt-sync-interval-ms`` (or with underscores), and, for settings, the name in ``CONFIG GET``.
The options that identify a region are in IDENTITY below, those that change its behaviour in
`region.engine.settings`.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from anabranch.region.address_checks import check_addresses, check_sync
from anabranch.region.engine.settings import BY_NAME, Settings
from anabranch.region.environment import (
    CONFIG_VARIABLE,
    ENVIRONMENT_PREFIX,
    is_foreign,
    variable_of,
    warning,
)
from anabranch.region.option_values import (
    Address,
    ConfigError,
    add_member,
    limited,
    listed_members,
    parse_address,
    parse_members,
    valid_name,
)
from anabranch.region.password_file import is_open, password_in

# Short names of settings.
ALIASES: Final = {"id-mode": "crdt-xadd-id-uniqueness-mode"}

# The options that identify a region: name → description. `peer` may be given several times (a
# list in TOML, separated by commas in the environment).
IDENTITY: Final = {
    "cluster": "Name of the cluster; regions of another cluster are refused.",
    "members": (
        "All regions and their ids, the same in every region: us=1,eu=2,ap=3. "
        "Kept on disk from the first start on; later starts must give the same."
    ),
    "name": "Name of this region, one of the members.",
    "resp": "HOST:PORT where Redis clients connect.",
    "sync": "HOST:PORT where other regions connect.",
    "http": "HOST:PORT that serves /metrics, /health and /ready; if not given, none is served.",
    "peer": "NAME@HOST:PORT of a region to receive from; give one for each such region.",
    "data": "Directory of this region's data.",
    "restored": (
        "This region's files were restored from a backup: "
        "recover from the peers before writing (docs/operations-repair.md)."
    ),
    "moved": (
        "This region's files were moved here, and are not older than they were: "
        "do not take them for restored ones (docs/operations-repair.md)."
    ),
    "first-start": (
        "This is the first start of a new cluster: if the directory is empty, do not wait until "
        "every member has answered (docs/operations-run.md)."
    ),
}

# The option that names the file of the setting ``requirepass``.
PASSWORD_FILE: Final = "requirepass-file"
PASSWORD_FILE_TEXT: Final = (
    "File whose first line is requirepass, which then is not in the list of processes."
)

# Those of IDENTITY that are given without a value.
FLAGS: Final = frozenset({"restored", "moved", "first-start"})

_TRUE: Final = frozenset({"1", "yes", "true", "on"})
_FALSE: Final = frozenset({"0", "no", "false", "off", ""})


class RegionConfig:
    """The configuration with which `region.live.serving.run` serves one region."""

    def __init__(
        self,
        *,
        cluster: str,
        members: dict[str, int],
        name: str,
        resp: Address,
        sync: Address,
        http: Address | None,
        peers: dict[str, Address],
        data: Path,
        restored: bool,
        moved: bool = False,
        first_start: bool = False,
        settings: Settings,
        warnings: list[str] | None = None,
    ) -> None:
        self.cluster: Final = cluster
        # Region name → region_id, this region included (S1.1).
        self.members: Final = members
        self.name: Final = name
        self.region_id: Final = members[name]
        self.resp: Final = resp
        self.sync: Final = sync
        self.http: Final = http
        # Name of a region to receive from → address to dial.
        self.peers: Final = peers
        self.data: Final = data
        self.restored: Final = restored
        self.moved: Final = moved
        self.first_start: Final = first_start
        self.settings: Final = settings
        # Likely mistakes that do not prevent the start. The caller prints each once.
        self.warnings: Final = warnings or []


class Found:
    """One option's value with its source, which error messages name."""

    def __init__(self, value: Any, where: str) -> None:
        self.value = value
        self.where = where


def load(
    flags: Mapping[str, Any], environment: Mapping[str, str], file: Path | None = None
) -> RegionConfig:
    """Merges the sources into one configuration.

    `flags` maps option names to text (a list for ``peer``, a bool for FLAGS); None means
    not given. `file` is a TOML file; if it is None, ``ANABRANCH_CONFIG`` may name one.

    Raises:
        ConfigError: An option is missing, unknown or wrong, or the file cannot be read.
    """
    found: dict[str, Found] = {}
    warnings: list[str] = []
    if file is None and environment.get(CONFIG_VARIABLE):
        file = Path(environment[CONFIG_VARIABLE])
    if file is not None:
        found.update(read_file(file))
    found.update(_read_environment(environment, warnings))
    for name, value in flags.items():
        if value is not None and value != [] and value is not False:
            found[ALIASES.get(name, name)] = Found(value, f"--{name}")
    return _build(found, warnings)


def known_options() -> list[str]:
    """Names of all options, as flags without the leading dashes."""
    return [*IDENTITY, *ALIASES, PASSWORD_FILE, *BY_NAME]


def read_file(file: Path) -> dict[str, Found]:
    """The options of a TOML file, by name.

    Raises:
        ConfigError: The file cannot be read or parsed, or has an unknown key (the error names the
            nearest known key).
    """
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"cannot read {file}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} is not valid TOML: {error}") from None
    found: dict[str, Found] = {}
    for key, value in table.items():
        name = key.replace("_", "-")
        name = "peer" if name == "peers" else ALIASES.get(name, name)
        if not _is_option(name):
            raise ConfigError(f"{file}: unknown key '{key}'{_nearest(name)}")
        if name in found:
            raise ConfigError(f"{file}: '{key}' is given twice, in two spellings")
        found[name] = Found(value, f"{file}: {key}")
    return found


def _is_option(name: str) -> bool:
    return name in IDENTITY or name in BY_NAME or name == PASSWORD_FILE


def _nearest(name: str) -> str:
    near = difflib.get_close_matches(name, [*known_options(), "peers"], 1, 0.5)
    return f"; did you mean '{near[0]}'?" if near else ""


def _read_environment(environment: Mapping[str, str], warnings: list[str]) -> dict[str, Found]:
    found: dict[str, Found] = {}
    for variable, text in environment.items():
        if not variable.startswith(ENVIRONMENT_PREFIX) or variable == CONFIG_VARIABLE:
            continue
        name = variable.removeprefix(ENVIRONMENT_PREFIX).lower().replace("_", "-")
        name = "peer" if name == "peers" else ALIASES.get(name, name)
        if _is_option(name):
            found[name] = Found(text, variable)
        elif not is_foreign(variable, text):
            warnings.append(warning(variable, known_options()))
    return found


def _build(found: dict[str, Found], warnings: list[str]) -> RegionConfig:
    cluster = _text(found, "cluster")
    if not valid_name(cluster):
        raise ConfigError(
            f"{found['cluster'].where}: a cluster's name has 1 to 64 letters, digits, "
            f"'-', '_' or '.', not '{cluster}'"
        )
    members = _members(found)
    name = _text(found, "name")
    if name not in members:
        raise ConfigError(
            f"{found['name'].where}: '{name}' is not among the members {listed_members(members)}"
        )
    peers = _peers(found, members, name)
    missing = [other for other in members if other != name and other not in peers]
    if missing and peers:
        warnings.append(
            f"no --peer for {', '.join(missing)}: their writes arrive only through other regions"
        )
    elif missing:
        warnings.append("no --peer at all: this region receives nothing from others")
    if _flag(found.get("restored")) and _flag(found.get("moved")):
        raise ConfigError(
            f"{found['restored'].where} and {found['moved'].where} exclude each other: files that"
            " were moved are not older than they were"
        )
    own = {
        option: parse_address(_text(found, option), _where(found, option))
        for option in ("resp", "sync", "http")
        if option != "http" or option in found
    }
    check_addresses(partial(_where, found), own, peers)
    settings = _settings(_with_password(found, warnings))
    check_sync(_where(found, "sync"), own["sync"], settings)
    return RegionConfig(
        cluster=cluster,
        members=members,
        name=name,
        resp=own["resp"],
        sync=own["sync"],
        http=own.get("http"),
        peers=peers,
        data=Path(_text(found, "data")),
        restored=_flag(found.get("restored")),
        moved=_flag(found.get("moved")),
        first_start=_flag(found.get("first-start")),
        settings=settings,
        warnings=warnings,
    )


def _where(found: dict[str, Found], name: str) -> str:
    return found[name].where if name in found else f"--{name}"


def _text(found: dict[str, Found], name: str) -> str:
    if name not in found:
        raise ConfigError(
            f"--{name} is missing (or '{name}' in the TOML file, or {variable_of(name)})."
            f" {IDENTITY[name]}"
        )
    value = found[name].value
    if not isinstance(value, str):
        raise ConfigError(f"{found[name].where} must be text in quotes, not {value!r}")
    if not value:
        raise ConfigError(f"{found[name].where} is empty. {IDENTITY.get(name, PASSWORD_FILE_TEXT)}")
    return value


def _members(found: dict[str, Found]) -> dict[str, int]:
    if "members" in found and isinstance(found["members"].value, dict):
        where, table = found["members"].where, found["members"].value
        members: dict[str, int] = {}
        for name, region_id in table.items():
            if (
                not valid_name(name)
                or not isinstance(region_id, int)
                or isinstance(region_id, bool)
            ):
                raise ConfigError(
                    f"{where} must look like {{us = 1, eu = 2, ap = 3}}; "
                    f"'{name} = {region_id!r}' does not"
                )
            add_member(members, name, region_id, where)
        return limited(members, where)
    return parse_members(_text(found, "members"), _where(found, "members"))


def _peers(found: dict[str, Found], members: dict[str, int], own: str) -> dict[str, Address]:
    if "peer" not in found:
        return {}
    where, value = found["peer"].where, found["peer"].value
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
        raise ConfigError(f"{where} must be a list such as ['eu@127.0.0.1:7102'], not {value!r}")
    peers: dict[str, Address] = {}
    for part in (part.strip() for part in parts):
        name, at, address = part.partition("@")
        if not at or not name:
            raise ConfigError(f"{where} must look like eu@127.0.0.1:7102, not '{part}'")
        if name == own:
            raise ConfigError(f"{where}: '{name}' is this region itself; name only others")
        if name not in members:
            raise ConfigError(
                f"{where}: '{name}' is not among the members {listed_members(members)}"
            )
        if name in peers:
            raise ConfigError(f"{where}: '{name}' is named twice")
        peers[name] = parse_address(address, f"{where}: the address of '{name}'")
        if peers[name].port == 0:
            raise ConfigError(f"{where}: the address of '{name}' needs a port above 0")
    return peers


def _flag(found: Found | None) -> bool:
    if found is None:
        return False
    text = str(found.value).lower()
    if text not in _TRUE | _FALSE:
        raise ConfigError(f"{found.where} must be yes or no, not '{found.value}'")
    return text in _TRUE


def _with_password(found: dict[str, Found], warnings: list[str]) -> dict[str, Found]:
    """The options with the password that a file holds."""
    if PASSWORD_FILE not in found:
        return found
    file = Path(_text(found, PASSWORD_FILE))
    where = found[PASSWORD_FILE].where
    if "requirepass" in found:
        raise ConfigError(f"give {where} or {found['requirepass'].where}, not both")
    password = password_in(file, where)
    if is_open(file):
        warnings.append(f"every user of this machine may read {file}: `chmod go= {file}`")
    return {**found, "requirepass": Found(password, where)}


def _settings(found: dict[str, Found]) -> Settings:
    settings = Settings()
    for name, one in found.items():
        if name not in BY_NAME:
            continue
        if isinstance(one.value, bool):
            text = "yes" if one.value else "no"
        elif isinstance(one.value, (str, int)):
            text = str(one.value)
        else:
            raise ConfigError(f"{one.where} must be text or a number, not {one.value!r}")
        try:
            settings.set(name, text)
        except ValueError as error:
            raise ConfigError(f"{one.where}: {error}") from None
    return settings
