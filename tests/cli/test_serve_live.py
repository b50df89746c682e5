"""`anabranch serve`: starting and stopping one region, and refusing foreign peers."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import redis

from anabranch import build
from anabranch.cluster.processes import limit_files
from anabranch.cluster.regions import RegionProcess
from anabranch.region.live.open_files import RESERVED
from tests.support.cluster import LiveCluster
from tests.support.processes import eventually

pytestmark = pytest.mark.live
NewCluster = Callable[..., LiveCluster]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_end_it_cleanly_with_everything_on_disk(
    new_cluster: NewCluster, number: signal.Signals
) -> None:
    cluster = new_cluster(["us"], {"appendfsync": "no"})
    region = cluster.start("us")
    added = cluster.client("us").xadd("s", {"a": "1"})
    assert region.process is not None
    region.process.send_signal(number)
    assert region.process.wait(15) == 0, region.log_tail()
    last = region.log_tail().splitlines()[-1]
    assert last.endswith("region us has stopped: all that it answered is on disk")
    assert "WARNING" not in region.log_tail()
    cluster.start("us")
    assert cluster.client("us").xrange("s") == [(added, {"a": "1"})]


def test_an_impatient_user_does_not_break_off_the_stop(new_cluster: NewCluster) -> None:
    """Further SIGTERMs do not interrupt a clean stop.

    The bug: a second SIGTERM cancelled the stop half-way. The last commit was lost, and the process
    never ended.
    """
    cluster = new_cluster(["us"], {"appendfsync": "no"})
    region = cluster.start("us")
    added = cluster.client("us").xadd("s", {"a": "1"})
    assert region.process is not None
    for _ in range(20):
        if region.process.poll() is None:
            region.process.send_signal(signal.SIGTERM)
            time.sleep(0.01)
    assert region.process.wait(15) == 0, region.log_tail()
    cluster.start("us")
    assert cluster.client("us").xrange("s") == [(added, {"a": "1"})]


def test_shutdown_ends_it(new_cluster: NewCluster) -> None:
    cluster = new_cluster(["us"])
    region = cluster.start("us")
    cluster.client("us").shutdown()
    assert region.process is not None and region.process.wait(15) == 0, region.log_tail()


def on_a_full_disk(cluster: LiveCluster) -> RegionProcess:
    """A region whose second add is answered, and cannot be committed any more."""
    region = cluster.start("us")
    client = cluster.client("us")
    client.xadd("s", {"a": "1"})
    client.config_set("appendfsync", "everysec")
    limit_files(region.pid(), (region.data / "region.sqlite-wal").stat().st_size)
    client.xadd("s", {"a": "2"})
    eventually(lambda: client.info()["crdt_commit_error"], 15, "an error of a commit")
    return region


def test_a_stop_on_a_full_disk_says_what_is_lost(new_cluster: NewCluster) -> None:
    """It ended with code 0 and the traceback of an AssertionError: the write was lost unsaid.

    After its last attempt to commit the stop closed the database, and tried again.
    """
    cluster = new_cluster(["us"], {"appendfsync": "always"})
    region = on_a_full_disk(cluster)
    with pytest.raises(redis.ResponseError, match="Errors trying to SHUTDOWN: writes are not on"):
        cluster.client("us").execute_command("SHUTDOWN")
    assert region.process is not None
    region.process.send_signal(signal.SIGTERM)
    assert region.process.wait(15) == 1
    lines = region.log_tail().splitlines()
    assert lines[-1].startswith("anabranch: us: its last changes could not be written: ")
    assert lines[-1].endswith("The effects of this region that are lost: 1")
    assert "AssertionError" not in region.log.read_text()


@pytest.mark.parametrize("word", ["NOSAVE", "FORCE"])
def test_shutdown_without_saving_ends_a_region_on_a_full_disk(
    new_cluster: NewCluster, word: str
) -> None:
    cluster = new_cluster(["us"], {"appendfsync": "always"})
    region = on_a_full_disk(cluster)
    with pytest.raises(redis.ConnectionError):
        cluster.client("us").execute_command("SHUTDOWN", word)
    assert region.process is not None and region.process.wait(15) == 0, region.log_tail()
    assert "The effects of this region that are lost: 1" in region.log_tail()


def test_tools_are_told_where_it_listens_and_keeps_data(new_cluster: NewCluster) -> None:
    cluster = new_cluster(["us"])
    region = cluster.start("us")
    client = cluster.client("us")
    told = {"port": str(region.resp_port), "bind": "127.0.0.1", "dir": str(region.data.resolve())}
    assert client.config_get("port", "bind", "dir") == told
    assert client.config_get("*").items() >= told.items()
    assert client.info("server")["tcp_port"] == region.resp_port


def test_the_slow_log_tells_what_took_long(new_cluster: NewCluster) -> None:
    """The wait of a blocked read does not count. A password never enters."""
    cluster = new_cluster(["us"], {"slowlog-log-slower-than": "300000"})
    cluster.start("us")
    client = cluster.client("us", client_name="reader")
    with client.pipeline(transaction=False) as adds:
        for number in range(5000):
            adds.xadd("s", {"f": f"{number}"})
        adds.execute()
    client.slowlog_reset()
    assert not client.xread({"s": "$"}, block=400)
    assert client.slowlog_len() == 0
    client.config_set("slowlog-log-slower-than", 100)
    before_s = int(time.time())
    entries = client.xrange("s")
    assert entries is not None and len(entries) == 5000
    (entry,) = (one for one in client.slowlog_get(-1) if one["command"] == b"XRANGE s - +")
    assert entry["duration"] >= 100 and before_s <= entry["start_time"] <= time.time()
    assert entry["client_name"] == b"reader"
    assert entry["client_address"].decode() in {one["addr"] for one in client.client_list()}
    client.config_set("slowlog-log-slower-than", 0)
    client.execute_command("AUTH", "default", "sesame")
    client.config_set("requirepass", "sesame")
    commands = [one["command"] for one in client.slowlog_get(-1)]
    assert b"AUTH (redacted) (redacted)" in commands
    assert b"CONFIG SET requirepass (redacted)" in commands
    assert not any(b"sesame" in one for one in commands)


def test_members_on_disk_are_not_changed_by_flags(new_cluster: NewCluster) -> None:
    cluster = new_cluster(["us", "eu"])
    cluster.start("us")
    cluster.stop("us")
    cluster.regions["eu"].region_id = 7
    region = cluster.start("us", wait=False)
    assert region.process is not None and region.process.wait(30) == 2, region.log_tail()
    assert "the members given are us=1, eu=7, but" in region.log_tail()
    assert "has had us=1, eu=2 since its first start" in region.log_tail()
    assert "Traceback" not in region.log_tail()
    cluster.regions["eu"].region_id = 2
    cluster.start("us")
    assert cluster.client("us").info("crdt")["crdt_members"] == {"us": 1, "eu": 2}


@pytest.mark.parametrize("what", ["cluster", "members"])
def test_a_peer_that_does_not_belong_is_refused_on_both_sides(
    new_cluster: NewCluster, what: str
) -> None:
    cluster = new_cluster(["us", "eu"])
    cluster.start("us")
    if what == "cluster":
        cluster.cluster = "other"
    else:
        cluster.regions["us"].region_id = 3
    cluster.start("eu")

    def refuses(name: str, peer: str) -> bool:
        return cluster.links(name)[peer] == "refused"

    for name, peer in (("us", "eu"), ("eu", "us")):
        eventually(partial(refuses, name, peer), 15, f"{name} refusing {peer}")
    assert what[:7] in "".join(cluster.regions[name].log_tail() for name in ("us", "eu"))


def test_more_clients_than_files_are_lowered_with_a_warning(new_cluster: NewCluster) -> None:
    """A region takes as many clients as it may open files, and says so.

    The bug: with 10,000 clients allowed and 1,024 files, the 1,000th client was accepted by nobody,
    and neither was a peer.
    """
    cluster = new_cluster(["us"], {"maxclients": "5000"})
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    # A region inherits its limits. Only root could raise the hard limit again, so it stays.
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(1000, limits[0]), limits[1]))
    try:
        region = cluster.start("us")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert region.process is not None
    allowed = limits[1] - RESERVED
    client = cluster.client("us")
    assert client.config_get("maxclients") == {"maxclients": str(min(5000, allowed))}
    soft, hard = resource.prlimit(region.process.pid, resource.RLIMIT_NOFILE)
    assert soft == hard, "the soft limit is raised as far as the system lets it"


def test_a_hard_limit_of_files_lowers_maxclients(tmp_path: Path) -> None:
    script = (
        "import resource; from anabranch.region.engine.settings import Settings;"
        "from anabranch.region.live.open_files import fit_clients;"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (300, 400)); s = Settings();"
        "print(fit_clients(s)); print(s.integer('maxclients'), s.ceilings)"
    )
    line = [sys.executable, "-P", "-c", script]
    done = subprocess.run(
        line, capture_output=True, text=True, check=False, env=build.environment(), cwd=tmp_path
    )
    assert done.stderr == ""
    warning, fitted = done.stdout.splitlines()
    assert warning.startswith("maxclients is 16 instead of 10000: this process may open 400 files")
    assert fitted == "16 {'maxclients': 16}"
