"""`anabranch check`, `backup`, `restore` and `repair` on real data directories."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from anabranch import build
from anabranch.cli import data as cli_data
from anabranch.cli.errors import CliError
from anabranch.cli.main import application
from anabranch.region.engine.errors import Damaged
from anabranch.region.engine.lifecycle import RECOVERY
from anabranch.region.live import inspection
from anabranch.region.live.data_files import MARK_NAME
from anabranch.region.live.database import FILE_NAME
from anabranch.region.live.inspection import Inspection, inspect
from anabranch.region.storage import schema
from tests.storage.test_data_files import run_once
from tests.support.cluster import child_env
from tests.support.terminal import run_in_terminal


def anabranch(*words: object) -> Result:
    return CliRunner().invoke(application(), [str(word) for word in words])


def message_of(result: Result) -> str:
    assert isinstance(result.exception, CliError), result.output
    return str(result.exception)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The data directory of a stopped region us with three entries."""
    directory = tmp_path / "us"
    asyncio.run(run_once(directory))
    return directory


def flip(file: Path, place: int) -> None:
    found = bytearray(file.read_bytes())
    found[place] ^= 4
    file.write_bytes(found)


def damaged_in_a_key(data: Path) -> None:
    with closing(sqlite3.connect(data / FILE_NAME)) as database, database:
        database.execute("UPDATE part SET body = body || x'00'")


def flip_in(file: Path, text: bytes) -> None:
    """Flips a bit in the first occurrence of `text`."""
    flip(file, file.read_bytes().index(text))


