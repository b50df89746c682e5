"""Scenarios against real regions: an existing cluster, or three processes (more where a file asks for them) started for the purpose.

All files share one cluster. Between two files every link is opened, everything is flushed and shipped, settings are put back, and links
are closed again. What a flush leaves behind are deadlines (S3.3), which go later, by an effect of their own (S10.6). So files that set
deadlines run last; a file that names such a key again, or counts effects after such a file, gets a new cluster, and is refused on an
existing one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sim.scenario.cluster import ClusterError, Link
from sim.scenario.expectation import ErrorText
from sim.scenario.model import Call, Scenario, ScenarioError, Sync
from sim.scenario.parser import load
from sim.scenario.processes import ProcessCluster, vector_of
from sim.scenario.runner import ROUNDS_MAX, Mismatch, run_scenario
from sim.scenario.shape import Reply
from sim.scenario.wire import Wire, WireError

NAMES = ("us", "eu", "ap")
MODE_SETTING = "crdt-xadd-id-uniqueness-mode"
SYNC_PATIENCE_MS = 2000
LINK_PATIENCE_S = 20.0
ANSWER_PATIENCE_S = 30.0
BLOCKED_PROOF_S = 0.15
"""A command that has not answered for so long is taken to be blocked."""
_DEADLINE_COMMANDS = (b"EXPIRE", b"PEXPIRE", b"EXPIREAT", b"PEXPIREAT", b"PERSIST")
_RENAME_COMMANDS = (b"RENAME", b"RENAMENX")


@dataclass(frozen=True)
class Endpoint:
    """Where a region's clients connect."""

    name: str
    host: str
    port: int


@dataclass(frozen=True)
class Outcome:
    """One file, run. `mismatches` is empty when all is as the table says."""

    path: str
    title: str
    mismatches: tuple[Mismatch, ...]
    duration_ms: int

    @property
    def passed(self) -> bool:
        """Whether everything was as expected."""
        return not self.mismatches

    def __str__(self) -> str:
        state = "passed" if self.passed else "FAILED"
        return "\n".join([f"{state} {self.path} ({self.title}, {self.duration_ms} ms)", *(f"  {one}" for one in self.mismatches)])


Report = Callable[[Outcome], None]


