"""Regions that run out of memory: each ends or goes on, equal to its peer, and loses nothing.

Each run starts the regions us and eu. One of them is the victim: while clients write to both, it
gets no more memory, by a limit of its address space (`--way ulimit`), or by allocations that fail
from a drawn call on (`--way allocation`). Then memory is there again. If the victim has ended, its
files are checked, and it is started again. Every answered write must be in both regions, their
digests must be equal, and no link may be forked or have met a gap.

    anabranch bench acceptance.out_of_memory --runs 200 --way ulimit
    anabranch bench acceptance.out_of_memory --runs 200 --way allocation
"""

from __future__ import annotations

import argparse
import random
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from anabranch import build
from anabranch.bench.acceptance import failing_allocation
from anabranch.bench.acceptance.promised_writes import CALL_PATIENCE_S, KINDS, Client
from anabranch.bench.harness import ALARM_WORDS, Figures, show_build
from anabranch.cluster.errors import ClusterError, ConnectionFailed
from anabranch.cluster.processes import wait_until
from anabranch.cluster.regions import ProcessCluster, RegionProcess

WAYS = ("ulimit", "allocation")
NAMES = ("us", "eu")
# Bytes of address space that a victim gets beyond what it has mapped, or maps when idle.
_MORE_BYTES = (1 << 18, 1 << 20, 4 << 20, 16 << 20, 40 << 20)
_START_MORE_BYTES = (-(64 << 20), 0, 4 << 20, 16 << 20, 64 << 20)
_UNLIMITED = resource.RLIM_INFINITY
_PEER_CLIENTS = 3
_LEVEL_PATIENCE_S = 60.0
_EXIT_PATIENCE_S = 20.0
_SHOWN_EVERY = 20


@dataclass(frozen=True)
class Plan:
    """One run, drawn from its seed.

    `at_start`: the victim starts without enough memory, and not only runs out of it. `cut_s`: time
    in which the links are cut before, so that the victim may have to join a snapshot. `write_s`:
    time of writes with enough memory, and then without.
    """

    seed: str
    victim: str
    settings: dict[str, str]
    at_start: bool
    more_bytes: int
    failures: failing_allocation.Failures
    plain_objects: bool
    cut_s: float
    write_s: tuple[float, float]


def drawn(seed: str, way: str) -> Plan:
    """Draws the plan of a run."""
    draw = random.Random(seed)
    settings = {
        "appendfsync": "always",
        "crdt-checkpoint-interval-ms": draw.choice(["50", "300", "2000"]),
        "crdt-log-max-effects": draw.choice(["0", "300"]),
        "crdt-snapshot-patience-ms": "300",
        "stream-node-max-entries": draw.choice(["4", "100"]),
        "crdt-log-tail-max-bytes": draw.choice(["64kb", "16mb"]),
        "crdt-compression": draw.choice(["zstd", "none"]),
        "stream-idmp-duration": "86400",
        "stream-idmp-maxsize": "10000",
    }
    at_start = draw.random() < 0.2
    return Plan(
        seed,
        draw.choice(NAMES),
        settings,
        at_start,
        draw.choice(_START_MORE_BYTES if at_start else _MORE_BYTES) + draw.randrange(1 << 20),
        failing_allocation.drawn(draw),
        way == "allocation" and draw.random() < 0.5,
        draw.choice([0.0, 0.0, 0.4]),
        (draw.choice([0.0, 0.2]), draw.choice([0.5, 1.0])),
    )


class Victims(ProcessCluster):
    """A cluster in which one region runs out of memory.

    `idle_bytes`: the address space of an idle region. `library`: the one of failing allocations;
    None limits the address space.
    """

    def __init__(self, plan: Plan, idle_bytes: int, library: Path | None) -> None:
        super().__init__(NAMES, settings=plan.settings)
        self.plan = plan
        self._idle_bytes = idle_bytes
        self._library = library
        self.switch = failing_allocation.Switch(self.directory / "failing_allocation")
        self.lacks_memory = False

    @property
    def victim(self) -> RegionProcess:
        return self[self.plan.victim]

    def program(self, name: str) -> tuple[list[str], dict[str, str]]:
        line, environment = super().program(name)
        # A process that crashes, or hangs and is aborted, prints the stacks of its threads.
        environment = {**environment, "PYTHONFAULTHANDLER": "1"}
        if name != self.plan.victim:
            return line, environment
        if self._library is not None:
            environment = {**environment, **self.switch.environment(self._library)}
            if self.plan.plain_objects:
                environment["PYTHONMALLOC"] = "malloc"
        elif self.lacks_memory:
            limit_kib = (self._idle_bytes + self.plan.more_bytes) >> 10
            line = ["sh", "-c", 'ulimit -S -v "$0" && exec "$@"', str(limit_kib), *line]
        return line, environment

    def take_memory(self) -> None:
        """The victim gets no more memory, now or from its next start on."""
        self.lacks_memory = True
        if self._library is not None:
            self.switch.on(self.plan.failures)
        elif self.victim.running:
            limit_space(self.victim.pid(), mapped_bytes(self.victim) + self.plan.more_bytes)

    def give_memory(self) -> None:
        """The victim gets as much memory as it wants, if it still runs."""
        self.lacks_memory = False
        self.switch.off()
        if self.victim.running:
            limit_space(self.victim.pid(), _UNLIMITED)


