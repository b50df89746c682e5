"""One run: regions, clients and faults; then the end of all faults, and the judges."""

from __future__ import annotations

import re
import shlex
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from anabranch.chaos import draining, judges, report, taped
from anabranch.chaos.breaking import Breaker
from anabranch.chaos.clients import Client, Workplace, connect
from anabranch.chaos.consumers import GROUP, Consumer
from anabranch.chaos.final_state import FinalState, RegionState
from anabranch.chaos.history import History
from anabranch.chaos.lookers import Looker
from anabranch.chaos.observer import Observer
from anabranch.chaos.other_build import INTERPRETED, OtherBuild
from anabranch.chaos.plan import KINDS, Plan, draw
from anabranch.chaos.producers import JOBS, IdempotentProducer, Producer
from anabranch.chaos.regions import ChaosRegions
from anabranch.chaos.removers import Remover, Trimmer
from anabranch.chaos.tailers import Tailer
from anabranch.cluster.errors import ClusterError, ConnectionFailed

# Time for which clients go on after the last fault.
CALM_S: Final = 1.0
JOIN_S: Final = 30.0
HISTORY: Final = "history.jsonl"
# Lines of a region's log that are no consequence of a fault.
BAD_LINE: Final = re.compile(r"Traceback|CRITICAL|DIVERGENCE|is in recovery|AssertionError")


@dataclass(frozen=True)
class Options:
    """What a run is asked for.

    `rate`: adds per second of all producers; `out`: its directory; `has_tapes`: whether the regions
    write tapes for the twin, if no other version takes part, whose tapes may be others.
    """

    seed: int
    seconds: float
    out: Path
    regions: int = 3
    kinds: Sequence[str] = KINDS
    fsync: str = "always"
    rate: float = 200.0
    level_bound_s: float = 60.0
    keeps_data: bool = False
    restart_with: str = ""
    has_tapes: bool = True

    @property
    def is_taped(self) -> bool:
        """Whether the regions write tapes."""
        return self.has_tapes and self.restart_with in ("", INTERPRETED)

    def command(self) -> str:
        """The command line that makes the same plan."""
        faults = "" if tuple(self.kinds) == KINDS else f" --faults '{','.join(self.kinds)}'"
        other = f" --restart-with {shlex.quote(self.restart_with)}" if self.restart_with else ""
        tapes = "" if self.has_tapes else " --no-tapes"
        return (
            f"anabranch chaos --seed {self.seed} --seconds {self.seconds:g}"
            f" --regions {self.regions} --appendfsync {self.fsync} --rate {self.rate:g}"
            f"{faults}{other}{tapes}"
        )


class ChaosFailed(Exception):
    """The run itself could not go on: a thread of it failed, or regions did not start."""


def run(options: Options, say: Callable[[str], None]) -> report.Outcome:
    """Runs the plan of a seed in `options.out`, which must be empty, and judges it.

    A run without violations removes the data and logs of the regions, unless they are to be kept.
    Raises ChaosFailed, ToxiproxyMissing, ToxiproxyError and NoSuchBuild; what there is stays then.
    """
    history = History()
    plan = draw(options.seed, options.seconds, options.regions, options.kinds, options.fsync)
    other = OtherBuild(options.restart_with) if options.restart_with else None
    tape_bytes = taped.BYTES_MAX if options.is_taped else 0
    regions = ChaosRegions(plan, options.out, other, tape_bytes)
    with ExitStack() as stack:
        stack.callback(regions.close)
        try:
            regions.start_toxiproxy()
            regions.begin_all()
            outcome = _run(options, plan, regions, history, say)
            if other is not None:
                restarts = sum(regions.starts.values()) - len(regions.starts)
                outcome.notes.append(f"{restarts} restarts, each to the other build: {other.shown}")
        except (ClusterError, ConnectionFailed) as error:
            raise ChaosFailed(str(error)) from None
        finally:
            history.write(options.out / HISTORY)
    if options.is_taped:
        say("the twin judges the tapes")
        data = {name: region.data for name, region in regions.regions.items()}
        outcome.violations["twin"], seen = taped.judge(data)
        outcome.notes += seen
    if not outcome.failed and not options.keeps_data:
        for name, region in regions.regions.items():
            shutil.rmtree(options.out / name, ignore_errors=True)
            region.log.unlink(missing_ok=True)
        (options.out / HISTORY).unlink()
        regions.toxiproxy.log.unlink(missing_ok=True)
    return outcome