@pytest.mark.parametrize("command", ["check", "repair"])
def test_a_directory_that_is_no_region_s_stays_as_it_is(tmp_path: Path, command: str) -> None:
    """The lock of a region was left in it."""
    assert f"there is no {FILE_NAME}" in message_of(anabranch(command, tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_a_sound_directory(data: Path) -> None:
    before = (data / FILE_NAME).read_bytes()
    result = anabranch("check", data)
    assert result.exit_code == 0
    assert "is sound: region us of cluster tiny, 1 key, 3 entries" in result.output
    assert (data / FILE_NAME).read_bytes() == before


def test_a_directory_of_any_name(tmp_path: Path) -> None:
    """SQLite takes ``#``, ``?`` and ``%`` in a URI for something else than a part of the path."""
    directory = tmp_path / "a?b#c%41" / "us"
    asyncio.run(run_once(directory))
    assert "is sound" in anabranch("check", directory).output
    assert anabranch("backup", "us", tmp_path / "copy", "--data", directory).exit_code == 0


def test_a_directory_whose_name_is_not_utf_8(tmp_path: Path) -> None:
    """Its start, and a backup, once ended with a traceback."""
    directory = tmp_path / os.fsdecode(b"\xff") / "us"
    asyncio.run(run_once(directory))
    assert asyncio.run(inspection.inspect(directory)).findings == []
    inspected = asyncio.run(inspection.back_up(directory, tmp_path / "copy"))
    assert inspected.findings == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to others")
def test_root_leaves_files_to_the_owner_of_the_directory(data: Path, tmp_path: Path) -> None:
    """A service starts as a user of its own, and could not open what root had put back."""
    file, elsewhere = tmp_path / "us.backup", tmp_path / "elsewhere"
    assert anabranch("backup", "us", file, "--data", data).exit_code == 0
    elsewhere.mkdir()
    os.chown(elsewhere, 12345, 23456)
    assert anabranch("restore", file, "--data", elsewhere).exit_code == 0
    flip_in(elsewhere / FILE_NAME, b"CREATE TABLE")
    assert anabranch("repair", elsewhere, "--yes").exit_code == 0
    found = sorted(elsewhere.rglob("*"))
    assert any(one.name.startswith("damaged-") for one in found)
    assert {(one.stat().st_uid, one.stat().st_gid) for one in found} == {(12345, 23456)}


def test_damage_is_named(data: Path) -> None:
    flip_in(data / FILE_NAME, b"CREATE TABLE")
    assert "is damaged" in message_of(anabranch("check", data))


def test_json_of_a_check(data: Path) -> None:
    """A program that checks directories had to read sentences."""
    sound = anabranch("check", data, "--json")
    told = json.loads(sound.output)
    assert sound.exit_code == 0 and told["problems"] == []
    assert (told["region"], told["keys"], told["entries"]) == ("us", 1, 3)
    flip_in(data / FILE_NAME, b"CREATE TABLE")
    damaged = anabranch("check", data, "--json")
    assert damaged.exit_code == 1 and json.loads(damaged.output)["problems"]
    repaired = json.loads(anabranch("repair", data, "--yes", "--json").output)
    assert repaired["waits_for_start"] and Path(repaired["moved_to"]).is_dir()
    assert repaired["problems"] == json.loads(damaged.output)["problems"]


def test_gaps_of_the_log_are_problems_in_json_too(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The JSON left them out, and `check --json` ended with 0."""

    def with_gap(directory: Path) -> Inspection:
        found = asyncio.run(inspect(directory))
        found.gaps.append("the effects 4 to 6 of us before row 9 of the log are in no row")
        return found

    monkeypatch.setattr(cli_data, "run_inspect", with_gap)
    told = anabranch("check", data, "--json")
    assert told.exit_code == 1
    assert json.loads(told.output)["problems"] == [
        "the effects 4 to 6 of us before row 9 of the log are in no row"
    ]


def test_a_region_that_is_damaged_does_not_start(data: Path) -> None:
    """It names the command that helps."""
    flip_in(data / FILE_NAME, b"us=1,eu=2")
    with pytest.raises(Exception, match="the row 'members' of the table meta is damaged"):
        asyncio.run(run_once(data))


def test_an_older_file_is_named(data: Path) -> None:
    (data / MARK_NAME).unlink()
    older = (data / FILE_NAME).read_bytes()
    asyncio.run(run_once(data))
    (data / FILE_NAME).write_bytes(older)
    assert "was once on disk" in message_of(anabranch("check", data))


def test_a_directory_without_a_database(tmp_path: Path) -> None:
    assert "there is no region.sqlite" in message_of(anabranch("check", tmp_path))
    assert "no directory" in message_of(anabranch("check", tmp_path / "nowhere"))


def test_a_backup_is_made_checked_and_restored(data: Path, tmp_path: Path) -> None:
    file, elsewhere = tmp_path / "us.backup", tmp_path / "elsewhere"
    result = anabranch("backup", "us", file, "--data", data)
    assert result.exit_code == 0 and "3 entries" in result.output
    assert [one.name for one in tmp_path.iterdir() if one.name.startswith(".")] == []
    told = json.loads(anabranch("backup", "us", tmp_path / "2", "--data", data, "--json").output)
    assert told["bytes"] == (tmp_path / "2").stat().st_size and told["file"] == str(tmp_path / "2")
    assert (told["region"], told["entries"], told["problems"]) == ("us", 3, [])
    assert "exists already" in message_of(anabranch("backup", "us", file, "--data", data))
    assert "has a database already" in message_of(anabranch("restore", file, "--data", data))
    other = anabranch("backup", "eu", tmp_path / "eu.backup", "--data", data)
    assert f"{data} holds the data of us, not of eu" in message_of(other)
    assert isinstance(other.exception, CliError)
    assert other.exception.exit_code == 2 and not (tmp_path / "eu.backup").exists()
    again = json.loads(anabranch("restore", file, "--data", tmp_path / "3", "--json").output)
    assert (again["directory"], again["region"]) == (str(tmp_path / "3"), "us")
    result = anabranch("restore", file, "--data", elsewhere)
    assert result.exit_code == 0 and "recovers from the other regions" in result.output
    for moved in (True, False):
        state, cause = asyncio.run(run_once(elsewhere, moved=moved))
        assert state == RECOVERY, "--moved does not excuse a restore"
    assert cause == "a recovery that began before this start"


def backed_up_in_a_terminal(data: Path, file: Path) -> str:
    """What `anabranch backup` writes into a terminal."""
    line = [*build.command(), "backup", "us", str(file), "--data", str(data)]
    code, output = run_in_terminal(line, child_env())
    assert code == 0, output
    return output


def test_a_backup_tells_its_progress_in_a_terminal_only(data: Path, tmp_path: Path) -> None:
    shown = backed_up_in_a_terminal(data, tmp_path / "one")
    assert re.search(r"\rcopying us: [\d,]+ of [\d,]+ bytes, \d+ %", shown), shown
    assert re.search(r"\r +\r\S*one: [\d,]+ bytes", shown), "the line is taken away"
    line = [*build.command(), "backup", "us", str(tmp_path / "two"), "--data", str(data)]
    piped = subprocess.run(line, capture_output=True, text=True, env=child_env(), check=True)
    assert piped.stderr == "" and "copying" not in piped.stdout


def test_a_damaged_backup_is_refused_and_leaves_nothing(data: Path, tmp_path: Path) -> None:
    file, elsewhere = tmp_path / "us.backup", tmp_path / "elsewhere"
    assert anabranch("backup", "us", file, "--data", data).exit_code == 0
    flip_in(file, b"us=1,eu=2")
    assert "damaged" in message_of(anabranch("restore", file, "--data", elsewhere))
    assert not (elsewhere / FILE_NAME).exists()
    assert "no file" in message_of(anabranch("restore", tmp_path / "none", "--data", elsewhere))
    text = tmp_path / "text"
    text.write_text("no database")
    for new in (elsewhere, tmp_path / "not" / "yet"):
        message = message_of(anabranch("restore", text, "--data", new))
        assert f"{text}: file is not a database" in message
        assert ".restore-" not in message
        assert not new.exists()
    assert not (tmp_path / "not").exists()
    with closing(sqlite3.connect(tmp_path / "other")) as database, database:
        database.execute("CREATE TABLE meta (name TEXT, value BLOB, sum INTEGER)")
    message = message_of(anabranch("restore", tmp_path / "other", "--data", elsewhere))
    assert message == f"{tmp_path / 'other'} is not the database of a region"


def test_a_restore_that_fails_leaves_a_directory_that_was_there(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no database")
    (tmp_path / "there").mkdir()
    message_of(anabranch("restore", tmp_path / "text", "--data", tmp_path / "there"))
    assert (tmp_path / "there").is_dir()


def test_a_backup_into_no_directory(data: Path, tmp_path: Path) -> None:
    """The error named a temporary directory, with ``[Errno 2]``."""
    message = message_of(anabranch("backup", "us", tmp_path / "no" / "file", "--data", data))
    assert message == f"there is no directory {tmp_path / 'no'} for the backup"


@pytest.mark.parametrize(("key", "text"), [(b"orders", "orders"), (b"a\x1b\xff", "a\\x1b\\xff")])
def test_a_damaged_key_is_shown_as_in_other_commands(data: Path, key: bytes, text: str) -> None:
    """It was a literal of Python, such as ``b'orders'``."""
    with closing(sqlite3.connect(data / FILE_NAME)) as database, database:
        found = database.execute("UPDATE key_state SET key = ?", (key,)).rowcount
        database.execute("DELETE FROM part")
    assert found == 1
    assert f"the checkpoint of key {text} is damaged" in message_of(anabranch("check", data))


def test_a_backup_of_a_damaged_region_is_refused(data: Path, tmp_path: Path) -> None:
    flip_in(data / FILE_NAME, b"us=1,eu=2")
    file = tmp_path / "us.backup"
    message = message_of(anabranch("backup", "us", file, "--data", data))
    assert "damaged" in message and ".backup-" not in message
    assert not file.exists()


def test_repair_moves_damage_aside_and_the_next_start_recovers(data: Path) -> None:
    assert "nothing to repair" in anabranch("repair", data).output
    flip_in(data / FILE_NAME, b"us=1,eu=2")
    assert isinstance(anabranch("repair", data).exception, SystemExit), "no answer, no repair"
    result = anabranch("repair", data, "--yes")
    assert result.exit_code == 0, result.output
    (aside,) = data.glob("damaged-*")
    assert (aside / FILE_NAME).exists() and not (data / FILE_NAME).exists()
    state, cause = asyncio.run(run_once(data))
    assert state == RECOVERY and "was once on disk" in cause


def test_a_value_whose_type_changed_is_damage(data: Path) -> None:
    """A flipped bit in the head of a row turned a blob into text, which could not be decoded.

    It was taken for a file that cannot be read, so `repair` refused.
    """
    with closing(sqlite3.connect(data / FILE_NAME)) as database, database:
        database.execute("UPDATE part SET body = CAST(x'ff00' AS TEXT)")
    assert "is damaged" in message_of(anabranch("check", data))
    with pytest.raises(Damaged):
        asyncio.run(run_once(data))
    assert anabranch("repair", data, "--yes").exit_code == 0


def test_a_damaged_salvage_is_found(data: Path) -> None:
    """It counts like the log: `check` names it, and the next repair keeps what is sound of it."""
    asyncio.run(run_once(data))
    damaged_in_a_key(data)
    assert "effects of its own up to 6; 0 blocks" in anabranch("repair", data, "--yes").output
    assert "is sound" in anabranch("check", data).output
    with closing(sqlite3.connect(data / FILE_NAME)) as database, database:
        database.execute("UPDATE salvage SET chain = x'00' WHERE position = 1")
    assert "row 1 of the salvage is damaged" in message_of(anabranch("check", data))
    again = anabranch("repair", data, "--yes").output
    assert "0 sound blocks of its effect log and " in again
    assert "that a former repair had kept" in again
    assert "up to 6; 1 block of the log cannot be read" in again


def salvage_of(directory: Path) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(directory / FILE_NAME)) as database:
        return database.execute("SELECT position, origin, last, body FROM salvage").fetchall()


def _yes(command: str) -> list[str]:
    return ["--yes"] if command == "repair" else []


def test_a_repaired_directory_waits_for_its_start(data: Path) -> None:
    """It was called damaged, because the mark of the damaged file lay after the end of its log."""
    damaged_in_a_key(data)
    first = anabranch("repair", data, "--yes").output
    kept = salvage_of(data)
    blocks = len([row for row in kept if row[3]])
    assert f"{blocks} sound block" in first and "up to 3;" in first
    for command in ("check", "repair"):
        told = json.loads(anabranch(command, data, "--json", *_yes(command)).output)
        assert told["waits_for_start"] and told["problems"] == []
        result = anabranch(command, data)
        assert result.exit_code == 0, result.output
        assert f"was repaired and waits for its start: {blocks} block" in result.output
        assert "effects of its own up to 3." in result.output
        assert "damaged" not in result.output
    assert salvage_of(data) == kept and len(list(data.glob("damaged-*"))) == 1
    state, _ = asyncio.run(run_once(data))
    assert state == RECOVERY
    result = anabranch("check", data)
    assert result.exit_code == 0 and "waits for its start" not in result.output


def test_a_second_repair_counts_what_the_first_one_kept(data: Path) -> None:
    damaged_in_a_key(data)
    anabranch("repair", data, "--yes")
    kept = salvage_of(data)
    with closing(sqlite3.connect(data / FILE_NAME)) as database, database:
        database.execute("UPDATE meta SET value = '7' WHERE name = 'restored'")
    assert "the row 'restored'" in message_of(anabranch("check", data))
    again = anabranch("repair", data, "--yes").output
    assert f"0 sound blocks of its effect log and {len(kept)} that a former repair" in again
    assert "up to 3; 0 blocks of the log cannot be read" in again
    assert [row[1:] for row in salvage_of(data)] == [row[1:] for row in kept]


def test_a_repaired_directory_excuses_no_older_file(data: Path) -> None:
    """An older copy that takes the place of the rebuilt database is told by the mark."""
    (data / MARK_NAME).unlink()
    older = (data / FILE_NAME).read_bytes()
    asyncio.run(run_once(data))
    damaged_in_a_key(data)
    anabranch("repair", data, "--yes")
    (data / FILE_NAME).write_bytes(older)
    assert "was once on disk" in message_of(anabranch("check", data))


def test_a_database_of_a_build_without_salvage_is_read(data: Path) -> None:
    with closing(sqlite3.connect(data / FILE_NAME)) as database, database:
        database.execute("DROP TABLE salvage")
    assert anabranch("check", data).exit_code == 0
    assert asyncio.run(run_once(data))[0] != RECOVERY


def test_a_rebuilt_region_still_knows_who_is_lost(tmp_path: Path) -> None:
    """Otherwise its recovery would wait for a region that is gone for good (S13.8)."""
    data, members = tmp_path / "us", {"us": 1, "eu": 2, "ap": 3}
    asyncio.run(run_once(data, members=members))
    with closing(sqlite3.connect(data / FILE_NAME)) as database, database:
        database.execute(*schema.meta("lost", b"2"))
        database.execute("UPDATE log SET clock_ms = clock_ms + 1")
    assert anabranch("repair", data, "--yes").exit_code == 0
    with closing(sqlite3.connect(data / FILE_NAME)) as database:
        kept = dict(database.execute("SELECT name, value FROM meta"))
        assert database.execute("SELECT COUNT(*) FROM log").fetchone() == (0,)
    assert kept["lost"] == b"2" and kept["name"] == b"us"
    state, cause = asyncio.run(run_once(data, members=members))
    assert state == RECOVERY and "rebuilt with `anabranch repair`" in cause


def test_a_region_alone_cannot_be_rebuilt(tmp_path: Path) -> None:
    data = tmp_path / "us"
    asyncio.run(run_once(data))
    with closing(sqlite3.connect(data / FILE_NAME)) as database, database:
        database.execute(*schema.meta("lost", b"2"))
        database.execute("UPDATE log SET clock_ms = clock_ms + 1")
    assert "the only region of its cluster" in message_of(anabranch("repair", data, "--yes"))
    assert (data / FILE_NAME).exists()