class LiveCluster:
    """A `ScenarioCluster` over TCP. Per region one connection carries the scenario's commands and one the runner's own."""

    def __init__(self, endpoints: Mapping[int, Endpoint]) -> None:
        self.endpoints = dict(endpoints)
        self._clients: dict[int, Wire] = {}
        self._admins: dict[int, Wire] = {}
        self._originals: dict[tuple[int, str], str] = {}
        self.deadline_keys: set[bytes] = set()
        self.broken = False

    def fits(self, scenario: Scenario) -> str:
        """Empty if the scenario can run here after what ran before; else why not."""
        if self.broken:
            return "an earlier scenario broke the cluster"
        if scenario.members > len(self.endpoints):
            return f"it needs {scenario.members} regions, and the cluster has {len(self.endpoints)}"
        if self.deadline_keys and any(isinstance(step, Sync) and step.effects for step in scenario.steps):
            return "it counts effects, and deadlines of an earlier scenario may still be on their way out"
        again = sorted(self.deadline_keys & scenario.words)
        return f"key {again[0].decode()} had a deadline in an earlier scenario" if again else ""

    def prepare(self, scenario: Scenario) -> None:
        """See `ScenarioCluster`."""
        why = self.fits(scenario)
        if why:
            raise ClusterError(why)
        self.clear()
        inside = [word.decode().lower() for call in scenario.calls() for word in _settings_named(call)]
        outside = [(MODE_SETTING, scenario.id_mode), *scenario.settings]
        for region in self.endpoints:
            for name in [*inside, *(name for name, _ in outside)]:
                self._originals.setdefault((region, name), self._setting(region, name))
            for name, value in outside:
                self._admin_ok(region, "CONFIG", "SET", name, value)
        self.close_links(self._all_links())
        self.deadline_keys |= _deadline_keys(scenario)

    def clear(self) -> None:
        """Links open, settings as they were, nothing held, in all regions."""
        self._drop_clients()
        for (region, name), value in self._originals.items():
            self._admin_ok(region, "CONFIG", "SET", name, value)
        self._originals = {}
        self.open_links(self._all_links())
        self._level()
        self._admin_ok(min(self.endpoints), "FLUSHALL")
        self._level()
        for region in self.endpoints:
            held = self._admin_call(region, "DBSIZE")
            if held != 0:
                raise ClusterError(f"region {self.endpoints[region].name} holds {held!r} keys after FLUSHALL and sync")

    def execute(self, region: int, argv: Sequence[bytes]) -> Reply:
        """See `ScenarioCluster`."""
        self.begin(region, argv)
        return self.finish(region)

    def begin(self, region: int, argv: Sequence[bytes]) -> None:
        """See `ScenarioCluster`."""
        try:
            if region not in self._clients:
                self._clients[region] = self._connect(region)
            self._clients[region].send(argv)
        except WireError as error:
            raise self._broke(error) from error

    def waits(self, region: int) -> bool:
        """See `ScenarioCluster`."""
        return not self._clients[region].readable(BLOCKED_PROOF_S)

    def finish(self, region: int) -> Reply:
        """See `ScenarioCluster`."""
        try:
            return self._clients[region].read()
        except WireError as error:
            raise self._broke(error) from error

    def open_links(self, links: Iterable[Link]) -> None:
        """See `ScenarioCluster`."""
        wanted = list(links)
        for receiver, sender in wanted:
            self._admin_ok(receiver, "CRDT.LINK", self.endpoints[sender].name, "UP")
        deadline = time.monotonic() + LINK_PATIENCE_S
        waiting = wanted
        while waiting:
            states = {receiver: self._links(receiver) for receiver, _ in waiting}
            waiting = [link for link in waiting if states[link[0]].get(link[1]) != "up"]
            if waiting and time.monotonic() > deadline:
                receiver, sender = waiting[0]
                names = f"{self.endpoints[receiver].name} from {self.endpoints[sender].name}"
                raise ClusterError(f"the link by which {names} receives is {states[receiver].get(sender)} after {LINK_PATIENCE_S} s")
            if waiting:
                time.sleep(0.005)

    def close_links(self, links: Iterable[Link]) -> None:
        """See `ScenarioCluster`."""
        for receiver, sender in links:
            self._admin_ok(receiver, "CRDT.LINK", self.endpoints[sender].name, "DOWN")

    def sync(self, regions: Sequence[int]) -> bool:
        """See `ScenarioCluster`."""
        try:
            for region in regions:
                self._admin(region).send(("CRDT.SYNC", SYNC_PATIENCE_MS))
            return [self._admin(region).read() for region in regions] == [1] * len(regions)
        except WireError as error:
            raise self._broke(error) from error

    def vectors(self, regions: Sequence[int]) -> dict[int, dict[int, int]]:
        """See `ScenarioCluster`."""
        try:
            return {region: vector_of(self._admin(region)) for region in regions}
        except WireError as error:
            raise self._broke(error) from error

    def sleep(self, duration_ms: int) -> None:
        """See `ScenarioCluster`."""
        time.sleep(duration_ms / 1000)

    def disconnect(self) -> None:
        """Ends all connections."""
        self._drop_clients()
        for wire in self._admins.values():
            wire.close()
        self._admins = {}

    def _level(self) -> None:
        regions = sorted(self.endpoints)
        for _ in range(ROUNDS_MAX):
            answered = self.sync(regions)
            vectors = list(self.vectors(regions).values())
            if answered and all(vector == vectors[0] for vector in vectors):
                return
        raise ClusterError(f"regions did not level: {vectors}")

    def _all_links(self) -> list[Link]:
        return [(receiver, sender) for receiver in self.endpoints for sender in self.endpoints if receiver != sender]

    def _links(self, region: int) -> dict[int, str]:
        return {peer_id: link for _, peer_id, link in peers_of(self._admin_call(region, "CRDT.PEERS"))}

    def _setting(self, region: int, name: str) -> str:
        reply = self._admin_call(region, "CONFIG", "GET", name)
        if not isinstance(reply, list) or len(reply) != 2 or not isinstance(reply[1], bytes):
            raise ClusterError(f"CONFIG GET {name} answered {reply!r}")
        return reply[1].decode()

    def _admin_ok(self, region: int, *argv: str) -> None:
        reply = self._admin_call(region, *argv)
        if reply != b"OK":
            raise ClusterError(f"region {self.endpoints[region].name}: {' '.join(argv)} answered {reply!r}")

    def _admin_call(self, region: int, *argv: str) -> Reply:
        try:
            return self._admin(region).call(*argv)
        except WireError as error:
            raise self._broke(error) from error

    def _admin(self, region: int) -> Wire:
        if region not in self._admins:
            self._admins[region] = self._connect(region)
        return self._admins[region]

    def _connect(self, region: int) -> Wire:
        endpoint = self.endpoints[region]
        return Wire(endpoint.host, endpoint.port, ANSWER_PATIENCE_S)

    def _drop_clients(self) -> None:
        for wire in self._clients.values():
            wire.close()
        self._clients = {}

    def _broke(self, error: WireError) -> ClusterError:
        self.broken = True
        return ClusterError(str(error))


