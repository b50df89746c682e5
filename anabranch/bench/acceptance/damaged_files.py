"""Flipped and missing bytes in the files of a region: noticed or harmless, and never served.

Region us is killed under load, and its files are kept. Each trial puts them back, damages one of
them, and starts us. It must refuse to start and name damage, or serve nothing but entries that its
peers hold. After `anabranch repair`, if it refused, it must end with the digest of its peers.
With ``--alone`` there are no peers: us must refuse, or hold exactly what the undamaged files hold.
"""

from __future__ import annotations

import argparse
import random
import shutil
import subprocess
from collections import Counter
from pathlib import Path

from anabranch import build
from anabranch.bench.harness import Figures, show_build, wait_for
from anabranch.cluster.errors import ClusterError, ConnectionFailed
from anabranch.cluster.processes import wait_until
from anabranch.cluster.regions import ProcessCluster, RegionProcess

US, PEERS = "us", ("eu", "ap")
KEYS = 20
FLAGS = {"crdt-checkpoint-interval-ms": "200", "crdt-start-patience-ms": "500"}


def fill(region: RegionProcess, entries: int, first: int = 0) -> None:
    """Adds entries to some keys, with groups that have read and acknowledged a part."""
    with region.connect() as client:
        for number in range(first, first + entries):
            client.call("XADD", f"k{number % KEYS}", "*", "n", str(number), "pad", "x" * 40)
            if number % 50 == 0:
                client.call("XGROUP", "CREATE", f"k{number % KEYS}", "g", "0")
                client.call("XREADGROUP", "GROUP", "g", "c", "COUNT", "3", "STREAMS", "k0", ">")


def contents(region: RegionProcess) -> dict[str, dict[bytes, tuple[bytes, ...]]]:
    """Key → entry ID → fields and values, of all keys."""
    found: dict[str, dict[bytes, tuple[bytes, ...]]] = {}
    with region.connect() as client:
        for number in range(KEYS):
            rows = client.ask("XRANGE", f"k{number}", "-", "+")
            found[f"k{number}"] = {entry_id: tuple(fields) for entry_id, fields in rows}
    return found


def damage(directory: Path, chance: random.Random, truncates: bool) -> str:
    """Damages one byte of one file, or cuts a file off; returns what was done."""
    files = sorted(
        file for file in directory.iterdir() if file.is_file() and file.stat().st_size > 0
    )
    file = chance.choice(files)
    content = bytearray(file.read_bytes())
    place = chance.randrange(len(content))
    if truncates:
        del content[place:]
    else:
        content[place] ^= 1 << chance.randrange(8)
    file.write_bytes(content)
    return f"{file.name} {'cut off at' if truncates else 'flipped at'} {place}"


class Trials:
    """The trials on one cluster. `outcomes` counts how they ended."""

    def __init__(self, cluster: ProcessCluster, figures: Figures) -> None:
        self.cluster = cluster
        self.figures = figures
        self.outcomes: Counter[str] = Counter()
        self.kept = cluster.directory / "kept"
        cluster.kill(US)
        shutil.copytree(cluster[US].data, self.kept)

    def put_back(self) -> None:
        """Ends us, and gives it the undamaged files again."""
        region = self.cluster[US]
        if region.running:
            self.cluster.kill(US)
        shutil.rmtree(region.data)
        shutil.copytree(self.kept, region.data)

    def starts(self) -> bool:
        """Starts us on files that count as moved; whether it answers. A refusal must say why."""
        region = self.cluster[US]
        before = region.log.stat().st_size if region.log.exists() else 0
        try:
            self.cluster.start(US, "--moved")
        except ClusterError:
            said = region.log.read_text(errors="replace")[before:]
            if region.running or "Traceback" in said or "damaged" not in said:
                raise
            return False
        return True

    def fail(self, what: str, found: object) -> None:
        """Reports a trial that must not end so."""
        self.figures.require(what, False, found)

    def alone(self, what: str, digest: str) -> None:
        """A trial without peers."""
        if not self.starts():
            self.outcomes["refused"] += 1
            return
        region = self.cluster[US]
        wait_for(lambda: region.info()["crdt_state"] == "serving", f"{what}: serving")
        if region.digest() != digest:
            self.fail(f"{what}: an undamaged state", region.info().get("crdt_vector"))
        self.outcomes["harmless"] += 1

    def with_peers(self, what: str, truth: dict[str, dict[bytes, tuple[bytes, ...]]]) -> None:
        """A trial with peers that run."""
        region, eu = self.cluster[US], self.cluster[PEERS[0]]
        outcome = "harmless or recovered"
        if not self.starts():
            outcome = "refused, then repaired"
            line = [*build.command(), "repair", str(region.data), "--yes"]
            done = subprocess.run(line, env=build.environment(), capture_output=True, check=False)
            if done.returncode != 0 or not self.starts():
                self.fail(f"{what}: repair", done.stdout + done.stderr)
                return
        for key, entries in contents(region).items():
            wrong = [one for one, fields in entries.items() if truth[key].get(one) != fields]
            if wrong:
                self.fail(f"{what}: served only what peers hold", (key, wrong[:3]))

        def is_recovered() -> bool:
            return region.digest() == eu.digest() and region.info()["crdt_state"] == "serving"

        if wait_until(is_recovered, 60.0, 0.05):
            self.outcomes[outcome] += 1
        else:
            self.fail(f"{what}: equal to its peers", region.info().get("crdt_state"))


def try_all(flips: int, cuts: int, seed: int, is_alone: bool, entries: int = 2000) -> Figures:
    """Runs `flips` trials with a flipped bit and `cuts` with a file cut off."""
    figures = Figures(
        f"{flips:,} flipped bits and {cuts:,} files cut off,"
        f" {'without' if is_alone else 'with'} peers, seed {seed}"
    )
    chance = random.Random(seed)
    with ProcessCluster([US] if is_alone else [US, *PEERS], settings=FLAGS) as cluster:
        if is_alone:
            cluster.start(US)
        else:
            cluster.start_all()
        show_build(figures, cluster[US])
        fill(cluster[US], entries)
        if not is_alone:
            cluster.level()
        digest = cluster[US].digest()
        trials = Trials(cluster, figures)
        truth = {} if is_alone else contents(cluster[PEERS[0]])
        for number in range(flips + cuts):
            trials.put_back()
            what = damage(cluster[US].data, chance, truncates=number >= flips)
            try:
                if is_alone:
                    trials.alone(what, digest)
                else:
                    trials.with_peers(what, truth)
            except (ClusterError, ConnectionFailed) as error:
                trials.fail(what, error)
    for outcome, count in sorted(trials.outcomes.items()):
        figures.show(outcome, count)
    figures.require("every trial ended well", not figures.failures, trials.outcomes.total())
    return figures


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="anabranch bench acceptance.damaged_files", description=__doc__
    )
    parser.add_argument("--flips", type=int, default=400)
    parser.add_argument("--cuts", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--alone", action="store_true", help="without peers")
    given = parser.parse_args(arguments)
    return try_all(given.flips, given.cuts, given.seed, given.alone).finish()
