"""`anabranch up` on real regions, and the commands that operate on a running cluster."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import time
import tomllib
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from anabranch import build
from anabranch.cluster.ports import free_row
from anabranch.cluster.processes import end
from tests.study.drawings import parsed, texts
from tests.support.cluster import child_env
from tests.support.processes import eventually

pytestmark = pytest.mark.live


class Up:
    """A running `anabranch up`, and its output."""

    def __init__(self, directory: Path, *extra: str, **variables: str) -> None:
        self.directory = directory
        base = free_row(10)
        self.ports = {"us": base, "eu": base + 1, "ap": base + 2}
        self.output = directory / "up.out"
        flags = [
            "--resp-port",
            str(base),
            "--sync-port",
            str(base + 3),
            "--http-port",
            str(base + 6),
            "--console-port",
            str(base + 9),
        ]
        self.http = base + 6
        self.console = base + 9
        with self.output.open("wb") as output:
            line = [*build.command(), "up", *flags, *extra]
            env = {**child_env(), **variables}
            self.process = subprocess.Popen(
                line, cwd=directory, env=env, stdout=output, stderr=subprocess.STDOUT
            )

    def text(self) -> str:
        """The output so far."""
        return self.output.read_text()

    def ready(self) -> Up:
        """Waits until all regions are up."""
        eventually(
            lambda: "Ctrl-C stops all." in self.text() or self.process.poll() is not None,
            60,
            "up being ready",
        )
        assert self.process.poll() is None, self.text()
        return self

    def client(self, name: str) -> Any:
        return redis.Redis(port=self.ports[name], decode_responses=True, socket_timeout=10)

    def anabranch(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs another `anabranch` command in the same directory."""
        line = [*build.command(), *arguments]
        return subprocess.run(
            line,
            capture_output=True,
            text=True,
            cwd=self.directory,
            env=child_env(),
            timeout=60,
            check=False,
        )

    def children(self) -> list[int]:
        """Process ids of the regions."""
        own = str(self.process.pid)
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    status = (entry / "stat").read_text()
                except OSError:
                    continue
                if status.rpartition(")")[2].split()[1] == own:
                    found.append(int(entry.name))
        return found


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    one = Up(tmp_path_factory.mktemp("up"))
    try:
        yield one.ready()
    finally:
        end(one.process, 40)


def test_what_is_written_in_one_region_is_read_in_another(up: Up) -> None:
    added = up.client("us").xadd("s", {"a": "1"})
    eventually(
        lambda: up.client("eu").xrange("s") == [(added, {"a": "1"})], 30, "the entry arriving"
    )


def test_it_says_what_to_type_next(up: Up) -> None:
    text = up.text()
    assert f"redis-cli -p {up.ports['us']} XADD s '*' a 1" in text and "status" in text
    line = next(line.strip() for line in text.splitlines() if "xadd(" in line)
    result = subprocess.run(
        line, shell=True, capture_output=True, text=True, cwd=up.directory, check=True, timeout=30
    )
    assert re.fullmatch(r"b'\d+-\d+'", result.stdout.strip())


def test_cluster_file_names_all_addresses(up: Up) -> None:
    table = tomllib.loads((up.directory / "anabranch-data" / "cluster.toml").read_text())
    assert {region["name"]: region["resp"] for region in table["regions"]} == {
        name: f"127.0.0.1:{port}" for name, port in up.ports.items()
    }


def test_status_shows_all_regions_and_links(up: Up) -> None:
    eventually(lambda: up.anabranch("status").returncode == 0, 20, "a healthy status")
    shown = up.anabranch("status").stdout
    assert all(name in shown for name in ("us", "eu", "ap")) and "up" in shown
    regions = json.loads(up.anabranch("status", "--json").stdout)["regions"]
    assert [region["state"] for region in regions] == ["serving"] * 3
    assert all(link["state"] == "up" for region in regions for link in region["links"])
    single = up.anabranch("status", "--at", f"127.0.0.1:{up.ports['eu']}")
    assert single.returncode == 0 and "eu" in single.stdout


