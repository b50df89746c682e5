"""Three regions, one made-up region, and the Prometheus that scrapes them all."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any, Final

from tests.alerts.made_up import MadeUpRegion
from tests.alerts.prometheus import Prometheus
from tests.support.cluster import LiveCluster
from tests.support.processes import eventually

NAMES: Final = ["us", "eu", "ap"]
MADE_UP: Final = "made-up"
# Adds in one pipeline.
_PIPELINE: Final = 5000
PATIENCE_S: Final = 120.0
# Evaluations of the rules during which an alert must be silent.
QUIET: Final = 4
# Mounts a file system of the size $0 on the data directory $1, and becomes the program that the
# other words name. Only this process sees the file system.
_MOUNT: Final = 'mount -t tmpfs -o size="$0" tmpfs "$1" && shift && exec "$@"'


class Regions(LiveCluster):
    """The regions of a test. `disks_mb`: the size of the disk of a region that has its own."""

    def __init__(self, directory: Path) -> None:
        super().__init__(NAMES, directory=directory)
        self.disks_mb: dict[str, int] = {}

    def command(self, name: str, *extra: str) -> list[str]:
        line = super().command(name, *extra)
        size_mb = self.disks_mb.get(name)
        if size_mb is None:
            return line
        data = self.regions[name].data
        data.mkdir(parents=True, exist_ok=True)
        # A namespace of users and mounts needs no rights, where the system allows it.
        return ["unshare", "-rm", "sh", "-c", _MOUNT, f"{size_mb}m", str(data), *line]

    def resize_disk(self, name: str, size_mb: int) -> None:
        """Changes the size of the disk of a region that has its own."""
        region = self.regions[name]
        inside = ["nsenter", "-t", str(region.pid()), "-U", "-m", "--preserve-credentials"]
        mount = ["mount", "-o", f"remount,size={size_mb}m", str(region.data)]
        subprocess.run([*inside, *mount], check=True, capture_output=True)


class World:
    """The regions of a test with their Prometheus. `close` ends everything."""

    def __init__(self, directory: Path) -> None:
        self.regions: Final = Regions(directory / "regions")
        self.made_up: Final = MadeUpRegion()
        self.prometheus: Final = Prometheus(directory / "prometheus")

    def start(self) -> None:
        """Starts everything that is not started yet, and waits until Prometheus scrapes it."""
        self.regions.start_all()
        self.made_up.start()
        ports = {name: region.http_port for name, region in self.regions.regions.items()}
        self.prometheus.start({**ports, MADE_UP: self.made_up.port})

    def close(self) -> None:
        """Ends everything."""
        self.prometheus.stop()
        self.regions.close()
        if self.made_up.port:
            self.made_up.stop()

    def call(self, name: str, *words: Any) -> Any:
        """The reply of a region to a command."""
        with self.regions.client(name) as client:
            return client.execute_command(*words)

    def add(self, name: str, key: str = "s", count: int = 1) -> None:
        """Adds entries in a region."""
        with self.regions.client(name) as client:
            for done in range(0, count, _PIPELINE):
                pipeline = client.pipeline(transaction=False)
                for n in range(done, min(done + _PIPELINE, count)):
                    pipeline.xadd(key, {"n": n})
                pipeline.execute()

    def isolate(self, name: str) -> None:
        """Makes a region receive from nobody. The others still receive from it."""
        for peer in self.others(name):
            self.regions.link(name, peer, "DOWN")

    def join(self, name: str) -> None:
        """Ends `isolate`."""
        for peer in self.others(name):
            self.regions.link(name, peer, "UP")

    def others(self, name: str) -> list[str]:
        """The names of the other regions."""
        return [one for one in NAMES if one != name]

    def restart(self, name: str, *extra: str) -> None:
        """Stops a region and starts it with further options."""
        self.regions.stop(name)
        self.regions.start(name, *extra)

    def signal(self, name: str, number: int) -> None:
        """Sends a signal to the process of a region."""
        os.kill(self.regions[name].pid(), number)

    def await_firing(self, alert: str, labels: dict[str, str]) -> None:
        """Waits until an alert fires with these labels, among others."""
        eventually(
            lambda: any(labels.items() <= one.items() for one in self.prometheus.firing(alert)),
            PATIENCE_S,
            f"{alert} firing with {labels}",
            0.2,
        )

    def await_silence(self, alert: str) -> None:
        """Waits until an alert does not fire in `QUIET` evaluations on end.

        One would not do: a region that is too busy to answer has no figures for a moment.
        """

        def stays_silent() -> bool:
            for _ in range(QUIET):
                if self.prometheus.firing(alert):
                    return False
                self.prometheus.await_evaluations(1)
            return not self.prometheus.firing(alert)

        eventually(stays_silent, PATIENCE_S, f"{alert} being silent", 0.2)