def mapped_bytes(region: RegionProcess) -> int:
    """The address space that a region uses; 0 if it ends just now."""
    try:
        pages = Path(f"/proc/{region.pid()}/statm").read_text(encoding="ascii").split()[0]
    except (OSError, IndexError):
        return 0
    return int(pages) * resource.getpagesize()


def limit_space(process_id: int, bytes_max: int) -> None:
    """Limits the address space of a running process, unless it has just ended."""
    try:
        resource.prlimit(process_id, resource.RLIMIT_AS, (bytes_max, _UNLIMITED))
    except ProcessLookupError:
        return


class Run:
    """One run. `outcome` says how the victim fared, `wrong` what must not be."""

    def __init__(self, cluster: Victims) -> None:
        self.cluster = cluster
        self.plan = cluster.plan
        self.outcome = ""
        self.wrong: list[str] = []
        self.answered = 0
        self.joined = 0
        self.clients: list[Client] = []

    def perform(self) -> None:
        """Performs the run."""
        cluster, plan = self.cluster, self.plan
        cluster.start_all()
        peer = next(name for name in NAMES if name != plan.victim)
        if plan.cut_s:
            cluster.cut(*NAMES)
        self._clients(cluster.victim, len(KINDS))
        self._clients(cluster[peer], _PEER_CLIENTS)
        if plan.at_start:
            time.sleep(plan.write_s[0] + plan.cut_s)
            cluster.stop(plan.victim)
            cluster.take_memory()
            cluster.start(plan.victim, wait=False)
            self._clients(cluster.victim, len(KINDS), is_starting=True)
        else:
            time.sleep(plan.write_s[0] + plan.cut_s)
            cluster.take_memory()
        if plan.cut_s:
            self._heal()
        wait_until(lambda: not cluster.victim.running, plan.write_s[1])
        self._recover()
        self._judge()
        self.answered = sum(one.answered for one in self.clients)

    def _clients(self, region: RegionProcess, count: int, is_starting: bool = False) -> None:
        if is_starting and not wait_until(
            lambda: not region.running or region.answers(), self.plan.write_s[1]
        ):
            return
        made = [
            kind(region, len(self.clients) + n, self.plan.seed)
            for n, kind in enumerate(KINDS[-count:])
        ]
        self.clients += made
        for one in made:
            one.start()

    def _heal(self) -> None:
        for name in NAMES:
            other = next(one for one in NAMES if one != name)
            try:
                self.cluster.link(name, other, "UP")
            except (ClusterError, ConnectionFailed):
                pass  # The victim may be gone, or refuse for want of memory.

    def _recover(self) -> None:
        """Memory is there again. The clients end, and the victim is started again if it ended."""
        cluster, plan = self.cluster, self.plan
        for one in self.clients:
            one.stop()
        cluster.give_memory()
        for one in self.clients:
            one.join()
            self.wrong += one.wrong
        region = cluster.victim
        refusal = ""

        def ends_or_serves() -> bool:
            nonlocal refusal
            refusal = _refusal(region)
            return not region.running or not refusal

        wait_until(ends_or_serves, _EXIT_PATIENCE_S, 0.1)
        if refusal:
            try:
                code = region.started().wait(_EXIT_PATIENCE_S)
            except subprocess.TimeoutExpired:
                self.wrong.append(f"the victim neither ended nor served: {refusal}")
                self.outcome = "hung"
                region.started().send_signal(signal.SIGABRT)
                code = region.started().wait(_EXIT_PATIENCE_S)
            self.outcome = self.outcome or f"ended with {code}"
            if code == 0:
                self.wrong.append("the victim ended as if nothing had been wrong")
            self._check(region)
            cluster.start(plan.victim)
        else:
            self.outcome = "went on"
        self._heal()

    def _check(self, region: RegionProcess) -> None:
        """`anabranch check` reads all of the files that a process left behind."""
        line = [*build.command(), "check", str(region.data)]
        done = subprocess.run(
            line, env=build.environment(), capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            self.wrong.append(f"anabranch check: {done.stdout}{done.stderr}")

    def _are_equal(self) -> bool:
        """Whether the digests are equal. A deadline may pass between the two questions."""
        self.cluster.level(_LEVEL_PATIENCE_S)
        return len({self.cluster[name].digest() for name in NAMES}) == 1

    def _judge(self) -> None:
        """Both regions must be level and equal, and hold what was promised."""
        cluster = self.cluster
        regions = [cluster[name] for name in NAMES]
        if not wait_until(lambda: all(_is_up(one) for one in regions), _LEVEL_PATIENCE_S):
            self.wrong.append(f"links: {[one.links() for one in regions]}")
            return
        for one in self.clients:
            with one.region.connect(CALL_PATIENCE_S) as client:
                one.settle(client)
        if not wait_until(self._are_equal, _LEVEL_PATIENCE_S):
            self.wrong.append("unequal digests")
        for region in regions:
            with region.connect(CALL_PATIENCE_S) as client:
                for one in self.clients:
                    if broken := one.broken(client):
                        self.wrong.append(f"in {region.name}: {one.key}: {broken}")
            figures = region.info()
            for field, value in figures.items():
                if any(word in field for word in (*ALARM_WORDS, "crdt_gaps", "crdt_damage")):
                    if value not in ("0", "", "no"):
                        self.wrong.append(f"{region.name}: {field} is {value}")
            self.joined += int(figures["crdt_snapshots_joined"])
        for region in regions:
            cluster.stop(region.name)
            self._check(region)


def _refusal(region: RegionProcess) -> str:
    """Why a region takes no write to its disk, now that there is memory; empty if it does."""
    try:
        with region.connect(CALL_PATIENCE_S) as client:
            reply = client.call("XADD", "probe", "*", "f", "v")
            return "" if isinstance(reply, bytes) else repr(reply)
    except ConnectionFailed as error:
        return str(error)


def _is_up(region: RegionProcess) -> bool:
    return all(state == "up" for state in region.links().values())


def idle_space(figures: Figures) -> int:
    """The address space of an idle region, in bytes."""
    with ProcessCluster(NAMES[:1]) as cluster:
        region = cluster.start(NAMES[0])
        show_build(figures, region)
        return mapped_bytes(region)


def run_all(runs: int, way: str, seed: int, first: int = 0) -> Figures:
    """Performs the runs `first`, `first` + 1 and so on. A run that fails keeps its directory."""
    figures = Figures(f"{runs} runs without memory, by {way}, seed {seed}")
    outcomes: Counter[str] = Counter()
    totals: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="anabranch-") as made:
        library = failing_allocation.library(Path(made)) if way == "allocation" else None
        idle_bytes = idle_space(figures)
        for number in range(first, first + runs):
            plan = drawn(f"{seed}/{way}/{number}", way)
            with Victims(plan, idle_bytes, library) as cluster:
                run = Run(cluster)
                try:
                    run.perform()
                except (ClusterError, ConnectionFailed) as error:
                    run.wrong.append(str(error))
                outcomes[run.outcome or "unknown"] += 1
                totals["answered"] += run.answered
                totals["joined"] += run.joined
                totals["failed"] += cluster.switch.failed()
                if run.wrong:
                    kept = Path(tempfile.mkdtemp(prefix=f"out-of-memory-{number}-"))
                    shutil.copytree(cluster.directory, kept, dirs_exist_ok=True)
                    what = f"run {number}, {run.outcome or 'unknown'}, kept in {kept}"
                    figures.require(what, False, "; ".join(run.wrong))
                if outcomes.total() % _SHOWN_EVERY == 0:
                    figures.show("runs so far", outcomes.total())
    for outcome, count in sorted(outcomes.items()):
        figures.show(f"victims: {outcome}", count)
    figures.show("answered writes", totals["answered"])
    figures.show("joined snapshots", totals["joined"])
    if way == "allocation":
        figures.show("failed allocations", totals["failed"])
    figures.require("every run ended well", not figures.failures, runs)
    return figures


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="anabranch bench acceptance.out_of_memory", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--way", choices=WAYS, default=WAYS[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first run")
    given = parser.parse_args(arguments)
    return run_all(given.runs, given.way, given.seed, given.first).finish()
