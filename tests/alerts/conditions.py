"""The condition of each alert: a function that produces it, yields, and mends it.

A condition is given a world that runs and in which all is well. It yields the labels with which the
alert must fire. After the `yield` it ends what it did, and the alert must become silent.
"""

from __future__ import annotations

import shutil
import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from typing import Final

import redis
from typer.testing import CliRunner

from anabranch.certificates.files import Folder
from anabranch.chaos.regions import FULL_DISK_BYTES
from anabranch.cli.main import application
from anabranch.cluster.processes import limit_files
from anabranch.region.live.database import FILE_NAME
from tests.alerts.world import MADE_UP, PATIENCE_S, World
from tests.support.processes import eventually

Labels = dict[str, str]
Condition = Callable[[World], Iterator[Labels]]

# The alerts about numbers of effects and tombstones fire above this number.
MANY: Final = 100_000


# -- regions that are down, start or are lost


def killed(world: World) -> Iterator[Labels]:
    """The process of a region is killed."""
    world.regions.kill("ap")
    yield {"region": "ap"}
    world.regions.start("ap")


def paused(world: World) -> Iterator[Labels]:
    """The process of a region stands still: its ports are open, and nothing answers."""
    world.signal("ap", signal.SIGSTOP)
    yield {"region": "ap"}
    world.signal("ap", signal.SIGCONT)


def in_recovery(world: World) -> Iterator[Labels]:
    """A region recovers and waits for a member that is down."""
    world.add("us")
    world.regions.sync()
    world.regions.stop("eu")
    world.restart("us", "--restored")
    yield {"region": "us", "state": "recovery"}
    world.regions.start("eu")


def lost(world: World) -> Iterator[Labels]:
    """A region comes back after the others said that it is lost. Its operator ends it."""
    world.regions.stop("ap")
    for name in ("us", "eu"):
        world.call(name, "CRDT.MEMBER", "LOST", "ap")
    world.regions.start("ap")
    yield {"region": "ap"}
    world.regions.stop("ap")


# -- links and lags


def cut(world: World) -> Iterator[Labels]:
    """A link is cut in one direction."""
    world.regions.link("eu", "us", "DOWN")
    yield {"region": "eu", "peer": "us"}
    world.regions.link("eu", "us", "UP")


def unreachable(world: World) -> Iterator[Labels]:
    """A peer does not answer, so the link does not connect."""
    world.regions.kill("ap")
    yield {"region": "eu", "peer": "ap"}
    world.regions.start("ap")


def _isolated(world: World, labels: Labels, count: int) -> Iterator[Labels]:
    """eu receives nothing and hears, from those that receive from it, what us adds."""
    world.isolate("eu")
    world.add("us", count=count)
    yield labels
    world.join("eu")


def peer_lags(world: World) -> Iterator[Labels]:
    """A peer lacks many effects of a region."""
    yield from _isolated(world, {"region": "us", "peer": "eu"}, MANY + 1)


def behind(world: World) -> Iterator[Labels]:
    """A region lacks many effects of a peer."""
    yield from _isolated(world, {"region": "eu", "peer": "us"}, MANY + 1)


def peer_lags_for_long(world: World) -> Iterator[Labels]:
    """A peer lacks an effect for a while."""
    yield from _isolated(world, {"region": "us", "peer": "eu"}, 1)


def behind_for_long(world: World) -> Iterator[Labels]:
    """A region lacks an effect for a while."""
    yield from _isolated(world, {"region": "eu", "peer": "us"}, 1)


# -- disks and files


def disk_refuses(world: World) -> Iterator[Labels]:
    """Every write to the files of a region fails, as on a full disk (a limit of the process)."""
    limit_files(world.regions["us"].pid(), FULL_DISK_BYTES)

    def fails() -> bool:
        with suppress(redis.exceptions.ResponseError):
            world.add("us")
        return bool(world.call("us", "INFO", "crdt")["crdt_commit_error"])

    eventually(fails, PATIENCE_S, "a commit failing")
    yield {"region": "us"}
    limit_files(world.regions["us"].pid(), None)


def small_disk(world: World) -> Iterator[Labels]:
    """The disk of a region has little space left. It is a file system of its own, which grows."""
    world.regions.disks_mb["us"] = 4096
    world.restart("us")
    world.regions.resize_disk("us", 512)
    yield {"region": "us"}
    world.regions.resize_disk("us", 4096)


