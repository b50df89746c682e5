"""Each user mistake ends with one clear line on stderr, exit code 1 or 2, and no traceback."""

from __future__ import annotations

import ctypes
import os
import resource
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import IO

import pytest

from anabranch import build
from anabranch.cli.errors import UsageError
from anabranch.cli.files import checked_json
from anabranch.cli.serve import locked
from anabranch.cli.up import _planned
from anabranch.cluster.ports import free_ports
from anabranch.region.storage import schema
from tests.support.cluster import child_env


def anabranch(
    *arguments: str, cwd: Path, prepare: Callable[[], None] | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs `anabranch` in a process of its own, in which `prepare` is called first."""
    return ended([*build.command(), *arguments], cwd, prepare=prepare)


def ended(
    line: list[str],
    cwd: Path,
    stdout: int | IO[bytes] = subprocess.PIPE,
    prepare: Callable[[], None] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Runs a command line to its end."""
    return subprocess.run(
        line,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env=child_env(),
        timeout=60,
        check=False,
        preexec_fn=prepare,
    )


def serve_flags(tmp_path: Path, *extra: str, resp: int | None = None) -> list[str]:
    """The arguments of `anabranch serve` for a region alone, on free ports."""
    first, second = free_ports(2)
    line = [
        "serve",
        "--cluster",
        "c",
        "--members",
        "us=1",
        "--name",
        "us",
        "--data",
        str(tmp_path / "us"),
    ]
    return [*line, "--resp", f"127.0.0.1:{resp or first}", "--sync", f"127.0.0.1:{second}", *extra]


def told(result: subprocess.CompletedProcess[str], code: int, *parts: str) -> None:
    """Asserts the exit code, all `parts` in stderr, and no traceback."""
    assert result.returncode == code, result
    assert "Traceback" not in result.stderr
    assert "\x1b" not in result.stderr
    for part in parts:
        assert part in result.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "part"),
    [
        (
            ["status"],
            1,
            "there is no anabranch-data/cluster.toml: start a cluster here with `anabranch up`",
        ),
        (["status", "--at", "127.0.0.1"], 2, "--at must be HOST:PORT"),
        (
            ["status", "--at", "127.0.0.1:1", "--cluster", "x"],
            2,
            "give --cluster or --at, not both",
        ),
        (
            ["status", "--at", "127.0.0.1:1"],
            1,
            "the region at 127.0.0.1:1 is unreachable: connection refused",
        ),
        (["link", "cut", "us"], 2, "Missing argument"),
        (["link", "delay", "us", "eu", "soon"], 2, "Invalid value"),
        (["explain", "us"], 2, "Missing argument"),
        (["whatif", "region-lost"], 2, "Missing argument"),
        (["whatif", "region-lost", "eu", "--keys", "0"], 2, "Invalid value"),
        (["whatif", "region-lost", "eu"], 1, "there is no anabranch-data/cluster.toml"),
        (["nonsense"], 2, "No such command 'nonsense'"),
        (
            ["serve"],
            2,
            "--cluster is missing (or 'cluster' in the TOML file, or ANABRANCH_CLUSTER)",
        ),
        (["serve", "--cluster", "c", "--members", "us=1,us=2"], 2, "'us' is named twice"),
        (["serve", "--config", "nowhere.toml"], 2, "cannot read nowhere.toml"),
        (["serve", "--fsync", "always"], 2, "No such option: --fsync"),
        (["up", "--regions", "us,us"], 2, "'us' is named twice"),
        (["up", "--regions", "us,,eu"], 2, "--regions must look like us,eu,ap"),
        (["up", "--id-mode", "loose"], 2, "must be one of: strict, semi-strict, liberal"),
        (["up", "--data", "d", "--ephemeral"], 2, "give --data or --ephemeral, not both"),
        (
            ["up", "--resp-port", "7001", "--sync-port", "7002"],
            2,
            "--sync-port and --resp-port overlap: port 7002 would be that of us and of eu",
        ),
        (["status", "--password", "x", "--password-file", "y"], 2, "not both"),
        (["status", "--password-file", "nowhere"], 2, "cannot read nowhere: No such file"),
        (["explain", "us", "k\x1b[31m"], 1, "there is no anabranch-data/cluster.toml"),
        (
            ["log", "k", "--svg", "x.svg", "--region", "us"],
            2,
            "--svg draws all regions: leave --reg",
        ),
        (["log", "k", "--id", "1-" + "9" * 20], 2, "is no ID of an entry: an ID is MS-SEQ"),
        (["log", "k", "--since", "9" * 30], 2, "--since"),
        (["link", "heal", "--one-way"], 2, "--one-way needs two regions"),
        (["simulate", "--minutes", "0"], 2, "--minutes"),
        (["simulate", "--limit", "0"], 2, "--limit"),
        (["up", "--regions", "..,us"], 2, ".."),
        (["log", "k", "--id", "abc"], 2, "'abc' is no ID of an entry: an ID is MS-SEQ"),
        (["console", "--listen", "127.0.0.1:0"], 2, "--listen needs a port"),
        (["simulate", "--replay", "3", "--seeds", "0:2"], 2, "--replay says which seeds run"),
        (["simulate", "--failed", "--seeds", "0:2"], 2, "--failed says which seeds run"),
        (["no\x1b[31msuch"], 2, "No such command 'no\\x1b[31msuch'"),
        (["up", "--resp-port", "65535"], 2, "--resp-port must leave room for 3 ports"),
        (["scenario", "run", "nowhere.md", "--live"], 2, "no such file: nowhere.md"),
        (["judge", "nowhere"], 2, "there is no nowhere"),
        (["simulate", "--json", "no/where"], 2, "--json: there is no directory"),
        (["simulate", "--json", "."], 2, "--json: . is a directory; name a file"),
        (["scenario", "record"], 2, "Missing argument"),
        (["scenario", "record", "no/where.md"], 2, "there is no directory no"),
        (["scenario", "record", "new.md"], 1, "there is no anabranch-data/cluster.toml"),
    ],
)
def test_mistakes(tmp_path: Path, arguments: list[str], code: int, part: str) -> None:
    told(anabranch(*arguments, cwd=tmp_path), code, part)