def test_cut_diff_heal(up: Up) -> None:
    for other in ("eu", "ap"):
        assert up.anabranch("link", "cut", "us", other).returncode == 0
    added = up.client("us").xadd("cut", {"only": "us"})
    up.client("us").xgroup_create("cut", "g", id="0")
    differ = up.anabranch("diff", "us", "eu", "cut")
    assert differ.returncode == 1, differ
    assert (
        f"only us: entry {added}" in differ.stdout and "eu has not received it yet" in differ.stdout
    )
    assert "only us: group g" in differ.stdout
    told = up.anabranch("diff", "us", "eu", "cut", "--json")
    found = json.loads(told.stdout)
    assert told.returncode == 1 and found["problems"] == differ.stdout.splitlines()
    assert found["regions"] == ["us", "eu"] and found["key"] == "cut" and not found["equal"]
    (key,) = found["keys"]
    (entry,) = key["entries"]
    assert (entry["only_in"], entry["id"], entry["origin"]) == ("us", added, "us")
    assert entry["counter"] >= 1 and "eu has not received it yet" in entry["why"]
    assert key["groups"] == [{"only_in": "us", "group": "g"}] and key["more_entries"] == 0
    assert found["lacks"]["eu"]["us"] >= 2
    bad = up.anabranch("status")
    assert bad.returncode == 1 and "us receives nothing from eu: link down" in bad.stderr
    assert "4 problems:" in bad.stderr and "`anabranch link heal us eu` opens it" in bad.stderr
    rows = [line.split() for line in bad.stdout.splitlines()]
    lacking = next(row for row in rows if row[:3] == ["eu", "us", "down"])
    assert int(lacking[3]) >= 2, bad.stdout
    assert ["us", "eu", "down", "0"] in [row[:4] for row in rows], bad.stdout
    assert up.anabranch("link", "heal").returncode == 0
    eventually(
        lambda: up.anabranch("diff", "us", "eu").returncode == 0, 60, "no difference after healing"
    )
    assert json.loads(up.anabranch("diff", "us", "eu", "--json").stdout)["equal"] is True


def test_a_cluster_file_from_running_regions(up: Up) -> None:
    addresses = [word for port in up.ports.values() for word in ("--at", f"127.0.0.1:{port}")]
    made = up.anabranch("cluster", "show", *reversed(addresses[:2]), *addresses[2:])
    assert made.returncode == 2, "an address without its flag"
    made = up.anabranch("cluster", "show", *addresses[4:], *addresses[:4])
    assert made.returncode == 0, made.stderr
    (up.directory / "made.toml").write_text(made.stdout)
    written = tomllib.loads((up.directory / "anabranch-data" / "cluster.toml").read_text())
    found = tomllib.loads(made.stdout)
    assert found["cluster"] == written["cluster"]
    kept = [{key: one[key] for key in ("name", "id", "resp")} for one in written["regions"]]
    assert found["regions"] == kept, "in the order of their ids"
    assert up.anabranch("status", "--cluster", "made.toml").returncode == 0
    lacking = up.anabranch("cluster", "show", *addresses[:2])
    assert lacking.returncode == 1 and "eu, ap: the cluster has such a member" in lacking.stderr


def test_delay(up: Up) -> None:
    # Delay both links into us: otherwise the entry would arrive through the other region.
    for other in ("eu", "ap"):
        assert up.anabranch("link", "delay", "us", other, "500").returncode == 0
    begun = time.monotonic()
    added = up.client("eu").xadd("slow", {"a": "1"})
    eventually(
        lambda: [one for one, _ in up.client("us").xrange("slow")] == [added],
        10,
        "the entry arriving",
    )
    assert time.monotonic() - begun >= 0.45
    for other in ("eu", "ap"):
        assert up.anabranch("link", "delay", "us", other, "0").returncode == 0


def test_mistakes_about_links_are_told(up: Up) -> None:
    assert (
        "no region 'mars' here; there are us, eu, ap"
        in up.anabranch("link", "cut", "us", "mars").stderr
    )
    assert "a link has two ends" in up.anabranch("link", "cut", "us", "us").stderr
    assert "name two regions" in up.anabranch("link", "heal", "us").stderr


def test_explain(up: Up) -> None:
    added = str(up.client("us").xadd("why", {"a": "1"}))
    up.client("us").xdel("why", added)
    shown = up.anabranch("explain", "us", "why", added)
    assert shown.returncode == 0, shown
    assert shown.stdout.startswith(f"Entry {added} (effect ")
    assert " is not there in us: XDEL in us (effect " in shown.stdout
    facts = json.loads(up.anabranch("explain", "us", "why", added, "--json").stdout)
    (add,) = facts["entry"]["adds"]
    assert add["fate"] == "removed" and add["removed"]["command"] == "XDEL"
    assert up.anabranch("explain", "us", "why", "x").returncode == 2