def peers_of(reply: Reply) -> list[tuple[str, int, str]]:
    """`CRDT.PEERS` as (name, region_id, link state)."""
    found = []
    for peer in reply if isinstance(reply, list) else []:
        flat = peer if isinstance(peer, list) else []
        pairs = {flat[n]: flat[n + 1] for n in range(0, len(flat) - 1, 2) if isinstance(flat[n], bytes)}
        name, region_id, link = pairs.get(b"name"), pairs.get(b"region_id"), pairs.get(b"link")
        if not isinstance(name, bytes) or not isinstance(region_id, (int, bytes)) or not isinstance(link, bytes):
            raise ClusterError(f"CRDT.PEERS answered {reply!r}")
        found.append((name.decode(), int(region_id), link.decode()))
    if not found:
        raise ClusterError(f"CRDT.PEERS answered {reply!r}")
    return found


def discover(addresses: Sequence[str]) -> dict[int, Endpoint]:
    """region_id → endpoint of the regions at these HOST:PORT addresses. Who is who follows from whom each calls its peers."""
    peers: dict[str, set[tuple[str, int]]] = {}
    for address in addresses:
        host, _, port = address.rpartition(":")
        if not host or not port.isdigit():
            raise ClusterError(f"an address is HOST:PORT, not '{address}'")
        try:
            with Wire(host, int(port), ANSWER_PATIENCE_S) as wire:
                reply, held = wire.call("CRDT.PEERS"), wire.call("DBSIZE")
        except WireError as error:
            raise ClusterError(str(error)) from error
        if isinstance(reply, ErrorText):
            raise ClusterError(f"{address}: {reply.text}")
        if held != 0:
            raise ClusterError(f"{address} holds {held!r} keys: scenarios flush the cluster that they run on, so give them an empty one")
        peers[address] = {(name, region_id) for name, region_id, _ in peers_of(reply)}
    everybody = set().union(*peers.values())
    endpoints: dict[int, Endpoint] = {}
    for address, known in peers.items():
        own = everybody - known
        if len(own) != 1:
            raise ClusterError(
                f"{address}: which region this is cannot be told from what its peers call it; give all addresses of one cluster"
            )
        name, region_id = own.pop()
        host, _, port = address.rpartition(":")
        endpoints[region_id] = Endpoint(name, host, int(port))
    if len(endpoints) < len(addresses) or sorted(endpoints) != list(range(1, len(endpoints) + 1)):
        raise ClusterError(f"scenarios need regions with the ids 1, 2, 3 …; these addresses are of {sorted(endpoints)}")
    return endpoints