def test_json_without_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """root may write everywhere, so the test says what another user's system would."""
    file = tmp_path / "new.json"
    asked: list[Path] = []

    def no_access(path: Path, mode: int) -> bool:
        asked.append(path)
        return False

    monkeypatch.setattr("os.access", no_access)
    with pytest.raises(UsageError, match=f"--json: no permission to write {file}"):
        checked_json(file)
    file.touch()
    with pytest.raises(UsageError):
        checked_json(file)
    assert asked == [tmp_path, file]


def test_a_damaged_cluster_file(tmp_path: Path) -> None:
    (tmp_path / "cluster.toml").write_text("regions = 3")
    told(anabranch("status", "--cluster", str(tmp_path), cwd=tmp_path), 1, "is not a cluster file")


def test_serve_names_a_taken_port_and_its_holder(tmp_path: Path) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        result = anabranch(*serve_flags(tmp_path, resp=port), cwd=tmp_path)
    told(
        result,
        1,
        f"--resp 127.0.0.1:{port}: port {port} is taken by process ",
        "give us another --resp",
    )


def test_up_names_every_taken_port(tmp_path: Path) -> None:
    with socket.socket() as one, socket.socket() as other:
        for holder in (one, other):
            holder.bind(("127.0.0.1", 0))
            holder.listen()
        ports = one.getsockname()[1], other.getsockname()[1]
        result = anabranch(
            "up",
            "--regions",
            "us",
            "--resp-port",
            str(ports[0]),
            "--sync-port",
            str(ports[1]),
            cwd=tmp_path,
        )
    told(
        result,
        1,
        f"us: port {ports[0]} is taken by process",
        "--resp-port",
        f"us: port {ports[1]} is taken by process",
        "--sync-port",
    )


def test_a_data_directory_serves_one_process(tmp_path: Path) -> None:
    with locked(tmp_path / "us"):
        result = anabranch(*serve_flags(tmp_path), cwd=tmp_path)
    told(result, 1, "is in use by a region that runs already (process ")
    with locked(tmp_path / "us", place="us for clients on 127.0.0.1:7001"):
        flags = serve_flags(tmp_path)
        result = anabranch(*flags, cwd=tmp_path)
    resp, sync = (flag for flag in flags if flag.startswith("127.0.0.1:"))
    told(
        result,
        1,
        f"runs already (process {os.getpid()}, us for clients on 127.0.0.1:7001); this one would be"
        f" us for clients on {resp} and other regions on {sync}. Stop one of them",
    )


def test_up_runs_once_in_a_directory(tmp_path: Path) -> None:
    with locked(tmp_path / "d", "up.lock"):
        result = anabranch("up", "--data", "d", cwd=tmp_path)
    told(result, 1, "d is in use by an `anabranch up` that runs already (process ")