def test_explain_and_log_while_a_region_is_down(up: Up) -> None:
    """The regions that answer tell what they know, and the answer names the others."""
    added = str(up.client("us").xadd("alone", {"a": "1"}))
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        where = [f"127.0.0.1:{up.ports['us']}", f"127.0.0.1:{up.ports['eu']}"]
        where.append(f"127.0.0.1:{unused.getsockname()[1]}")
        at = [word for address in where for word in ("--at", address)]
        shown = up.anabranch("explain", "us", "alone", added, *at)
        assert shown.returncode == 0, shown
        assert "ap did not answer: what is there is not known." in shown.stdout
        assert up.anabranch("log", "alone", *at).returncode == 0
        assert up.anabranch("log", "alone", *at, "--svg", "alone.svg").returncode == 0
        assert "did not answer" in (up.directory / "alone.svg").read_text()
        gone = up.anabranch("explain", "ap", "alone", *at)
        assert gone.returncode == 1 and "ap at 127.0.0.1:" in gone.stderr


def test_keys_of_any_bytes(up: Up) -> None:
    """A key is typed as it is shown, so a key with bytes that no shell can pass has answers."""
    key = b"k\x1b[31m\n\xff\x00\\z"
    shown = r"k\x1b[31m\n\xff\x00\\z"
    added = str(up.client("us").xadd(key, {b"f\x07": b"\x9bv"}))
    told = up.anabranch("explain", "us", shown, added, "--escaped")
    assert told.returncode == 0 and f"Entry {added} (effect " in told.stdout, told
    assert f"{shown} exists in us: 1 entry" in told.stdout
    assert f": added {added} f\\x07 \\x9bv" in up.anabranch("log", shown, "--escaped").stdout
    facts = json.loads(up.anabranch("log", shown, "--escaped", "--json").stdout)
    assert facts["key"] == shown
    assert up.anabranch("log", shown, "--escaped", "--svg", "bytes.svg").returncode == 0
    assert not [one for one in told.stdout if ord(one) < 32 and one != "\n"]
    wrong = up.anabranch("log", "k\\q", "--escaped")
    assert wrong.returncode == 2 and "a backslash must be doubled" in wrong.stderr


def test_log(up: Up) -> None:
    added = str(up.client("us").xadd("told", {"field": "value"}))
    up.client("us").rename("told", "retold")
    lines = up.anabranch("log", "told", "--region", "us").stdout.splitlines()
    assert lines[0].endswith(f": added {added} field value")
    assert "RENAME in us" in lines[1] and "deleted this key (moved to retold)" in lines[1]
    events = json.loads(up.anabranch("log", "retold", "--region", "us", "--json").stdout)["events"]
    assert events[0]["other-key"] == "told" and events[0]["id"] == added
    assert up.anabranch("log", "nothing").stdout.endswith(" has no event of nothing\n")
    assert up.anabranch("log", "told", "--until", "1").stdout.endswith("no such event of told\n")
    newest = up.anabranch("log", "told", "--region", "us", "--newest", "1").stdout.splitlines()
    assert newest == ["… 1 older events; --newest N shows more", lines[1]]
    assert up.anabranch("log", "told", "--since", "5", "--until", "4").returncode == 2


def test_whatif(up: Up) -> None:
    """Entries and deliveries of a region that is cut off."""
    us, eu = up.client("us"), up.client("eu")
    us.xgroup_create("queue", "workers", id="0", mkstream=True)
    first = us.xadd("queue", {"n": "1"})
    eventually(lambda: eu.exists("queue") and eu.xlen("queue") == 1, 30, "the entry arriving")
    for other in ("us", "ap"):
        assert up.anabranch("link", "cut", "eu", other).returncode == 0
    try:
        lost = eu.xadd(b"k\xff\n", {"n": "2"})
        eu.xreadgroup("workers", "ann", {"queue": ">"})
        told = up.anabranch("whatif", "region-lost", "eu", "--to", "us")
        assert told.returncode == 0, told
        assert told.stdout.startswith("If eu vanished now, ")
        assert f"1 entry of k\\xff\\n is only in eu: {lost}." in told.stdout
        assert f"us would deliver 1 entry again (1 pending): {first}." in told.stdout
        facts = json.loads(up.anabranch("whatif", "region-lost", "2", "--json").stdout)
        assert facts["fail_over_to"] == ["us", "ap"] and facts["totals"]["again"]["ap"] == 1
        assert "another region" in up.anabranch("whatif", "region-lost", "eu", "--to", "eu").stderr
        assert "no region 'mars' here" in up.anabranch("whatif", "region-lost", "mars").stderr
    finally:
        assert up.anabranch("link", "heal").returncode == 0
    eventually(lambda: us.exists(b"k\xff\n"), 10, "the entry arriving")


