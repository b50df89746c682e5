"""Settings are what their page says, and what is set is noticed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from anabranch.region.engine.settings import BY_NAME, Settings

PAGE = Path(__file__).resolve().parents[2] / "docs" / "settings.md"
UNITS = {"": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30}


def size(text: str) -> int:
    number, unit = re.fullmatch(r"(-?\d+)([a-z]*)", text).groups()  # type: ignore[union-attr]
    return int(number) * UNITS[unit]


ROWS = {
    cells[0].strip("`"): cells[1:4]
    for cells in (
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in PAGE.read_text(encoding="utf-8").splitlines()
    )
    if len(cells) == 6 and cells[0].strip("`") in BY_NAME
}


def test_the_page_has_them_all() -> None:
    assert list(ROWS) == list(BY_NAME)


@pytest.mark.parametrize(
    "name", [name for name, (_, takes, _) in ROWS.items() if re.match(r"(number|bytes),", takes)]
)
def test_numbers(name: str) -> None:
    default, takes, _ = ROWS[name]
    settings = Settings()
    assert settings.integer(name) == size(default)
    matched = re.fullmatch(r"(number|bytes), (-?\w+) (?:to (\w+)|or more)", takes)
    assert matched is not None
    kind, least, most = matched.groups()
    settings.set(name, str(size(least)))
    assert settings.integer(name) == size(least)
    outside = [size(least) - 1] + ([size(most) + 1] if most else [])
    for wrong in outside:
        with pytest.raises(
            ValueError, match="between" if wrong >= 0 or kind == "number" else "between|memory size"
        ):
            settings.set(name, str(wrong))
    if kind == "bytes":
        settings.set(name, "2kb")
        assert settings.integer(name) == 2048
    else:
        with pytest.raises(ValueError, match="integer"):
            settings.set(name, "2kb")


@pytest.mark.parametrize("wrong", ["", "-", "1_000", " 5", "5 ", "+5", "٥", "5.0", "9" * 5000])
@pytest.mark.parametrize("name", ["maxclients", "crdt-log-max-bytes"])
def test_a_number_is_digits_only(name: str, wrong: str) -> None:
    settings = Settings()
    with pytest.raises(ValueError, match="must be an integer|must be a memory size"):
        settings.set(name, wrong)


@pytest.mark.parametrize("wrong", ["kb", "5bb", "5tb", "1_000kb", " 5kb", "5 kb", "-5kb"])
def test_a_size_is_digits_and_a_unit(wrong: str) -> None:
    settings = Settings()
    with pytest.raises(ValueError, match="must be a memory size"):
        settings.set("crdt-log-max-bytes", wrong)
    settings.set("crdt-log-max-bytes", "5KB")
    assert settings.integer("crdt-log-max-bytes") == 5 << 10


@pytest.mark.parametrize(
    "name", [name for name, (_, takes, _) in ROWS.items() if takes.startswith("`")]
)
def test_choices(name: str) -> None:
    default, takes, _ = ROWS[name]
    settings = Settings()
    assert settings.text(name) == default
    for choice in re.findall(r"`([^`]+)`", takes):
        settings.set(name, choice.upper())
        assert settings.text(name) == choice
    with pytest.raises(ValueError, match="one of"):
        settings.set(name, "sometimes")


# These are read when the region starts, or never change.
READ_ONCE = {
    "crdt-log-tail-max-bytes",
    "crdt-tape-max-bytes",
    "crdt-slice-max-bytes",
    "crdt-reconnect-min-ms",
    "crdt-reconnect-max-ms",
    "crdt-start-patience-ms",
    "crdt-clock-offset-ms",
    "crdt-clock-offset-max-ms",
    "enable-debug-command",
    "sync-insecure",
    "log-format",
}


def test_the_page_says_what_changes_at_run_time() -> None:
    """Before, CONFIG SET took the settings that only a start reads, without any effect."""
    fixed = {name for name, setting in BY_NAME.items() if setting.fixed}
    assert fixed == {"appendonly", "save", "databases", "maxmemory", "maxmemory-policy"}
    assert {name for name, row in ROWS.items() if row[2] == "no"} == fixed | READ_ONCE
    assert {name for name, row in ROWS.items() if row[1] == "only this value"} == fixed


def test_no_keep_alive_time_that_linux_refuses() -> None:
    with pytest.raises(ValueError, match="between 0 and 32767, not 32768"):
        BY_NAME["tcp-keepalive"].parse("32768")


def test_a_setting_with_one_value_takes_no_other() -> None:
    settings = Settings()
    settings.set("maxmemory", "0")
    settings.set("maxmemory-policy", "NoEviction")
    assert settings.text("maxmemory-policy") == "noeviction"
    for name, wrong in (("maxmemory", "1"), ("databases", "0"), ("save", "900 1")):
        with pytest.raises(ValueError, match=f"{name} cannot be '{wrong}': Always"):
            settings.set(name, wrong)


def test_changes_are_counted() -> None:
    """Hot paths keep copies of what they need until the count has moved."""
    settings = Settings()
    before = settings.changes
    settings.set("maxclients", "7")
    assert settings.changes > before
    with pytest.raises(KeyError):
        settings.set("maxclient", "7")
