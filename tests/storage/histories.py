"""Random histories of a small cluster whose regions crash at any time (`tests.storage.region`)."""

from __future__ import annotations

from random import Random
from typing import Any

from anabranch.region.engine.replies import ErrorReply
from tests.storage.region import KEYS, NAMES, Clock, Region

GROUPS = [b"g", b"h"]
CONSUMERS = [b"anna", b"bert"]

# Tiny limits: a short history has many nodes, blocks and slices, and its log soon exceeds a limit.
TINY: dict[str, int | str] = {
    "stream-node-max-entries": 2,
    "crdt-block-max-bytes": 120,
    "crdt-slice-max-bytes": 60,
    "crdt-log-max-bytes": 600,
    "crdt-start-patience-ms": 0,
    "crdt-sync-interval-ms": 0,
    "crdt-expiry-grace-ms": 20,
    "crdt-collect-interval-ms": 1,
    "stream-idmp-duration": 1,
    "stream-idmp-maxsize": 2,
    "crdt-xadd-id-uniqueness-mode": "liberal",
}


class Cluster:
    """Regions that share one clock and one `Random`.

    `looks` is the share of transactions after which the disk is judged. If `collects`, the regions
    gossip and drop state that is causally stable. `values` overrides settings in `TINY`.
    """

    def __init__(
        self,
        seed: int,
        regions: int = 2,
        looks: float = 1.0,
        collects: bool = False,
        values: Any = None,
    ) -> None:
        self.seed = seed
        self.rng = Random(seed)
        self.looks = looks
        self.collects = collects
        self.clock = Clock(1000)
        self.values: dict[str, int | str] = {**TINY, **(values or {})}
        if not collects:
            self.values["crdt-collect-interval-ms"] = 1 << 40
        self.members = dict(list(NAMES.items())[:regions])
        # The share of commands on whole keys, such as DEL, that other commands replace. In calm
        # histories groups and nodes live long.
        self.calm = self.rng.choice([0.0, 0.8, 0.95])
        self.regions = [Region(self, name) for name in self.members]

    def __repr__(self) -> str:
        return f"seed {self.seed}, {len(self.regions)} regions"

    def play(self, steps: int) -> None:
        for _ in range(steps):
            self.step(self.rng.choice(self.regions))
        for region in self.regions:
            region.commit_all()
            region.crash()

    def step(self, region: Region) -> None:
        rng = self.rng
        if rng.random() < 0.5:
            self.clock.passes(rng.choice([1, 1, 1, 5, 40]))
        dice = rng.random()
        if dice < 0.5:
            self.command(region)
        elif dice < 0.58:
            region.take_commit()
        elif dice < 0.64:
            region.write()
        elif dice < 0.65:
            region.fail()
        elif dice < 0.75:
            region.begin_checkpoint()
        elif dice < 0.80:
            region.step()
        elif dice < 0.85:
            region.step_checkpoint()
        elif dice < 0.94:
            others = [one for one in self.regions if one is not region]
            if others:
                region.pull(rng.choice(others))
        elif dice < 0.99:
            for other in self.regions:
                if self.collects and other is not region:
                    region.engine.peers.hear(other.engine.peers.gossip(), self.clock.wall_ms)
            region.driver.tick()
        else:
            region.crash()

    def pull_all(self, rounds: int) -> None:
        """Every region pulls from every other region, so many times."""
        for _ in range(rounds):
            for region in self.regions:
                for peer in self.regions:
                    if peer is not region:
                        region.pull(peer)
                        region.commit_all()

    def command(self, region: Region) -> None:
        rng = self.rng
        if rng.random() < 0.08:
            region.say("MULTI")
            for _ in range(rng.randrange(1, 4)):
                region.say(*self.words(region))
            region.say("EXEC")
        else:
            region.say(*self.words(region))

    def words(self, region: Region) -> list[object]:
        """The words of a random command."""
        rng = self.rng
        key = rng.choice(KEYS)
        group = rng.choice(GROUPS)
        consumer = rng.choice(CONSUMERS)
        one = region.some_id
        dice = rng.randrange(100)
        if dice >= 86 and rng.random() < self.calm:
            dice = rng.randrange(67)
        fields: list[object] = [rng.choice([b"f", b"a longer field"]), b"v%d" % rng.randrange(1000)]
        if rng.random() < 0.1:
            fields += [b"second", b"x" * rng.randrange(200)]
        if dice < 22:
            return ["XADD", key, "*", *fields]
        if dice < 25:
            return ["XADD", key, "MAXLEN", rng.randrange(4), "*", *fields]
        if dice < 31:
            return [
                "XADD",
                key,
                "IDMP",
                rng.choice([b"p", b"q"]),
                rng.choice([b"i", b"j", b"k", b"l"]),
                "*",
                *fields,
            ]
        if dice < 38:
            return ["XGROUP", "CREATE", key, group, rng.choice([b"0", b"$", one()]), "MKSTREAM"]
        if dice < 52:
            words: list[object] = [
                "XREADGROUP",
                "GROUP",
                group,
                consumer,
                "COUNT",
                rng.randrange(1, 4),
            ]
            if rng.random() < 0.2:
                words.append("NOACK")
            return [*words, "STREAMS", key, ">" if rng.random() < 0.8 else "0"]
        if dice < 60:
            return ["XACK", key, group, one(), one(), one()]
        if dice < 63:
            words = ["XCLAIM", key, group, consumer, 0, one(), one()]
            return words + rng.choice(
                [[], ["FORCE"], ["LASTID", one()], ["JUSTID"], ["RETRYCOUNT", 7]]
            )
        if dice < 65:
            return ["XAUTOCLAIM", key, group, consumer, 0, "0", "COUNT", 2]
        if dice < 67:
            return ["XGROUP", "DELCONSUMER", key, group, consumer]
        if dice < 69:
            return ["XGROUP", "SETID", key, group, rng.choice([b"0", b"$", one()])]
        if dice < 70:
            return ["XGROUP", "CREATECONSUMER", key, group, consumer]
        if dice < 72:
            return ["XGROUP", "DESTROY", key, group]
        if dice < 77:
            return ["XDEL", key, one(), one()]
        if dice < 79:
            return ["XDELEX", key, rng.choice(["KEEPREF", "DELREF", "ACKED"]), "IDS", 1, one()]
        if dice < 80:
            return [
                "XACKDEL",
                key,
                group,
                rng.choice(["KEEPREF", "DELREF", "ACKED"]),
                "IDS",
                1,
                one(),
            ]
        if dice < 84:
            return ["XTRIM", key, "MAXLEN", *rng.choice([["="], ["~"]]), rng.randrange(5)]
        if dice < 86:
            return ["XTRIM", key, "MAXLEN", "=", rng.randrange(3), rng.choice(["DELREF", "ACKED"])]
        if dice < 88:
            return ["XSETID", key, f"{self.clock.wall_ms + rng.randrange(5)}-0"]
        if dice < 90:
            return [
                "XCFGSET",
                key,
                "IDMP-DURATION",
                rng.randrange(1, 3),
                "IDMP-MAXSIZE",
                rng.randrange(1, 4),
            ]
        if dice < 93:
            return ["DEL", key]
        if dice < 95 and rng.random() < 0.7:
            return ["RENAME", key, rng.choice(KEYS)]
        if dice < 96:
            return ["FLUSHALL"]
        if dice < 99:
            return ["PEXPIRE", key, rng.randrange(1, 60)]
        return ["PERSIST", key]


def is_error(reply: object) -> bool:
    return isinstance(reply, ErrorReply)


def one_region(**values: int | str) -> Region:
    named = {name.replace("_", "-"): value for name, value in values.items()}
    cluster = Cluster(
        1,
        regions=1,
        looks=1.0,
        values={"crdt-slice-max-bytes": 1 << 20, "crdt-log-max-bytes": 1 << 20, **named},
    )
    return cluster.regions[0]