def test_up_refuses_other_regions_than_the_data_has(tmp_path: Path) -> None:
    (tmp_path / "cluster.toml").write_text(
        'cluster = "local"\n[[regions]]\nname = "us"\nid = 1\nresp = "127.0.0.1:7001"\n'
    )
    result = anabranch("up", "--data", ".", "--regions", "us,eu", cwd=tmp_path)
    told(result, 1, "belongs to the regions us=1")


def test_a_data_directory_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "us").write_text("a file")
    told(anabranch(*serve_flags(tmp_path), cwd=tmp_path), 1, "cannot use the data directory")


def stored_region(directory: Path, name: str, members: str, cluster: str = "local") -> None:
    """The database of a region after its first start."""
    directory.mkdir(parents=True)
    ids = dict(pair.split("=") for pair in members.split(","))
    rows = {
        "schema": b"%d" % schema.SCHEMA_VERSION,
        "cluster": cluster.encode(),
        "region_id": ids[name].encode(),
        "name": name.encode(),
        "members": members.encode(),
    }
    with closing(sqlite3.connect(directory / "region.sqlite")) as connection:
        for statement in schema.TABLES:
            connection.execute(statement)
        connection.executemany("INSERT INTO meta (name, value) VALUES (?, ?)", rows.items())
        connection.commit()


def contents(directory: Path) -> dict[str, bytes]:
    """The files of a data directory, without the lock."""
    return {one.name: one.read_bytes() for one in directory.iterdir() if one.suffix != ".lock"}


@pytest.mark.parametrize("journal_mode", ["DELETE", "WAL"])
def test_the_database_of_another_program_is_left_as_it_is(
    tmp_path: Path, journal_mode: str
) -> None:
    """Before, the region created its tables in it, and took it over."""
    (tmp_path / "us").mkdir()
    with closing(sqlite3.connect(tmp_path / "us" / "region.sqlite")) as connection:
        connection.execute(f"PRAGMA journal_mode={journal_mode}")
        connection.execute("CREATE TABLE users (id)")
        connection.commit()
    before = contents(tmp_path / "us")
    result = anabranch(*serve_flags(tmp_path), cwd=tmp_path)
    told(result, 1, "region.sqlite is not the database of a region, and is left as it is", "users")
    assert contents(tmp_path / "us") == before


@pytest.mark.parametrize("content", [b"no database at all\n" * 100, b"SQLite format 3\0" * 300])
def test_a_file_that_is_no_database_is_left_as_it_is(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "us").mkdir()
    (tmp_path / "us" / "region.sqlite").write_bytes(content)
    told(anabranch(*serve_flags(tmp_path), cwd=tmp_path), 1, "region.sqlite")
    assert contents(tmp_path / "us") == {"region.sqlite": content}


def test_a_table_named_meta_makes_no_region(tmp_path: Path) -> None:
    (tmp_path / "us").mkdir()
    with closing(sqlite3.connect(tmp_path / "us" / "region.sqlite")) as connection:
        connection.execute("CREATE TABLE meta (name, value)")
        connection.execute("INSERT INTO meta VALUES ('version', '7')")
        connection.commit()
    told(anabranch(*serve_flags(tmp_path), cwd=tmp_path), 1, "its table meta names no region")


def test_other_members_than_those_on_disk_are_refused_with_both_lists(tmp_path: Path) -> None:
    """Before, the region warned in its log, and served with the members on disk."""
    stored_region(tmp_path / "us", "us", "us=1,eu=2", "c")
    before = contents(tmp_path / "us")
    flags = serve_flags(tmp_path, "--members", "us=1,ap=3", "--peer", "ap@127.0.0.1:1")
    told(
        anabranch(*flags, cwd=tmp_path),
        2,
        "us: the members given are us=1, ap=3, but",
        "has had us=1, eu=2 since its first start: give these, or another --data",
    )
    after = contents(tmp_path / "us")
    assert after.keys() >= before.keys() and b"ap=3" not in b"".join(after.values())


def test_a_peer_that_is_no_member_is_refused(tmp_path: Path) -> None:
    result = anabranch(*serve_flags(tmp_path, "--peer", "mars@127.0.0.1:1"), cwd=tmp_path)
    told(result, 2, "--peer: 'mars' is not among the members us=1")


def test_a_read_only_database_is_named(tmp_path: Path) -> None:
    """Before, the error was "attempt to write a readonly database", without a path."""
    stored_region(tmp_path / "us", "us", "us=1", "c")
    (tmp_path / "us" / "region.sqlite").chmod(0o444)
    result = anabranch(*serve_flags(tmp_path), cwd=tmp_path, prepare=without_root_rights)
    told(result, 1, "us/region.sqlite is read-only for this process", "must be able to write it")


