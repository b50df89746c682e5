"""Files and directories of scenarios, run in virtual time or on live regions.

Live, all files share one cluster: an existing one, or processes started for the purpose. Files
that set deadlines run last. A file that earlier files would disturb gets a new cluster, and is
refused on an existing one (`live`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from anabranch.cluster.client import RespClient
from anabranch.cluster.errors import ClusterError, ConnectionFailed
from anabranch.cluster.ports import HOST
from anabranch.cluster.regions import ProcessCluster, peers_of
from anabranch.region.resp.decoder import ErrorText
from anabranch.sim.plan import REGION_NAMES
from anabranch.sim.scenario.admins import ANSWER_PATIENCE_S, Endpoint
from anabranch.sim.scenario.leftovers import deadline_keys
from anabranch.sim.scenario.live import LiveCluster
from anabranch.sim.scenario.mismatch import Mismatch
from anabranch.sim.scenario.model import Scenario, ScenarioError
from anabranch.sim.scenario.parser import load
from anabranch.sim.scenario.runner import run_scenario
from anabranch.sim.timeline.files import DrawingError, Part, drawn, targets, write

_MEMBERS_AT_LEAST = 3


@dataclass(frozen=True)
class Outcome:
    """The result of one file. `mismatches` is empty if the file passed."""

    path: str
    title: str
    mismatches: tuple[Mismatch, ...]
    duration_ms: int

    @property
    def passed(self) -> bool:
        """Whether all replies were as expected."""
        return not self.mismatches

    def __str__(self) -> str:
        state = "passed" if self.passed else "FAILED"
        return "\n".join(
            [
                f"{state} {self.path} ({self.title}, {self.duration_ms} ms)",
                *(f"  {one}" for one in self.mismatches),
            ]
        )


Report = Callable[[Outcome], None]


@dataclass(frozen=True)
class Drawing:
    """The drawings that are asked for: OUT is a file or a directory (`targets`)."""

    out: Path
    part: Part


def scenario_files(paths: Iterable[str | Path]) -> list[Path]:
    """The given files, and the ``*.md`` files of directories by name; README.md is prose."""
    found: list[Path] = []
    for path in map(Path, paths):
        found += (
            sorted(one for one in path.glob("*.md") if one.name != "README.md")
            if path.is_dir()
            else [path]
        )
    return found


def run_virtually(
    paths: Sequence[str | Path], report: Report, drawing: Drawing | None = None
) -> int:
    """Runs files and directories in virtual time, each scenario in its own world.

    With `drawing`, writes a drawing of each run, also of one that fails. Returns how many files
    failed, as `run` does. Raises `DrawingError` if a drawing cannot be made or written.
    """
    from anabranch.sim.scenario import virtual
    from anabranch.sim.scenario.drawing import run_recorded
    from anabranch.sim.scenario.judged import not_judged

    scenarios, failed = _loaded(paths, report)
    files: dict[Path, Path] = {}
    if drawing is not None:
        is_one = len(paths) == 1 and not Path(paths[0]).is_dir()
        files = targets(scenario_files(paths), drawing.out, is_one)
    for scenario in scenarios:
        begun = time.monotonic()
        if mismatches := not_judged(scenario):
            failed += _tell(report, scenario, mismatches, begun)
            continue
        if drawing is None:
            mismatches, _ = virtual.run_virtually(scenario)
        else:
            timeline, mismatches, _ = run_recorded(scenario)
        failed += _tell(report, scenario, mismatches, begun)
        if drawing is not None and timeline is not None:
            path = Path(scenario.path)
            try:
                write(drawn(timeline, drawing.part), files[path])
            except DrawingError as error:
                raise DrawingError(f"{path}: {error}") from error
    return failed


def run(
    paths: Iterable[str | Path],
    addresses: Sequence[str] | None,
    report: Report,
    password: str | None = None,
) -> int:
    """Runs files and directories on the cluster at `addresses` (HOST:PORT each), or on a new one.

    `report` receives each file's `Outcome` as it ends; ``print`` will do. Returns how many files
    failed. Raises `ClusterError` if no scenario can run at all: no file, an address that does not
    answer or is not empty, a region that does not start.
    """
    scenarios, failed = _loaded(paths, report)
    scenarios.sort(key=lambda scenario: bool(deadline_keys(scenario)))
    runner = (
        _Existing(discover(addresses, password))
        if addresses
        else _Own(max([_MEMBERS_AT_LEAST, *(each.members for each in scenarios)]))
    )
    try:
        for scenario in scenarios:
            begun = time.monotonic()
            failed += _tell(
                report, scenario, run_scenario(scenario, runner.cluster_for(scenario)), begun
            )
    finally:
        runner.close()
    return failed


def _loaded(paths: Iterable[str | Path], report: Report) -> tuple[list[Scenario], int]:
    """The scenarios that can be read, and the number of those that cannot."""
    files = scenario_files(paths)
    if not files:
        raise ClusterError("there is no scenario file at these paths")
    scenarios: list[Scenario] = []
    failed = 0
    for path in files:
        try:
            scenarios.append(load(path))
        except ScenarioError as error:
            failed += 1
            mismatch = Mismatch(
                str(path), error.line, "reading", "file", "", "a scenario", error.text
            )
            report(Outcome(str(path), path.stem, (mismatch,), 0))
    return scenarios, failed


def _tell(report: Report, scenario: Scenario, mismatches: list[Mismatch], begun: float) -> bool:
    """Reports the result of a file; whether the file failed."""
    report(
        Outcome(
            scenario.path, scenario.title, tuple(mismatches), int(1000 * (time.monotonic() - begun))
        )
    )
    return bool(mismatches)


def discover(addresses: Sequence[str], password: str | None = None) -> dict[int, Endpoint]:
    """region_id → endpoint of the regions at these HOST:PORT addresses.

    A region is the one that the others list as a peer and that does not list itself.
    """
    peers: dict[str, set[tuple[str, int]]] = {}
    for address in addresses:
        host, _, port = address.rpartition(":")
        if not host or not port.isdigit():
            raise ClusterError(f"an address is HOST:PORT, not '{address}'")
        try:
            with RespClient(host, int(port), ANSWER_PATIENCE_S, password) as client:
                reply, held = client.call("CRDT.PEERS"), client.call("DBSIZE")
        except ConnectionFailed as error:
            raise ClusterError(str(error)) from error
        if isinstance(reply, ErrorText):
            raise ClusterError(f"{address}: {reply.text}")
        if held != 0:
            raise ClusterError(
                f"{address} holds {held!r} keys: scenarios flush the cluster on which they run,"
                " so give them an empty one"
            )
        peers[address] = {(name, region_id) for name, region_id, _ in peers_of(reply)}
    everybody = set().union(*peers.values())
    endpoints: dict[int, Endpoint] = {}
    for address, known in peers.items():
        own = everybody - known
        if len(own) != 1:
            raise ClusterError(
                f"{address}: the lists of peers do not tell which region this is;"
                " give the addresses of all regions of one cluster"
            )
        name, region_id = own.pop()
        host, _, port = address.rpartition(":")
        endpoints[region_id] = Endpoint(name, host, int(port), password)
    if len(endpoints) < len(addresses) or sorted(endpoints) != list(range(1, len(endpoints) + 1)):
        raise ClusterError(
            "scenarios need regions with the ids 1, 2, 3 …;"
            f" these addresses are of {sorted(endpoints)}"
        )
    return endpoints


class _Existing:
    """The existing cluster: used for all scenarios, left empty and with its links open."""

    def __init__(self, endpoints: Mapping[int, Endpoint]) -> None:
        self._cluster = LiveCluster(endpoints)

    def cluster_for(self, scenario: Scenario) -> LiveCluster:
        """The existing cluster."""
        return self._cluster

    def close(self) -> None:
        """Clears the cluster, if it still answers."""
        if not self._cluster.broken:
            self._cluster.clear()
        self._cluster.disconnect()


class _Own:
    """Processes started here; new ones where the old ones would disturb a scenario."""

    def __init__(self, members: int) -> None:
        self._names = REGION_NAMES[:members]
        self._processes: ProcessCluster | None = None
        self._cluster: LiveCluster | None = None

    def cluster_for(self, scenario: Scenario) -> LiveCluster:
        """A cluster on which the scenario can run."""
        if self._cluster is None or self._cluster.fits(scenario):
            self.close()
            self._processes = ProcessCluster(self._names)
            self._processes.start_all()
            regions = self._processes.regions.values()
            endpoints = {one.region_id: Endpoint(one.name, HOST, one.resp_port) for one in regions}
            self._cluster = LiveCluster(endpoints, self._processes)
        return self._cluster

    def close(self) -> None:
        """Ends the processes."""
        if self._cluster is not None:
            self._cluster.disconnect()
        if self._processes is not None:
            self._processes.close()
        self._cluster = self._processes = None