def damaged(world: World) -> Iterator[Labels]:
    """A row of the log is changed on disk, and a peer that was away needs it."""
    world.restart("us", "--crdt-log-tail-max-bytes", "1")
    world.isolate("eu")
    for _ in range(3):
        world.add("us")
        world.call("us", "WAIT", 1, 10_000)
    path = world.regions["us"].data / FILE_NAME
    with closing(sqlite3.connect(path, timeout=60)) as database, database:
        database.execute("UPDATE log SET clock_ms = clock_ms + 1")
    # Not from ap, whose copy is sound.
    world.regions.link("eu", "us", "UP")
    yield {"region": "us"}
    world.join("eu")
    world.regions.stop("us")
    repaired = CliRunner().invoke(application(), ["repair", str(path.parent), "--yes"])
    assert repaired.exit_code == 0, repaired.output
    world.regions.start("us")


# -- histories that do not fit


def takes_writes(world: World, name: str, count: int = 1) -> bool:
    """Adds entries in a region; raises an error of redis-py if it refuses them."""
    world.add(name, count=count)
    return True


def forked(world: World) -> Iterator[Labels]:
    """us loses its files, hears of nobody at its start, and numbers its effects from 1 again."""
    world.add("us", count=3)
    world.regions.sync()
    for name in ("us", "eu", "ap"):
        world.regions.stop(name)
    shutil.rmtree(world.regions["us"].data)
    world.regions.start("us", "--crdt-start-patience-ms", "200")
    eventually(lambda: takes_writes(world, "us", 10), PATIENCE_S, "us taking writes")
    world.regions.start("eu")
    yield {"region": "eu"}
    world.regions.start("ap")
    world.regions.stop("us")
    shutil.rmtree(world.regions["us"].data)
    world.regions.start("us")
    eventually(lambda: takes_writes(world, "us"), PATIENCE_S, "us taking writes")
    world.regions.link("eu", "us", "UP")
    world.regions.sync()
    world.call("eu", "CONFIG", "RESETSTAT")


def diverged(world: World) -> Iterator[Labels]:
    """Made up: two regions that follow the rules cannot diverge."""
    world.made_up.engine.state.replication.divergences = 1
    yield {"region": MADE_UP}
    world.made_up.engine.state.replication.divergences = 0


def gaps(world: World) -> Iterator[Labels]:
    """Made up: a region never ships blocks that do not follow each other."""
    world.made_up.engine.peers.links.refused("gap")
    yield {"region": MADE_UP}
    world.made_up.engine.state.replication.reset()


def internal_error(world: World) -> Iterator[Labels]:
    """Made up: no command is known that ends a region."""
    world.made_up.set_fact("internal_errors", 1)
    yield {"region": MADE_UP}


# -- data that waits for a member, and limits


def tombstones(world: World) -> Iterator[Labels]:
    """Many keys are deleted while a member is away."""
    world.regions.stop("ap")
    keys = [f"k{n}" for n in range(MANY + 100)]
    with world.regions.client("us", socket_timeout=300.0) as client:
        for place in range(0, len(keys), 1000):
            some = keys[place : place + 1000]
            pipeline = client.pipeline(transaction=False)
            for key in some:
                pipeline.xadd(key, {"n": 1})
            pipeline.delete(*some)
            pipeline.execute()
    yield {"region": "us"}
    world.regions.start("ap")


def _retire(world: World, most: int) -> None:
    """Retires 20 pairs in us while a member is away; us keeps `most` of them."""
    world.regions.stop("ap")
    world.call("us", "CONFIG", "SET", "crdt-idmp-retired-max", most)
    world.call("us", "XADD", "s", "*", "n", 1)
    world.call("us", "XCFGSET", "s", "IDMP-MAXSIZE", 1)
    for n in range(21):
        world.call("us", "XADD", "s", "IDMP", "p", f"i{n}", "*", "n", 1)


def retired_pairs(world: World) -> Iterator[Labels]:
    """Retired pairs wait for a member that is away."""
    _retire(world, 30)
    yield {"region": "us"}
    world.regions.start("ap")