def test_a_disk_that_is_full_at_the_start(tmp_path: Path) -> None:
    """The error was "disk I/O error", without a file or a cause."""
    stored_region(tmp_path / "us", "us", "us=1", "c")
    result = anabranch(*serve_flags(tmp_path), cwd=tmp_path, prepare=without_room)
    told(
        result, 1, "cannot read or write", "us/region.sqlite", "File too large", "free space on its"
    )


def without_room() -> None:
    """Files cannot grow over 1000 bytes."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))


def without_root_rights() -> None:
    """From the next exec on, permissions of files count for root, too."""
    drop_capability, capabilities = 24, (1, 2)  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
    for capability in capabilities:
        ctypes.CDLL(None).prctl(drop_capability, capability, 0, 0, 0)


def test_up_takes_the_members_from_the_regions_if_the_cluster_file_is_lost(tmp_path: Path) -> None:
    """Before, `up` started us, eu and ap among the directories of other regions."""
    stored_region(tmp_path / "d" / "paris", "paris", "paris=1,rome=2")
    stored_region(tmp_path / "d" / "rome", "rome", "paris=1,rome=2")
    assert [(one.name, one.region_id) for one in _planned(tmp_path / "d", None, 1, 11, 21)] == [
        ("paris", 1),
        ("rome", 2),
    ]
    result = anabranch("up", "--data", "d", "--regions", "us,eu,ap", cwd=tmp_path)
    told(result, 1, "d belongs to the regions paris=1,rome=2: start it with these")


@pytest.mark.parametrize("what", ["members", "name", "cluster"])
def test_up_refuses_regions_that_do_not_belong_together(tmp_path: Path, what: str) -> None:
    stored_region(tmp_path / "d" / "paris", "paris", "paris=1,rome=2")
    members = "paris=1,rome=3" if what == "members" else "paris=1,rome=2"
    folder = "milan" if what == "name" else "rome"
    cluster = "shop" if what == "cluster" else "local"
    stored_region(tmp_path / "d" / folder, "rome", members, cluster)
    result = anabranch("up", "--data", "d", cwd=tmp_path)
    told(
        result,
        1,
        "d has no cluster.toml, and regions that `anabranch up` cannot start together",
        "d/paris is region paris of cluster local with the members paris=1, rome=2",
        f"d/{folder} is region rome of cluster {cluster}",
    )


def test_up_refuses_a_directory_with_the_database_of_another_program(tmp_path: Path) -> None:
    (tmp_path / "d" / "us").mkdir(parents=True)
    (tmp_path / "d" / "us" / "region.sqlite").write_bytes(b"something else\n" * 100)
    result = anabranch("up", "--data", "d", cwd=tmp_path)
    told(result, 1, "d/us/region.sqlite is not the database of a region")


@pytest.mark.parametrize(
    ("flags", "part"),
    [
        (["--databases", "16"], "--databases: databases cannot be '16': Always 1"),
        (["--maxmemory", "100000"], "--maxmemory: maxmemory cannot be '100000': Always 0"),
        (["--http", "127.0.0.1:7001", "--resp", "127.0.0.1:7001"], "--resp and --http both use"),
    ],
)
def test_what_a_region_cannot_honour_is_refused(
    tmp_path: Path, flags: list[str], part: str
) -> None:
    told(anabranch(*serve_flags(tmp_path, *flags), cwd=tmp_path), 2, part)


def test_usage_lines_have_one_notation(tmp_path: Path) -> None:
    """Before, they were `diff {US} {EU} [[KEY]]` and `link heal [[US] [EU]]`."""
    for command, usage in (
        ("diff", "diff [OPTIONS] US EU [KEY]"),
        ("explain", "explain [OPTIONS] REGION KEY [ID]"),
        ("log", "log [OPTIONS] KEY"),
        ("whatif region-lost", "whatif region-lost [OPTIONS] REGION"),
        ("bench", "bench [NAME] [OPTIONS]"),
        ("link heal", "link heal [OPTIONS] [US] [EU]"),
        ("scenario run", "scenario run [OPTIONS] [PATH…]"),
        ("scenario record", "scenario record [OPTIONS] OUT.md"),
    ):
        lines = anabranch(*command.split(), "--help", cwd=tmp_path).stdout.splitlines()
        assert lines[0].endswith(usage), lines[0]


def test_help_names_every_option(tmp_path: Path) -> None:
    result = anabranch("serve", "--help", cwd=tmp_path)
    assert result.returncode == 0
    for flag in (
        "--members",
        "--peer",
        "--restored",
        "--id-mode",
        "--appendfsync",
        "--crdt-sync-interval-ms",
        "--config",
    ):
        assert flag in result.stdout
    for command, flag in (("up", "--no-console"), ("console", "--allow-write")):
        text = anabranch(command, "--help", cwd=tmp_path)
        assert text.returncode == 0 and flag in text.stdout


def test_up_refuses_a_file_that_names_one_region(tmp_path: Path) -> None:
    """It took the file, and kept the data in another place than the file says."""
    (tmp_path / "one.toml").write_text('name = "x"\ndata = "there"\nappendfsync = "always"\n')
    told(anabranch("up", "--config", "one.toml", cwd=tmp_path), 2, "one.toml: data, name: `anab")


def test_a_file_that_has_no_name_of_a_tape(tmp_path: Path) -> None:
    (tmp_path / "x.tape").write_bytes(b"")
    told(anabranch("judge", "x.tape", cwd=tmp_path), 1, "x.tape is no tape: tapes are named by")


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", ">&- 2>&-", "<&- >&-", "<&- >&- 2>&-"])
def test_closed_streams_are_no_bug(tmp_path: Path, closed: str) -> None:
    """Some daemons close the standard streams. Commands that asked for the width of the terminal
    ended with a traceback, and the first socket had the number of a stream."""
    program = (
        "import os, pathlib, subprocess, sys; from anabranch.cli import main, terminal;"
        " terminal.guard_streams(); print(terminal.width()); print('told', file=sys.stderr);"
        " number = os.open(os.devnull, os.O_RDONLY); assert number == 3, number;"
        " assert subprocess.run(['sh', '-c', 'echo to each; echo one >&2']).returncode == 0;"
        " sys.argv = ['anabranch', '--version']; pathlib.Path('here').touch(); main.main()"
    )
    shell = ["sh", "-c", f'exec "$@" {closed}', "sh"]
    result = ended([*shell, sys.executable, "-P", "-c", program], tmp_path)
    assert result.returncode == 0, result
    assert result.stderr == ("" if "2>" in closed else "told\none\n")
    assert (tmp_path / "here").exists() and ("anabranch " in result.stdout) == (
        ">&-" not in closed.split()
    )


FILE = "| Time | us | eu |\n|---|---|---|\n| t1 | `XLEN x` → 0 | |\n"


ENDS = {
    "0": "pass",
    "1": "raise SystemExit(1)",
    "2": "raise UsageError('why')",
    "130": "raise KeyboardInterrupt",
}


@pytest.mark.parametrize("output", ["full", "gone"])
@pytest.mark.parametrize("code", list(ENDS))
def test_what_ends_a_command_is_told_though_its_output_is_not(
    tmp_path: Path, code: str, output: str
) -> None:
    """Code and message stay those of the command, also if nobody reads its output any more."""
    program = f"""
