"""A Docker engine: the one that runs, or one that is started here and stopped at the end.

Where no engine runs and this process is root, the packages that it needs are installed with apt.
The engine that is started has a directory of its own, `build/compose/docker`, which keeps images
and the cache of the builder for the next run; `make clean` removes it.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from anabranch.cluster.processes import end
from tests.compose.commands import run, succeeds
from tests.compose.firewall import NetworkState
from tests.support.processes import eventually

ROOT: Final = Path(__file__).resolve().parents[2]
WORK: Final = ROOT / "build" / "compose"

_PACKAGES: Final = ("docker.io", "docker-compose", "iptables", "iproute2")
_PROGRAMS: Final = ("dockerd", "iptables", "iptables-save", "ip")
# A client without the builder of `RUN --mount` may stand before the one of the package.
_CLIENTS: Final = ("docker", "/usr/bin/docker")
_PR_SET_PDEATHSIG: Final = 1


class Engine:
    """A running engine. `host` is empty for the engine that the clients find themselves."""

    def __init__(self, host: str) -> None:
        self.environment: Final = {
            "DOCKER_BUILDKIT": "1",
            "COMPOSE_DOCKER_CLI_BUILD": "1",
            **({"DOCKER_HOST": host} if host else {}),
        }
        self.docker: Final = self._client()
        if os.path.isabs(self.docker):
            # Compose v1 calls the first client on the path to build.
            folders = [os.path.dirname(self.docker), os.environ.get("PATH", "")]
            self.environment["PATH"] = os.pathsep.join(folders)
        self.compose: Final = self._compose()

    def run(self, *arguments: str | Path, patience_s: float = 60.0) -> str:
        """Runs the `docker` client, and returns its output; AssertionError if it fails."""
        return run([self.docker, *arguments], patience_s=patience_s, environment=self.environment)

    def succeeds(self, *arguments: str, patience_s: float = 60.0) -> bool:
        """Whether the `docker` client reports success."""
        return succeeds(
            [self.docker, *arguments], patience_s=patience_s, environment=self.environment
        )

    def has_image(self, name: str) -> bool:
        """Whether an image is there without pulling it."""
        return self.succeeds("image", "inspect", name)

    def can_pull(self, name: str, patience_s: float = 600.0) -> bool:
        """Whether an image is there, or can be pulled."""
        return self.has_image(name) or self.succeeds("pull", "-q", name, patience_s=patience_s)

    def composes(self) -> list[list[str]]:
        """The command lines of compose that work here: v2, v1."""
        found = [[self.docker, "compose"], ["docker-compose"]]
        return [
            line for line in found if succeeds([*line, "version"], environment=self.environment)
        ]

    def _client(self) -> str:
        """The first client that can build with `RUN --mount`."""
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "Dockerfile").write_text("FROM scratch\nLABEL test=client\n")
            for client in _CLIENTS:
                line = [client, "build", "-q", folder]
                if succeeds(line, environment=self.environment):
                    return client
        raise AssertionError(
            f"none of the clients {', '.join(_CLIENTS)} builds with BuildKit; "
            "the package docker.io has one, and so has docker with its buildx plugin"
        )

    def _compose(self) -> list[str]:
        """The command line of compose; ANABRANCH_TEST_COMPOSE names another, such as v1."""
        asked = os.environ.get("ANABRANCH_TEST_COMPOSE")
        if asked:
            return asked.split()
        found = self.composes()
        assert found, "neither `docker compose` nor `docker-compose` works here"
        return found[0]


@contextmanager
def running_engine() -> Iterator[Engine]:
    """An engine. One that was started here is stopped at the end, any other goes on."""
    if any(succeeds([client, "info"]) for client in _CLIENTS):
        yield Engine("")
        return
    _install()
    with _started() as host:
        yield Engine(host)


def _install() -> None:
    """Installs the packages of the engine if some of its programs are missing."""
    missing = [name for name in _PROGRAMS if shutil.which(name) is None]
    if not missing:
        return
    assert os.geteuid() == 0 and shutil.which("apt-get"), (
        "no Docker engine runs, and none can be installed here without root and apt: start one"
    )
    install(*_PACKAGES)


def install(*packages: str) -> None:
    """Installs packages with apt; AssertionError if this fails."""
    print(f"installing {', '.join(packages)}")
    environment = {"DEBIAN_FRONTEND": "noninteractive"}
    run(["apt-get", "-qq", "update"], patience_s=300, environment=environment)
    run(
        ["apt-get", "-qq", "install", "-y", "--no-install-recommends", *packages],
        patience_s=900,
        environment=environment,
    )


@contextmanager
def _started() -> Iterator[str]:
    """Starts an engine, and gives its address. At the end it stops, and its rules are removed."""
    assert os.geteuid() == 0, "no Docker engine runs, and only root can start one: start one"
    network = NetworkState()
    WORK.mkdir(parents=True, exist_ok=True)
    # The path of a socket has at most 107 bytes, so it is not below the checkout.
    short = Path(tempfile.mkdtemp(prefix="anabranch-docker-"))
    host = f"unix://{short}/docker.sock"
    log = WORK / "dockerd.log"
    line = [
        *("dockerd", "--data-root", str(WORK / "docker"), "--exec-root", str(short / "run")),
        *("--pidfile", str(short / "pid"), "-H", host),
    ]
    with log.open("wb") as output:
        process = subprocess.Popen(
            line,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            preexec_fn=_end_with_parent,
        )
    try:
        client = next(one for one in reversed(_CLIENTS) if shutil.which(one))

        def answers() -> bool:
            assert process.poll() is None, f"dockerd ended: {log.read_text()[-2000:]}"
            return succeeds([client, "info"], environment={"DOCKER_HOST": host})

        eventually(answers, 90.0, f"the Docker engine answering (its log: {log})", 0.2)
        yield host
    finally:
        end(process, 90.0)
        network.restore()
        shutil.rmtree(short, ignore_errors=True)


def _end_with_parent() -> None:
    """Makes the kernel end the engine if this process dies."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