def forgotten_pairs(world: World) -> Iterator[Labels]:
    """More pairs are retired than the region may keep."""
    _retire(world, 5)
    yield {"region": "us"}


def too_many_clients(world: World) -> Iterator[Labels]:
    """More clients connect than the region takes."""
    with world.regions.client("us", single_connection_client=True) as client:
        client.config_set("maxclients", 1)
        with suppress(redis.exceptions.RedisError):
            world.call("us", "PING")
        yield {"region": "us"}
        client.config_set("maxclients", 100)


def too_large_a_unit(world: World) -> Iterator[Labels]:
    """A transaction is larger than the region takes."""
    world.call("us", "CONFIG", "SET", "crdt-unit-max-bytes", 1000)
    with world.regions.client("us") as client, suppress(redis.exceptions.RedisError):
        pipeline = client.pipeline(transaction=True)
        pipeline.xadd("s", {"n": "x" * 2000})
        pipeline.execute()
    yield {"region": "us", "limit": "crdt-unit-max-bytes"}


def clock_ahead(world: World) -> Iterator[Labels]:
    """The clock of a region is 20 s ahead, and is set right. Its effects follow 20 s later."""
    world.restart("eu", "--crdt-clock-offset-ms", "20000", "--crdt-clock-offset-max-ms", "0")

    def shown_ms() -> int:
        world.add("eu")
        return int(world.call("us", "INFO", "crdt")["crdt_link2"]["clock_ahead_ms"])

    eventually(lambda: shown_ms() > 5000, PATIENCE_S, "us hearing eu's clock", 0.2)
    yield {"region": "us", "peer": "eu"}
    world.restart("eu")
    eventually(lambda: shown_ms() < 5000, PATIENCE_S, "eu's clock being right", 0.2)


def clock_apart(world: World) -> Iterator[Labels]:
    """The clock of a region is an hour ahead when it starts, and is set right."""

    def state() -> object:
        return world.call("eu", "INFO", "crdt")["crdt_state"]

    world.restart("eu", "--crdt-clock-offset-ms", "3600000")
    eventually(lambda: state() == "apart", PATIENCE_S, "eu being apart", 0.2)
    yield {"region": "eu"}
    world.restart("eu")
    eventually(lambda: state() == "serving", PATIENCE_S, "eu serving", 0.2)


def certificate_ends(world: World) -> Iterator[Labels]:
    """The certificate of a region ends in five days, and is renewed while the region runs."""
    folder = Folder(world.regions.directory / "certificates")
    folder.create_authority(False, "regions", 30)
    folder.create_region("eu", world.regions.cluster, 5)
    world.restart(
        "eu",
        *("--sync-tls", "optional", "--sync-tls-cert-file", str(folder.certificate("eu"))),
        *("--sync-tls-key-file", str(folder.key("eu"))),
        *("--sync-tls-ca-cert-file", str(folder.certificate("ca"))),
    )
    yield {"region": "eu"}
    folder.renew("eu", 30)


CONDITIONS: Final[list[tuple[str, Condition]]] = [
    ("AnabranchRegionDown", killed),
    ("AnabranchRegionDown", paused),
    ("AnabranchDivergence", diverged),
    ("AnabranchFork", forked),
    ("AnabranchGaps", gaps),
    ("AnabranchCommitFailed", disk_refuses),
    ("AnabranchNotServing", in_recovery),
    ("AnabranchLost", lost),
    ("AnabranchLinkDown", cut),
    ("AnabranchLinkDown", unreachable),
    ("AnabranchPeerLags", peer_lags),
    ("AnabranchBehind", behind),
    ("AnabranchBehindForLong", behind_for_long),
    ("AnabranchPeerLagsForLong", peer_lags_for_long),
    ("AnabranchDamage", damaged),
    ("AnabranchDiskFull", small_disk),
    ("AnabranchTombstones", tombstones),
    ("AnabranchRetiredPairs", retired_pairs),
    ("AnabranchPairsForgotten", forgotten_pairs),
    ("AnabranchConnectionsRefused", too_many_clients),
    ("AnabranchLimitReached", too_large_a_unit),
    ("AnabranchClockAhead", clock_ahead),
    ("AnabranchClockApart", clock_apart),
    ("AnabranchCertificateEnds", certificate_ends),
    ("AnabranchInternalErrors", internal_error),
]