import sys
from anabranch.cli import main
from anabranch.cli.errors import UsageError
def command():
    print("some output")
    {ENDS[code]}
main.application = lambda first: command
main.main()
"""
    to = {"full": 'exec "$@" >/dev/full', "gone": '"$@" | :; exit ${PIPESTATUS[0]}'}[output]
    result = ended(["bash", "-c", to, "bash", sys.executable, "-P", "-c", program], tmp_path)
    is_told = output == "full" and code == "0"
    assert result.returncode == (1 if is_told else int(code)), result.stderr
    lines = ["anabranch: why"] * (code == "2") + ["anabranch: No space left on device"] * is_told
    assert result.stderr.splitlines() == lines


@pytest.mark.parametrize("arguments", [["--help"], ["scenario", "run", "file.md"]])
def test_an_output_that_is_full_ends_with_a_line(tmp_path: Path, arguments: list[str]) -> None:
    """Most commands once reported success, because nothing was written before Python's end."""
    (tmp_path / "file.md").write_text(FILE, encoding="utf-8")
    with Path("/dev/full").open("wb") as full:
        result = ended([*build.command(), *arguments], tmp_path, stdout=full)
    assert result.returncode == 1
    assert result.stderr == "anabranch: No space left on device\n"


def test_version_names_the_build(tmp_path: Path) -> None:
    result = anabranch("--version", cwd=tmp_path)
    assert result.returncode == 0 and (
        "compiled" in result.stdout or "interpreted" in result.stdout
    )