def test_log_as_a_diagram(up: Up) -> None:
    """Real clocks, links and disks: each region's effects, where they arrived, and the end."""
    us, eu = up.client("us"), up.client("eu")
    removed = str(us.xadd("drawn", {"field": "<one>"}))
    assert us.wait(2, 9_000) == 2
    eu.xdel("drawn", removed)
    assert eu.wait(2, 9_000) == 2
    kept = str(eu.xadd("drawn", {"field": "two"}))
    assert eu.wait(2, 9_000) == 2
    done = up.anabranch("log", "drawn", "--svg", "drawn.svg")
    assert (done.returncode, done.stdout, done.stderr) == (0, "drawn: drawn.svg\n", "")
    text = (up.directory / "drawn.svg").read_text()
    shown = texts(parsed(text))
    assert " ".join(shown).count(f" XADD {removed} field <one> us:") == 1
    assert " ".join(shown).count(f" XDEL {removed} eu:") == 1
    for mark, entry in (("✕", removed), ("■", kept)):
        assert sum(one.startswith(f"{mark} {entry} ") for one in shown) == 3
    # Each of the three effects arrived in two regions.
    arrows = re.findall(r"(\w+):\d+(?:–\d+)?: issued at \d+ ms, applied in (\w+)", text)
    assert set(arrows) == {("us", "eu"), ("us", "ap"), ("eu", "us"), ("eu", "ap")}
    nothing = up.anabranch("log", "nothing", "--svg", "nothing.svg")
    assert nothing.returncode == 1 and "no event of nothing: there is nothing" in nothing.stderr
    assert not (up.directory / "nothing.svg").exists()
    with us.pipeline(transaction=False) as pipe:
        for number in range(260):
            pipe.xadd("long", {"n": number})
        pipe.execute()
    many = up.anabranch("log", "long", "--svg", "many.svg")
    assert many.returncode == 1 and "are too many for one drawing" in many.stderr
    for option in ("--newest N", "--since MS", "--until MS", "--id ID"):
        assert option in many.stderr
    directory = up.anabranch("log", "long", "--svg", ".", "--newest", "250")
    assert directory.returncode == 1 and "cannot be written: Is a directory" in directory.stderr


def test_a_second_up_is_refused(up: Up) -> None:
    again = up.anabranch("up")
    assert (
        again.returncode == 1 and "is in use by an `anabranch up` that runs already" in again.stderr
    )
    elsewhere = up.anabranch("up", "--data", "other", "--resp-port", str(up.ports["us"]))
    assert (
        elsewhere.returncode == 1
        and f"port {up.ports['us']} is taken by process" in elsewhere.stderr
    )


def test_health_and_metrics(up: Up) -> None:
    with urllib.request.urlopen(f"http://127.0.0.1:{up.http}/health", timeout=30) as answer:
        assert json.load(answer)["state"] == "serving"
    with urllib.request.urlopen(f"http://127.0.0.1:{up.http}/metrics", timeout=30) as answer:
        assert "crdt_divergence" in answer.read().decode()


def test_the_console_runs_beside_the_regions(up: Up) -> None:
    told = rf"Watch it in the browser: (http://127\.0\.0\.1:{up.console}/\?token=\S+)\n"
    found = re.search(told, up.text())
    assert found is not None

    def answers() -> bool:
        with urllib.request.urlopen(found[1], timeout=5) as answer:
            return "anabranch console" in answer.read().decode()

    eventually(answers, 30, "the page of the console")
    # The address opens further browsers, and nothing else does.
    assert answers()
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(f"http://127.0.0.1:{up.console}/", timeout=5)


