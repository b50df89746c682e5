"""A standalone Spark and the driver of a query, as processes of this machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from anabranch import build
from anabranch.bench.harness import wait_for
from anabranch.cluster.errors import ClusterError
from anabranch.cluster.ports import HOST, free_ports
from anabranch.cluster.processes import end, spawn
from anabranch.cluster.regions import ProcessCluster
from anabranch.cluster.signals import signals_wait

# Java starts slowly on a busy machine.
START_S: Final = 300.0
STOP_S: Final = 10.0
_PYTHON_WORKER: Final = "pyspark.daemon"
_QUERIES: Final = Path(__file__).with_name("spark_queries.py")


def children(process_id: int) -> list[int]:
    """The processes that a process has started, and those that they have started."""
    try:
        tasks = list(Path(f"/proc/{process_id}/task").iterdir())
        direct = [int(one) for task in tasks for one in (task / "children").read_text().split()]
    except OSError:
        # The process has ended in the meantime.
        return []
    return [*direct, *(below for one in direct for below in children(one))]


def command_of(process_id: int) -> str:
    """The command line of a process; empty if it has ended."""
    try:
        return Path(f"/proc/{process_id}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def _of_program(text: str, processes: list[int]) -> list[int]:
    """Those of the processes whose command line contains a text."""
    return [one for one in processes if text in command_of(one)]


def kill(process_id: int) -> None:
    """SIGKILL to a process below one that this program has started."""
    try:
        os.kill(process_id, signal.SIGKILL)
    except ProcessLookupError:
        # It has ended by itself, which does the same.
        pass


def spark_environment() -> dict[str, str]:
    """The environment of all processes of Spark: they import the build that runs here."""
    import pyspark

    return {
        **build.environment(),
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_LOCAL_IP": HOST,
        "SPARK_DAEMON_MEMORY": "256m",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONSAFEPATH": "1",
    }


def endpoints(regions: ProcessCluster) -> str:
    """All regions, as the option `endpoints` of the source and the sink names them."""
    return ",".join(f"{one.name}={one.address}" for one in regions.regions.values())


class SparkCluster:
    """A standalone Spark from the package of PySpark; its processes end with the `with`."""

    def __init__(self, directory: Path, workers: int = 2) -> None:
        self.port, self._web_port = free_ports(2)
        self.master = f"spark://{HOST}:{self.port}"
        self._environment = spark_environment()
        self._home = Path(self._environment["SPARK_HOME"])
        self._directory = directory
        self._workers_wanted = workers
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        try:
            self._start_all()
        except BaseException:
            # Python calls __exit__ only after an __enter__ that has returned.
            self._end_all()
            raise
        return self

    def _start_all(self) -> None:
        self._start("Master", "--host", HOST, "--port", self.port, "--webui-port", self._web_port)
        wait_for(
            lambda: "I have been elected leader" in self._log("Master"), "Spark's master", START_S
        )
        for _ in range(self._workers_wanted):
            ports = ("--host", HOST, "--webui-port", free_ports(1)[0])
            work = ("--work-dir", self._directory / "work")
            self._start("Worker", "--cores", 1, "--memory", "1g", *ports, *work, self.master)
        wait_for(
            lambda: self._log("Worker").count("Successfully registered") == self._workers_wanted,
            "Spark's workers",
            START_S,
        )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end_all()

    def _end_all(self) -> None:
        for process in reversed(self._processes):
            below = children(process.pid)
            end(process, STOP_S)
            for one in below:
                kill(one)

    def _start(self, part: str, *arguments: object) -> None:
        line = [
            self._home / "bin" / "spark-class",
            f"org.apache.spark.deploy.{part.lower()}.{part}",
        ]
        words = [str(word) for word in (*line, *arguments)]
        log = self._directory / f"{part}.log"
        with signals_wait():
            self._processes.append(spawn(words, log, self._environment, cwd=self._directory))

    def _log(self, part: str) -> str:
        return (self._directory / f"{part}.log").read_text(errors="replace")

    def executors(self) -> list[int]:
        """The process ids of the executors that run."""
        below = [one for process in self._processes[1:] for one in children(process.pid)]
        return _of_program("CoarseGrainedExecutorBackend", below)

    def python_workers(self) -> list[int]:
        """The process ids of the Python workers of the executors."""
        below = [one for executor in self.executors() for one in children(executor)]
        return _of_program(_PYTHON_WORKER, below)


class Driver:
    """The process with a query of `spark_queries`. `query` is its name, `given` what it takes."""

    def __init__(self, query: str, given: dict[str, str], log: Path) -> None:
        self.checkpoint = Path(given["checkpoint"])
        self._query = query
        self._given = given
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts the driver in a group of its own, with its JVM."""
        line = [sys.executable, str(_QUERIES), self._query, json.dumps(self._given)]
        self._process = spawn(line, self._log, spark_environment(), start_new_session=True)

    @contextmanager
    def running(self) -> Iterator[None]:
        """The driver runs while the `with` lasts; a ClusterError gets the end of its log."""
        self.start()
        try:
            yield
        except ClusterError as error:
            tail = self._log.read_text(errors="replace")[-3000:]
            raise ClusterError(f"{error}\nthe driver's log:\n{tail}") from None
        finally:
            self.kill()

    def kill(self) -> None:
        """Kills the driver and its JVM."""
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def result(self) -> int | None:
        """The exit code; None while it runs."""
        assert self._process is not None
        return self._process.poll()

    def python_workers(self) -> list[int]:
        """The process ids of the Python workers of a driver that is its own executor."""
        below = [] if self._process is None else children(self._process.pid)
        return _of_program(_PYTHON_WORKER, below)