def scenario_files(paths: Iterable[str | Path]) -> list[Path]:
    """The files themselves, and the ``*.md`` files of directories by name; README.md is prose."""
    found: list[Path] = []
    for path in map(Path, paths):
        found += sorted(one for one in path.glob("*.md") if one.name != "README.md") if path.is_dir() else [path]
    return found


def run(paths: Iterable[str | Path], addresses: Sequence[str] | None, report: Report) -> int:
    """Runs scenario files and directories of them, on the cluster at `addresses` (HOST:PORT each), or on one of its own.

    `report` is told each file's `Outcome` as it ends; ``print`` will do. Returns how many files failed. Raises `ClusterError` where no
    scenario can run at all: no file, an address that does not answer or is not empty, a region that does not start.
    """
    files = scenario_files(paths)
    if not files:
        raise ClusterError("no scenario file there")
    failed = 0
    scenarios = []
    for path in files:
        try:
            scenarios.append(load(path))
        except ScenarioError as error:
            failed += 1
            mismatch = Mismatch(str(path), error.line, "reading", "file", "", "a scenario", error.text)
            report(Outcome(str(path), path.stem, (mismatch,), 0))
    scenarios.sort(key=lambda scenario: bool(_deadline_keys(scenario)))
    runner = _Existing(discover(addresses)) if addresses else _Own(max([len(NAMES), *(each.members for each in scenarios)]))
    try:
        for scenario in scenarios:
            begun = time.monotonic()
            mismatches = run_scenario(scenario, runner.cluster_for(scenario))
            failed += bool(mismatches)
            report(Outcome(scenario.path, scenario.title, tuple(mismatches), int(1000 * (time.monotonic() - begun))))
    finally:
        runner.close()
    return failed


class _Existing:
    """The cluster that was named: used for all, left empty and linked."""

    def __init__(self, endpoints: Mapping[int, Endpoint]) -> None:
        self._cluster = LiveCluster(endpoints)

    def cluster_for(self, scenario: Scenario) -> LiveCluster:
        """The one there is."""
        return self._cluster

    def close(self) -> None:
        """Clears the cluster, if it still answers."""
        if not self._cluster.broken:
            self._cluster.clear()
        self._cluster.disconnect()


class _Own:
    """Processes started here; new ones where the old would disturb a scenario."""

    def __init__(self, members: int) -> None:
        self._names = [*NAMES, *(f"r{region}" for region in range(len(NAMES) + 1, members + 1))]
        self._processes: ProcessCluster | None = None
        self._cluster: LiveCluster | None = None

    def cluster_for(self, scenario: Scenario) -> LiveCluster:
        """A cluster that fits the scenario."""
        if self._cluster is None or self._cluster.fits(scenario):
            self.close()
            self._processes = ProcessCluster(self._names)
            self._processes.start_all()
            regions = self._processes.regions.values()
            self._cluster = LiveCluster({one.region_id: Endpoint(one.name, "127.0.0.1", one.resp_port) for one in regions})
        return self._cluster

    def close(self) -> None:
        """Ends the processes."""
        if self._cluster is not None:
            self._cluster.disconnect()
        if self._processes is not None:
            self._processes.stop()
        self._cluster = self._processes = None


def _settings_named(call: Call) -> tuple[bytes, ...]:
    """What a cell's CONFIG SET names."""
    argv = call.argv
    return argv[2::2] if argv[0].upper() == b"CONFIG" and len(argv) > 3 and argv[1].upper() == b"SET" else ()


def _deadline_keys(scenario: Scenario) -> set[bytes]:
    """Keys on which the scenario may leave deadlines."""
    calls = scenario.calls()
    keys = {call.argv[1] for call in calls if call.argv[0].upper() in _DEADLINE_COMMANDS and len(call.argv) > 1}
    if keys:
        keys |= {key for call in calls if call.argv[0].upper() in _RENAME_COMMANDS for key in call.argv[1:]}
    return keys