def test_a_taken_port_of_the_console_stops_no_region(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        one = Up(tmp_path, "--regions", "us", "--console-port", str(port))
        try:
            text = one.ready().text()
            assert f"the console does not start: port {port} is taken by process" in text
            assert "--console-port" in text and "Watch it in the browser" not in text
            assert one.client("us").ping()
        finally:
            end(one.process, 40)


def test_no_console(tmp_path: Path) -> None:
    one = Up(tmp_path, "--regions", "us", "--no-console", ANABRANCH_PASSWORD="secret")
    try:
        assert "browser" not in one.ready().text()
        assert len(one.children()) == 1
        # The warnings of the regions are in their logs only.
        assert one.text().count("ANABRANCH_PASSWORD is no option of anabranch") == 1
    finally:
        end(one.process, 40)


def test_tls_between_the_regions(tmp_path: Path) -> None:
    """`--tls` makes certificates, which a second start takes again."""
    serials = set()
    for _ in range(2):
        running = Up(tmp_path, "--tls", "--no-console").ready()
        try:
            shown = json.loads(running.anabranch("status", "--json").stdout)
            links = [link["tls"] for one in shown["regions"] for link in one["links"]]
            assert links == [True] * 6
            serials.add((tmp_path / "anabranch-data/certificates/us.pem").read_bytes())
        finally:
            end(running.process, 40)
    assert len(serials) == 1


def test_a_region_that_dies_is_reported_and_started_again(tmp_path: Path) -> None:
    """Before, `up` printed a command line whose process no `up` would have stopped."""
    one = Up(tmp_path, "--ephemeral")
    try:
        one.ready()
        found = re.search(r"data and logs in (\S+)", one.text())
        assert found is not None
        directory = Path(found[1])
        assert (directory / "cluster.toml").exists()
        added = one.client("eu").xadd("s", {"a": "1"})
        assert one.client("eu").wait(2, 20_000) == 2
        victim = int((directory / "eu" / "region.lock").read_text().split()[0])
        assert victim in one.children()
        os.kill(victim, signal.SIGKILL)
        eventually(lambda: one.client("eu").ping(), 60, "eu answering again")
        assert victim not in one.children()
        text = one.text()
        assert "region eu was killed by signal 9 (SIGKILL); the end of" in text
        assert "eu is started again in 1 s; the pause doubles each time, up to 30 s." in text
        assert text.count("region eu is started again\n") == 1
        assert [entry for entry, _ in one.client("eu").xrange("s")] == [added]
        where = ("--cluster", str(directory))
        eventually(lambda: one.anabranch("status", *where).returncode == 0, 30, "a healthy status")
        left = one.children()
        one.process.send_signal(signal.SIGINT)
        assert one.process.wait(40) == 0
        assert (
            "all regions stopped" in one.text()
            and "killed" not in one.text().split("stopping …")[1]
        )
        assert not directory.exists()
        assert not any(Path(f"/proc/{pid}").exists() for pid in left)
    finally:
        end(one.process, 40)


def test_a_region_that_was_told_to_end_stays_down(tmp_path: Path) -> None:
    one = Up(tmp_path, "--regions", "us,eu")
    try:
        one.ready()
        one.client("eu").shutdown()
        eventually(lambda: "region eu was told to end" in one.text(), 30, "the report")
        gone = one.anabranch("status")
        assert gone.returncode == 1 and gone.stderr.startswith("anabranch: 1 problem:\n  eu at ")
        assert "is unreachable: connection refused" in gone.stderr
        one.client("us").shutdown()
        assert one.process.wait(40) == 0
        assert "no region runs any more" in one.text() and "eu is started again\n" not in one.text()
    finally:
        end(one.process, 40)


def test_a_cluster_with_a_password(tmp_path: Path) -> None:
    """Before, `up` asked without the password for 60 s in silence, and then stopped all."""
    (tmp_path / "settings.toml").write_text('requirepass = "öffne dich"\n', encoding="utf-8")
    one = Up(tmp_path, "--regions", "us,eu", "--config", "settings.toml")
    try:
        text = one.ready().text()
        assert "export REDISCLI_AUTH=" in text and "öffne dich" not in text
        eventually(lambda: one.anabranch("status").returncode == 0, 20, "a healthy status")
        assert one.anabranch("diff", "us", "eu").returncode == 0
        where = ("--at", f"127.0.0.1:{one.ports['us']}")
        asked = one.anabranch("status", *where)
        assert asked.returncode == 1 and "asks for a password: give the right one" in asked.stderr
        (tmp_path / "password").write_text("öffne dich\n", encoding="utf-8")
        assert one.anabranch("status", *where, "--password-file", "password").returncode == 0
        assert one.anabranch("status", *where, "--password", "öffne dich").returncode == 0
        asked_eu = (
            f" and eu at 127.0.0.1:{one.ports['eu']} refuse this password: give the right one"
        )
        for arguments in (["status"], ["explain", "us", "s"]):
            refused = one.anabranch(*arguments, "--password", "wrong")
            assert refused.returncode == 1 and refused.stdout == ""
            assert refused.stderr.count("\n") == 1 and "us at 127.0.0.1:" in refused.stderr
            assert asked_eu in refused.stderr
    finally:
        end(one.process, 40)


def test_names_of_any_bytes_do_no_harm(up: Up) -> None:
    """Before, keys that are not UTF-8 were refused, and escape sequences reached the terminal."""
    keys = [b"\xff\xfekey", b"esc\x1b[31mred\x07", b"two\nlines", b"back\\slash"]
    client = redis.Redis(port=up.ports["us"])
    for other in ("eu", "ap"):
        assert up.anabranch("link", "cut", "us", other).returncode == 0
    for key in keys:
        client.xadd(key, {"a": "1"})
        client.xgroup_create(key, b"group\x1b[5m")
    differ = up.anabranch("diff", "us", "eu")
    assert differ.returncode == 1
    lines = differ.stdout.splitlines()
    for shown in ("\\xff\\xfekey:", "esc\\x1b[31mred\\x07:", "two\\nlines:", "back\\\\slash:"):
        assert shown in lines, differ.stdout
    assert "  only us: group group\\x1b[5m" in lines
    for key in keys[:2]:
        argument = os.fsdecode(key)
        told = up.anabranch("explain", "us", argument)
        assert told.returncode == 0 and " exists in us: 1 entry, last ID" in told.stdout
        one = up.anabranch("diff", "us", "eu", argument)
        assert one.returncode == 1 and "only us: entry" in one.stdout
        for text in (told.stdout, one.stdout, differ.stdout):
            assert "\x1b" not in text and "\x07" not in text
    assert up.anabranch("link", "heal").returncode == 0
    eventually(
        lambda: up.anabranch("diff", "us", "eu").returncode == 0, 60, "no difference after healing"
    )
    same = up.anabranch("diff", "us", "eu", os.fsdecode(keys[0]))
    assert same.stdout == "us and eu hold the same in \\xff\\xfekey\n"
    as_shown = up.anabranch("diff", "us", "eu", "\\xff\\xfekey", "--escaped")
    assert as_shown.stdout == same.stdout
    one_region = up.anabranch("diff", "us", "us")
    assert one_region.returncode == 2 and "us twice: name two regions" in one_region.stderr


def test_data_survives_a_restart_of_all(tmp_path: Path) -> None:
    one = Up(tmp_path, "--regions", "us,eu", "--data", "d")
    try:
        added = one.ready().client("us").xadd("s", {"a": "1"})
        one.process.send_signal(signal.SIGTERM)
        assert one.process.wait(40) == 0, one.text()
    finally:
        end(one.process, 40)
    # Before, each region said of the others that stopped with it that their links were lost.
    for name in ("us", "eu"):
        lines = (tmp_path / "d" / f"{name}.log").read_text().splitlines()
        assert not [line for line in lines if " WARNING " in line or " ERROR " in line]
        assert lines[-1].endswith(f"region {name} has stopped: all that it answered is on disk")
    # A table that the user added stays: before, `up` wrote the file again without it.
    file = tmp_path / "d" / "cluster.toml"
    file.write_text(file.read_text() + '\n[toxiproxy]\napi = "127.0.0.1:9"\n')
    again = Up(tmp_path, "--data", "d")
    try:
        assert [entry for entry, _ in again.ready().client("us").xrange("s")] == [added]
        assert "2 regions are up" in again.text()
        assert tomllib.loads(file.read_text())["toxiproxy"] == {"api": "127.0.0.1:9"}
    finally:
        end(again.process, 40)


def test_t17_all_that_up_writes_is_its_user_s_alone(tmp_path: Path) -> None:
    one = Up(tmp_path, "--regions", "us")
    try:
        one.ready()
        made = [tmp_path / "anabranch-data", *(tmp_path / "anabranch-data").rglob("*")]
        assert {"cluster.toml", "us.log", "console.log", "region.sqlite"} <= {p.name for p in made}
        assert [str(path) for path in made if path.stat().st_mode & 0o077] == []
        assert "other users" not in (tmp_path / "anabranch-data" / "us.log").read_text()
    finally:
        end(one.process)
