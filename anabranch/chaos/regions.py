"""The regions of a run: processes on this machine that dial each other through toxiproxy."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Final

from anabranch.chaos.other_build import OtherBuild
from anabranch.chaos.plan import Plan
from anabranch.cluster.ports import HOST, free_ports
from anabranch.cluster.processes import limit_files
from anabranch.cluster.regions import ProcessCluster
from anabranch.cluster.toxiproxy import ToxiproxyError
from anabranch.cluster.toxiproxy_server import ToxiproxyServer

# A disk that is "full" takes no file beyond this size: a limit of the process (RLIMIT_FSIZE), which
# needs no rights. The logs of regions stay below it, and so take further lines.
FULL_DISK_BYTES: Final = 64 << 10


class ChaosRegions(ProcessCluster):
    """The regions of a plan, a toxiproxy server, and a proxy for each direction of each link.

    With `other`, the regions change to that build and back at their restarts. `tape_bytes`: bytes
    of the tapes of each region, 0 for none.
    """

    def __init__(
        self, plan: Plan, directory: Path, other: OtherBuild | None = None, tape_bytes: int = 0
    ) -> None:
        tapes = {"crdt-tape-max-bytes": str(tape_bytes)} if tape_bytes else {}
        super().__init__(plan.names, plan.settings | tapes, directory)
        self._other = other
        # How often each region was started. Every second start runs the other build.
        self.starts = dict.fromkeys(plan.names, 0)
        self.offsets_ms = dict(plan.offsets_ms)
        # Ends of processes that no fault caused, by region.
        self.deaths: dict[str, list[str]] = {name: [] for name in plan.names}
        pairs = [(one, other) for one in plan.names for other in plan.names if one != other]
        api_port, *ports = free_ports(1 + len(pairs))
        # (receiver, sender) → the port of the proxy between them.
        self.detours = dict(zip(pairs, ports, strict=True))
        self.toxiproxy = ToxiproxyServer(api_port, directory / "toxiproxy.log", plan.seed)
        self.toxiproxy_restarts = 0

    def program(self, name: str) -> tuple[list[str], dict[str, str]]:
        if self._other is not None and self.starts[name] % 2 == 0:
            return self._other.command, self._other.environment
        return super().program(name)

    @staticmethod
    def proxy(sender: str, receiver: str) -> str:
        """The name of the proxy of one direction."""
        return f"{sender}-to-{receiver}"

    def start_toxiproxy(self) -> None:
        """Starts the server with all its proxies."""
        self.toxiproxy.start()
        for (receiver, sender), port in self.detours.items():
            self.toxiproxy.api.create(
                self.proxy(sender, receiver),
                f"{HOST}:{port}",
                f"{HOST}:{self.regions[sender].sync_port}",
            )

    def repair_toxiproxy(self) -> bool:
        """Starts the server again if it has died; returns whether it had. Its toxics are gone."""
        if self.toxiproxy.is_running:
            return False
        self.toxiproxy.stop()
        self.toxiproxy_restarts += 1
        self.start_toxiproxy()
        return True

    def begin(self, name: str) -> None:
        """Starts a region with its clock, without waiting for it."""
        self.starts[name] += 1
        # One word, because the offset may begin with a minus sign. None without an offset: another
        # build may not know the setting.
        offset_ms = self.offsets_ms[name]
        extra = [f"--crdt-clock-offset-ms={offset_ms}"] if offset_ms else []
        self.start(name, *extra, wait=False)

    def begin_all(self) -> None:
        """Starts all regions, and waits until they have exchanged an effect each."""
        for name in self.regions:
            self.begin(name)
        for name in self.regions:
            self.await_answer(name)
        self.level()

    def note_deaths(self) -> list[str]:
        """Notes the regions that have ended by themselves, starts them again, returns their names.

        Call it only while no fault has ended a region: those that a fault ends are taken off first.
        """
        found = []
        for name, region in self.regions.items():
            if region.process is not None and not region.running:
                self.deaths[name].append(f"ended by itself with code {region.process.returncode}")
                found.append(name)
                self.begin(name)
        return found

    def forget_process(self, name: str) -> None:
        """Takes a region that a fault has ended off the list of those that must run."""
        self.regions[name].process = None

    def fill_disk(self, name: str, is_full: bool) -> None:
        """Makes the disk of a running region full, or ends that."""
        process = self.regions[name].process
        if process is not None:
            limit_files(process.pid, FULL_DISK_BYTES if is_full else None)

    def close(self) -> None:
        """Ends all processes; the files stay."""
        super().close()
        self.toxiproxy.stop()

    def heal_links(self) -> None:
        """Ends everything that was done to links. A server that died is started again."""
        for receiver, sender in self.detours:
            try:
                self.toxiproxy.api.clean(self.proxy(sender, receiver))
            except ToxiproxyError:
                if not self.repair_toxiproxy():
                    raise

    def resume_all(self) -> None:
        """Lets paused regions go on, and gives them their disks back."""
        for name, region in self.regions.items():
            if region.running:
                with contextlib.suppress(ProcessLookupError):
                    self.fill_disk(name, is_full=False)
                    self.resume(name)
