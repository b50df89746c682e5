"""A region's configuration: precedence of the sources, and the message for each mistake."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from anabranch.region.config import load
from anabranch.region.option_values import Address, ConfigError, parse_address, parse_members

DEPLOY = Path(__file__).parents[2] / "deploy"
IDENTITY = {
    "cluster": "c",
    "members": "us=1,eu=2,ap=3",
    "name": "us",
    "resp": "127.0.0.1:7001",
    "sync": "127.0.0.1:7101",
    "peer": ["eu@127.0.0.1:7102", "ap@127.0.0.1:7103"],
    "data": "somewhere",
}


def flags(**changes: Any) -> dict[str, Any]:
    """The flags of IDENTITY with changes; `_` in a name becomes `-`."""
    made: dict[str, Any] = dict(IDENTITY)
    made.update({name.replace("_", "-"): value for name, value in changes.items()})
    return made


def test_what_flags_say() -> None:
    config = load(flags(http="[::1]:7201", restored=True, id_mode="semi-strict"), {})
    assert (config.cluster, config.name, config.region_id, config.restored) == ("c", "us", 1, True)
    assert config.members == {"us": 1, "eu": 2, "ap": 3}
    assert config.peers == {"eu": Address("127.0.0.1", 7102), "ap": Address("127.0.0.1", 7103)}
    assert config.http == Address("::1", 7201) and str(config.http) == "[::1]:7201"
    assert config.settings.text("crdt-xadd-id-uniqueness-mode") == "semi-strict"
    assert config.warnings == []


def test_flags_win_over_environment_over_file_over_defaults(tmp_path: Path) -> None:
    file = tmp_path / "us.toml"
    file.write_text("appendfsync = 'always'\ncrdt_sync_interval_ms = 1\nmaxclients = 10\n")
    environment = {"ANABRANCH_CRDT_SYNC_INTERVAL_MS": "2", "ANABRANCH_MAXCLIENTS": "20"}
    settings = load(flags(maxclients="30"), environment, file).settings
    assert settings.text("appendfsync") == "always"
    assert settings.integer("crdt-sync-interval-ms") == 2
    assert settings.integer("maxclients") == 30
    assert settings.integer("crdt-heartbeat-interval-ms") == 200


def test_everything_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "us.toml"
    file.write_text(
        """
        cluster = "c"
        members = { us = 1, eu = 2 }
        name = "us"
        resp = "127.0.0.1:7001"
        sync = "127.0.0.1:7101"
        peers = ["eu@127.0.0.1:7102"]
        data = "d"
        id-mode = "liberal"
        proto-max-bulk-len = "1mb"
        """
    )
    config = load({}, {"ANABRANCH_CONFIG": str(file)})
    assert config.members == {"us": 1, "eu": 2} and list(config.peers) == ["eu"]
    assert config.settings.text("crdt-xadd-id-uniqueness-mode") == "liberal"
    assert config.settings.integer("proto-max-bulk-len") == 1 << 20


def test_everything_from_the_environment() -> None:
    environment = {
        "ANABRANCH_CLUSTER": "c",
        "ANABRANCH_MEMBERS": "us=1,eu=2,ap=3",
        "ANABRANCH_NAME": "eu",
        "ANABRANCH_RESP": "127.0.0.1:1",
        "ANABRANCH_SYNC": "127.0.0.1:2",
        "ANABRANCH_PEER": "us@127.0.0.1:3, ap@127.0.0.1:4",
        "ANABRANCH_DATA": "d",
        "ANABRANCH_RESTORED": "yes",
        "ANABRANCH_ID_MODE": "liberal",
        "ANABRANCH_PURE": "1",
        "UNRELATED": "x",
    }
    config = load({}, environment)
    assert list(config.peers) == ["us", "ap"] and config.restored
    assert config.settings.text("crdt-xadd-id-uniqueness-mode") == "liberal"


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"members": "us=1,eu"}, "--members must look like us=1,eu=2,ap=3; 'eu' does not"),
        ({"members": "us=1,,eu=2"}, "'' does not"),
        ({"members": "us=0,eu=2"}, "the id of 'us' must be from 1 to 999, not 0"),
        ({"members": "us=1,eu=1000"}, "the id of 'eu' must be from 1 to 999, not 1000"),
        ({"members": "us=1,eu=1"}, "'us' and 'eu' have the same id 1"),
        ({"members": "us=1,us=2"}, "'us' is named twice"),
        (
            {"members": ",".join(f"r{n}={n}" for n in range(1, 18))},
            "17 regions, but a cluster has at most 16",
        ),
        ({"members": "us=one"}, "'us=one' does not"),
        ({"name": "asia"}, "--name: 'asia' is not among the members us=1, eu=2, ap=3"),
        ({"name": None}, "--name is missing"),
        ({"cluster": "a b"}, "a cluster's name"),
        ({"peer": ["nowhere@127.0.0.1:1"]}, "'nowhere' is not among the members"),
        ({"peer": ["us@127.0.0.1:1"]}, "'us' is this region itself"),
        ({"peer": ["eu@127.0.0.1:1", "eu@127.0.0.1:2"]}, "'eu' is named twice"),
        ({"peer": ["127.0.0.1:1"]}, "must look like eu@127.0.0.1:7102"),
        ({"peer": ["eu@127.0.0.1"]}, "must be HOST:PORT"),
        ({"peer": ["eu@127.0.0.1:0"]}, "needs a port above 0"),
        ({"resp": "7001"}, "--resp must be HOST:PORT, such as 127.0.0.1:7001, not '7001'"),
        ({"resp": "127.0.0.1:port"}, "the port must be a number from 0 to 65535, not 'port'"),
        ({"sync": "127.0.0.1:65536"}, "--sync: the port must be a number"),
        ({"sync": "::1:7101"}, "--sync must be HOST:PORT"),
        ({"data": ""}, "--data is empty"),
        (
            {"appendfsync": "sometimes"},
            "--appendfsync: appendfsync must be one of: always, everysec, no",
        ),
        ({"maxclients": "0"}, "maxclients must be between 1"),
        ({"maxclients": "many"}, "must be an integer, not 'many'"),
        ({"databases": "16"}, "--databases: databases cannot be '16': Always 1: a region has one"),
        ({"maxmemory": "100mb"}, "--maxmemory: maxmemory cannot be '100mb': Always 0"),
        ({"maxmemory-policy": "allkeys-lru"}, "maxmemory-policy cannot be 'allkeys-lru'"),
        ({"save": "60 1"}, "save cannot be '60 1': Always empty"),
        ({"appendonly": "no"}, "appendonly cannot be 'no': Always yes"),
        ({"http": "127.0.0.1:7001"}, "--resp and --http both use port 7001: give each its own"),
        ({"http": "0.0.0.0:7101"}, "--sync and --http both use port 7101"),
        ({"sync": "127.0.0.1:7001"}, "--resp and --sync both use port 7001"),
        ({"peer": ["eu@127.0.0.1:7101"]}, "127.0.0.1:7101 is this region's own --sync, not the"),
        (
            {"peer": ["eu@127.0.0.1:9", "ap@127.0.0.1:9"]},
            "--peer: 'eu' and 'ap' have the same address 127.0.0.1:9",
        ),
        ({"id-mode": "loose"}, "must be one of: strict, semi-strict, liberal"),
    ],
)
def test_each_mistake_is_told(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load({**IDENTITY, **changes}, {})
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("apendfsync = 'always'", "unknown key 'apendfsync'; did you mean 'appendfsync'?"),
        ("zzz = 1", "unknown key 'zzz'"),
        ("databases = 16", "databases cannot be '16'"),
        ("maxclients = [1]", "must be text or a number"),
        ("members = { us = 'one' }", "must look like {us = 1"),
        ("cluster = 3", "must be text in quotes, not 3"),
        ("peers = [1]", "must be a list such as"),
        ("restored = 'maybe'", "must be yes or no"),
        (
            "id-mode = 'strict'\ncrdt-xadd-id-uniqueness-mode = 'strict'",
            "given twice, in two spellings",
        ),
        ("cluster = ", "is not valid TOML"),
    ],
)
def test_each_mistake_in_a_file_is_told_with_its_place(
    tmp_path: Path, text: str, told: str
) -> None:
    file = tmp_path / "us.toml"
    file.write_text(text)
    without = {
        name: value
        for name, value in IDENTITY.items()
        if name not in ("members", "cluster", "peer")
    }
    environment = {"ANABRANCH_MEMBERS": "us=1,eu=2", "ANABRANCH_CLUSTER": "c"}
    for name in ("members", "cluster"):
        if text.startswith(name):
            environment.pop(f"ANABRANCH_{name.upper()}")
    with pytest.raises(ConfigError) as caught:
        load(without, environment, file)
    assert told in str(caught.value) and str(file) in str(caught.value)


def test_what_a_region_cannot_honour_is_refused_in_the_environment() -> None:
    """Before, `databases` and `maxmemory` were taken from everywhere, and ignored."""
    with pytest.raises(ConfigError, match="ANABRANCH_MAXMEMORY: maxmemory cannot be '1gb'"):
        load(IDENTITY, {"ANABRANCH_MAXMEMORY": "1gb"})
    harmless = {"ANABRANCH_DATABASES": "1", "ANABRANCH_MAXMEMORY": "0", "ANABRANCH_SAVE": ""}
    assert load(flags(appendonly="YES"), harmless).settings.integer("databases") == 1


def test_equal_ports_on_different_addresses_are_taken() -> None:
    config = load(flags(resp="127.0.0.2:7101", http="127.0.0.3:7101"), {})
    assert config.resp.port == config.sync.port == 7101
    load(flags(resp="127.0.0.1:0", sync="127.0.0.1:0", http="127.0.0.1:0"), {})


def test_a_missing_file_is_told() -> None:
    with pytest.raises(ConfigError, match="cannot read nowhere.toml"):
        load({}, {}, Path("nowhere.toml"))


def test_what_looks_like_a_mistake_is_warned_of() -> None:
    config = load(
        flags(peer=["eu@127.0.0.1:1"]),
        {"ANABRANCH_MAXCLIENT": "5", "ANABRANCH_SERVICE_HOST": "10.0.0.1"},
    )
    assert config.warnings == [
        (
            "ANABRANCH_MAXCLIENT is no option of anabranch and is ignored; "
            "did you mean ANABRANCH_MAXCLIENTS?"
        ),
        "no --peer for ap: their writes arrive only through other regions",
    ]


UNKNOWN = "ANABRANCH_{} is no option of anabranch and is ignored; {}"


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("APENDFSYNC", "did you mean ANABRANCH_APPENDFSYNC?"),
        ("LOG_MAX_BYTES", "did you mean ANABRANCH_CRDT_LOG_MAX_BYTES?"),
        ("CONFIG_FILE", "did you mean ANABRANCH_CONFIG?"),
        ("PASSWORD", "docs/settings.md lists the options"),
        ("PORT", "docs/settings.md lists the options"),
    ],
)
def test_no_unknown_variable_is_passed_over(name: str, advice: str) -> None:
    """Variables that resembled no option were ignored in silence: no password was asked for."""
    variables = {f"ANABRANCH_{name}": "6379"}
    assert load(flags(), variables).warnings[:1] == [UNKNOWN.format(name, advice)]


def test_variables_of_other_programs_are_passed_over() -> None:
    """Kubernetes makes such variables for the services anabranch and anabranch-us."""
    service = {
        "SERVICE_HOST": "10.0.0.1",
        "SERVICE_PORT": "6379",
        "SERVICE_PORT_RESP": "6379",
        "PORT": "tcp://10.0.0.1:6379",
        "PORT_6379_TCP": "tcp://10.0.0.1:6379",
        "PORT_6379_TCP_PROTO": "tcp",
        "PORT_6379_TCP_PORT": "6379",
        "PORT_6379_TCP_ADDR": "10.0.0.1",
    }
    variables = {
        f"ANABRANCH_{part}{name}": text for name, text in service.items() for part in ("", "US_")
    }
    compose = (DEPLOY / "compose.yaml").read_text(encoding="utf-8")
    variables |= dict.fromkeys(re.findall(r"\$\{(ANABRANCH_\w+)", compose), "everysec")
    variables |= {"ANABRANCH_SYNC_TLS": "off", "ANABRANCH_SYNC_INSECURE": "yes"}
    variables |= {"ANABRANCH_PURE": "1", "ANABRANCH_TEST_INSTALLED": "1"}
    peers = ["eu@127.0.0.1:1", "ap@127.0.0.1:2"]
    assert len(variables) > 30 and load(flags(peer=peers), variables).warnings == []


def test_addresses_and_members_alone() -> None:
    assert parse_address("[::1]:6", "x") == Address("::1", 6)
    assert parse_address("host:0", "x") == Address("host", 0)
    assert parse_members(" us=1 , eu=999 ") == {"us": 1, "eu": 999}
