"""Streamer, consumers and trimmer on two real regions: fail-over, a partition, late records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import redis

from anabranch.cluster.ports import free_ports
from examples.rocket_rides import consumer, tables
from examples.rocket_rides.api import create_ride
from examples.rocket_rides.cluster import Regions
from examples.rocket_rides.database import Database
from examples.rocket_rides.fleet import Fleet
from examples.rocket_rides.mishaps import Mishaps
from examples.rocket_rides.parts import main
from examples.rocket_rides.reconciliation import reconcile
from examples.rocket_rides.records import STREAM, StagedRecord
from examples.rocket_rides.ride_log import (
    Endpoint,
    LogError,
    NoRegionAnswers,
    RideLog,
    endpoints,
    prepare,
)
from examples.rocket_rides.run import Options, Run
from examples.rocket_rides.streamer import Streamer
from examples.rocket_rides.trimmer import Trimmer
from tests.examples.conftest import Open
from tests.support.cluster import LiveCluster
from tests.support.processes import eventually

pytestmark = pytest.mark.live
NEVER = Mishaps(1, "nobody", share=0.0)


class Site:
    """Two regions, their databases, and the parts of the example in this process."""

    def __init__(self, cluster: LiveCluster, opened: Open) -> None:
        self.cluster = cluster
        self.endpoints = {
            name: Endpoint(name, "127.0.0.1", region.resp_port)
            for name, region in cluster.regions.items()
        }
        prepare(list(self.endpoints.values()))
        self.databases: dict[str, Database] = {name: opened(name) for name in cluster.regions}

    def log(self, first: str) -> RideLog:
        names = sorted(self.endpoints, key=lambda name: name != first)
        return RideLog([self.endpoints[name] for name in names])

    def rides(self, region: str, count: int) -> None:
        for n in range(count):
            create_ride(self.databases[region], region, 1000 + n)

    def streamer(self, region: str, first: str | None = None) -> Streamer:
        return Streamer(self.databases[region], self.log(first or region), self.log(region), NEVER)

    def consume(self, region: str, name: str) -> int:
        """Lets a consumer read all that there is; returns the number of rides in its total."""
        log = self.log(region)
        reader = consumer.OneIdReader(log) if name == "old" else consumer.LogReader(log)
        totals = consumer.Totals(self.databases[region], name)
        while consumer.run_once(reader, totals, NEVER):
            pass
        rows = self.databases[region].run(
            lambda each: each.rows("SELECT rides FROM consumers WHERE name = ?", (name,))
        )
        return int(rows[0][0])

    def trimmer(self) -> Trimmer:
        return Trimmer(list(self.databases.values()), list(self.endpoints.values()))

    def lengths(self) -> list[int]:
        return [self.cluster.client(name).xlen(STREAM) for name in self.endpoints]


@pytest.fixture
def site(new_cluster: Callable[..., LiveCluster], opened: Open) -> Site:
    cluster = new_cluster(["us", "eu"], {"appendfsync": "always"})
    cluster.start_all()
    return Site(cluster, opened)


def test_a_streamer_fails_over_and_adds_nothing_twice(site: Site) -> None:
    """us takes a batch, and dies before the streamer hears of it. eu takes the same batch."""
    site.rides("us", 20)
    lost = RideLog([site.endpoints["us"]])
    streamer = site.streamer("us")
    records = site.databases["us"].run(
        lambda each: each.rows("SELECT count(*) FROM staged_log_records")
    )
    # A streamer sends the batch, and crashes before it deletes the staged records.
    sent: list[tuple[str, Sequence[StagedRecord]]] = []
    lost_add = lost.add

    class Crash(Exception):
        pass

    class Crashing(RideLog):
        def add(self, producer: str, records: Sequence[StagedRecord]) -> str:
            sent.append((producer, records))
            lost_add(producer, records)
            raise Crash

    with pytest.raises(Crash):
        Streamer(site.databases["us"], Crashing([]), lost, NEVER).run_once()
    assert records[0][0] == len(sent[0][1]) == 20
    site.cluster.sync()
    site.cluster.kill("us")
    assert streamer.run_once() == 20
    assert site.databases["us"].run(tables.staged_count) == 0
    site.cluster.start("us")
    site.cluster.await_links()
    site.cluster.sync()
    assert site.lengths() == [20, 20]


def test_without_any_region_the_records_stay_staged(opened: Open) -> None:
    database = opened("us")
    create_ride(database, "us", 1000)
    log = RideLog(
        [Endpoint(name, "127.0.0.1", port) for name, port in zip("ab", free_ports(2), strict=True)]
    )
    with pytest.raises(NoRegionAnswers, match=r"a: .*refused.*; b: .*refused"):
        Streamer(database, log, log, NEVER).run_once()
    assert database.run(tables.staged_count) == 1


def test_a_partition_with_a_batch_in_both_regions(site: Site) -> None:
    """One add of each record stays. Totals are right, and the trimmer waits for the other side.

    The consumer with one ID skips the records of the other region that were merged late.
    """
    for region in ("us", "eu"):
        site.rides(region, 10)
        site.streamer(region).run_once()
    site.cluster.sync()
    names = [(region, name) for region in ("us", "eu") for name in ("one", "two", "old")]
    assert [site.consume(*one) for one in names] == [20] * 6
    site.cluster.cut("us", "eu")
    for region, other in (("us", "eu"), ("eu", "us")):
        site.rides(region, 30)
        # The batch goes to both regions: the first confirmation was lost.
        log = site.log(other)
        producer = tables.producer_id(site.databases[region])
        staged = site.streamer(region)._staged
        log.add(producer, site.databases[region].run(staged))
        assert site.streamer(region).run_once() == 30
    trimmer = site.trimmer()
    assert site.lengths() == [80, 80]
    assert [site.consume(*one) for one in names] == [80] * 6
    # Each side has the other's records under IDs of its own, and none of the other log.
    assert trimmer.run_once() == 0
    site.rides("us", 5)
    site.streamer("us").run_once()
    assert site.consume("us", "one") == 85
    site.cluster.heal("us", "eu")
    site.cluster.await_links()
    site.cluster.sync()
    assert site.lengths() == [85, 85]
    assert [site.consume(*one) for one in names] == [85] * 6
    assert trimmer.run_once() > 0
    site.cluster.sync()
    assert site.lengths()[0] == site.lengths()[1] < 85
    outcome = reconcile(site.databases, list(site.endpoints.values()))
    assert outcome.differences == []
    assert outcome.equal_totals == 4 * 85
    conflicts = [
        int(site.cluster.client(name).info("crdt")["crdt_idmp_conflicts"]) for name in ("us", "eu")
    ]
    assert sum(conflicts) == 60


def test_one_id_skips_what_is_merged_late(site: Site) -> None:
    site.cluster.cut("us", "eu")
    for region in ("eu", "us"):
        site.rides(region, 10)
        site.streamer(region).run_once()
    assert [site.consume("us", name) for name in ("one", "old")] == [10, 10]
    site.cluster.heal("us", "eu")
    site.cluster.await_links()
    site.cluster.sync()
    assert [site.consume("us", name) for name in ("one", "old")] == [20, 10]
    # A run does not mix with the records of a former one.
    with pytest.raises(LogError, match=r"us holds rocket-rides-log already: DEL it"):
        prepare(list(site.endpoints.values()))


def test_the_job_reconciles_from_the_command_line(
    site: Site, database_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "cluster.toml"
    file.write_text(
        "".join(
            f'[[regions]]\nname = "{one.name}"\nresp = "{one.host}:{one.port}"\n'
            for one in site.endpoints.values()
        )
    )
    command = ["reconcile", "--cluster", str(file), "--database", database_url]
    site.rides("us", 3)
    assert main(command) == 1
    assert "3 staged records of us are not in the stream" in capsys.readouterr().out
    site.streamer("us").run_once()
    site.cluster.sync()
    for region in ("us", "eu"):
        for name in ("one", "two"):
            site.consume(region, name)
    assert main(command) == 0
    assert capsys.readouterr().out == "all totals agree for every ride\n"
    site.databases["eu"].run(
        lambda each: each.write(
            "DELETE FROM consumed_rides WHERE consumer = ? AND ride_id = ?", ("two", 2)
        )
    )
    assert main(command) == 1
    assert capsys.readouterr().out.splitlines() == [
        "two lacks ride 2 of us",
        "two keeps a total of 3 rides and 3003 mm, and its rides make 2 and 2002 mm",
    ]


class Cut(Exception):
    """What ends a run in the middle of the partition."""


def test_a_run_that_ends_in_the_partition_leaves_the_links_open(
    new_cluster: Callable[..., LiveCluster], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C, or a region that died, once left the cluster of the user in two halves."""
    cluster = new_cluster(["us", "eu"])
    cluster.start_all()
    run = Run(Options(3, 1), tmp_path, Fleet(tmp_path), lambda *_: None)
    file = tmp_path / "cluster.toml"
    file.write_text(
        "".join(
            f'[[regions]]\nname = "{name}"\nresp = "{region.address}"\n'
            for name, region in cluster.regions.items()
        )
    )
    run._regions = regions = Regions(file)

    def load(phase: str, rides: object) -> None:
        eventually(lambda: cluster.links("us")["eu"] == "down", 20, "the cut")
        raise Cut

    monkeypatch.setattr(run, "_load", load)
    with pytest.raises(Cut):
        run._partition([])
    eventually(lambda: cluster.links("us")["eu"] == cluster.links("eu")["us"] == "up", 60, "links")
    cluster.kill("eu")
    with pytest.raises(redis.RedisError):
        regions.heal()


def test_the_cluster_file(tmp_path: Path) -> None:
    file = tmp_path / "cluster.toml"
    file.write_text('[[regions]]\nname = "us"\nresp = "127.0.0.1:7001"\n')
    assert endpoints(file) == [Endpoint("us", "127.0.0.1", 7001)]
    for first, text in (
        ("mars", 'regions = [{name = "us", resp = "h:1"}]'),
        ("", "x"),
        ("", "a=1"),
    ):
        file.write_text(text)
        with pytest.raises(LogError, match=str(file)):
            endpoints(file, first)