def _run(
    options: Options,
    plan: Plan,
    regions: ChaosRegions,
    history: History,
    say: Callable[[str], None],
) -> report.Outcome:
    ports = {name: region.resp_port for name, region in regions.regions.items()}
    place = Workplace(ports, history, options.seed)
    _make_group(ports[plan.names[0]])
    regions.level()
    say(f"seed {options.seed}: {len(plan.faults)} faults in {options.seconds:g} s")
    history.began_s = time.monotonic()
    observers = [Observer(name, port, history) for name, port in ports.items()]
    clients = _clients(place, options.rate)
    breaker = Breaker(plan, regions, place)
    for thread in (*observers, *clients, breaker):
        thread.start()
    try:
        _wait(plan, breaker, clients)
    finally:
        breaker.stop()
        breaker.join()
    _check(breaker, clients)
    breaker.heal()
    faults_end_s = history.now_s()
    say("all faults are over")
    for name in plan.names:
        regions.await_answer(name)
    place.stop.wait(CALM_S)
    place.stop.set()
    for client in clients:
        client.join(JOIN_S)
        if client.is_alive():
            raise ChaosFailed(f"{client.name} does not end")
    _check(breaker, clients)
    final = _level(regions, options, faults_end_s, history)
    for observer in observers:
        observer.stop()
    draining.drain(final, regions, place)
    for observer in observers:
        observer.join()
    _collect_alarms(final, regions)
    case = judges.Case(history, final, options.fsync == "always", (JOBS,))
    notes = [f"toxiproxy died {regions.toxiproxy_restarts} times and was started again"]
    notes = notes if regions.toxiproxy_restarts else []
    notes += [f"{one.fault.kind}: {one.note}" for one in breaker.struck if one.note]
    return report.Outcome(
        plan,
        options.command(),
        history,
        final,
        breaker.struck,
        [sample for observer in observers for sample in observer.samples],
        faults_end_s,
        judges.judge(case),
        notes,
    )


def _make_group(port: int) -> None:
    client: Any = connect(port)
    client.execute_command("XGROUP", "CREATE", JOBS, GROUP, "0", "MKSTREAM")
    client.close()


def _clients(place: Workplace, rate: float) -> list[Client]:
    """One client of each kind for each region, and two consumers; one trimmer for all."""
    each = rate / len(place.ports)
    clients: list[Client] = []
    for name in place.ports:
        clients.append(Producer(place, f"plain-{name}", name, each * 0.75))
        clients.append(IdempotentProducer(place, f"idmp-{name}", name, each * 0.25))
        clients += [Consumer(place, f"consumer-{name}-{number}", name) for number in (1, 2)]
        clients.append(Tailer(place, f"tailer-{name}", name))
        clients.append(Remover(place, f"remover-{name}", name, 3.0))
        clients.append(Looker(place, f"looker-{name}", name))
    clients.append(Trimmer(place, "trimmer", next(iter(place.ports)), 4.0))
    return clients


def _wait(plan: Plan, breaker: Breaker, clients: list[Client]) -> None:
    """Waits for the end of the faults; ChaosFailed if a thread of the run failed."""
    end_s = time.monotonic() + plan.seconds
    while time.monotonic() < end_s or breaker.is_alive():
        _check(breaker, clients)
        time.sleep(0.2)


def _check(breaker: Breaker, clients: list[Client]) -> None:
    threads: list[Breaker | Client] = [breaker, *clients]
    for thread in threads:
        if thread.error is not None:
            raise ChaosFailed(f"{thread.name} failed: {thread.error!r}") from thread.error


def _level(
    regions: ChaosRegions, options: Options, faults_end_s: float, history: History
) -> FinalState:
    """Waits until all regions hold the same; notes how long that took since the faults ended."""
    left_s = options.level_bound_s - (history.now_s() - faults_end_s)
    final = FinalState([RegionState(name) for name in regions.regions], None, options.level_bound_s)
    try:
        regions.level(max(left_s, 1.0))
        final.level_s = history.now_s() - faults_end_s
    except (ClusterError, ConnectionFailed) as error:
        final.level_text = str(error)
    return final


def _collect_alarms(final: FinalState, regions: ChaosRegions) -> None:
    regions.note_deaths()
    for region in final.regions:
        region.deaths = regions.deaths[region.name]
        log = regions.regions[region.name].log
        lines = log.read_text(errors="replace").splitlines() if log.exists() else []
        region.snapshots = sum("joined a snapshot of" in line for line in lines)
        region.bad_lines = [line for line in lines if BAD_LINE.search(line)]
