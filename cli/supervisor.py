"""Starts region processes, watches them, reports those that die, and stops them."""

from __future__ import annotations

import ctypes
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from anabranch import build
from anabranch.cli.addresses import FILE_NAME, RegionAddress
from anabranch.cli.client import RegionClient
from anabranch.cli.errors import CliError

START_PATIENCE_S = 60.0
STOP_PATIENCE_S = 30.0
POLL_S = 0.1
LOG_TAIL_LINES = 20
_PR_SET_PDEATHSIG = 1


class Process:
    """The process of one region, and its log."""

    def __init__(self, place: RegionAddress, command: list[str], log: Path) -> None:
        self.place = place
        self.command = command
        self.log = log
        self.popen: subprocess.Popen[bytes] | None = None
        self.reported = False

    def start(self) -> None:
        """Starts the process in a new session, so that Ctrl-C reaches only this process.

        If this process is killed, the kernel sends the other one SIGTERM.
        """
        with self.log.open("ab") as log:
            self.popen = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=build.environment(),
                start_new_session=True,
                preexec_fn=_end_with_parent,
            )

    def ended(self) -> int | None:
        """The exit code; None while the process runs."""
        assert self.popen is not None
        return self.popen.poll()

    def end_report(self) -> str:
        """How the process ended, with the last lines of its log."""
        code = self.ended()
        how = (
            f"was killed by signal {-code} ({signal.Signals(-code).name})"
            if code is not None and code < 0
            else f"ended with code {code}"
        )
        lines = (
            self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_TAIL_LINES:]
            if self.log.exists()
            else []
        )
        return "\n".join(
            [
                f"region {self.place.name} {how}; the end of {self.log}:",
                *(f"  {self.place.name} | {line}" for line in lines),
            ]
        )


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


class Supervisor:
    """Starts the regions, watches them, and stops them."""

    def __init__(self, processes: list[Process], directory: Path, shown_data: Path | None) -> None:
        self.processes = processes
        self.directory = directory
        # The data directory to name in suggested commands; None for the default one.
        self.shown_data = shown_data
        self.stopping = 0

    def run(self) -> int:
        """Runs until a signal, or until all regions have ended; returns the exit code."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._signalled)
        try:
            for process in self.processes:
                process.start()
            if not self._await("answers", self._answering):
                return 1 if not self.stopping else 0
            self._await("receives from all others", self._linked, fatal=False)
            if not self.stopping:
                self._greet()
            return self._watch()
        finally:
            self._stop()

    def _signalled(self, number: int, frame: object) -> None:
        self.stopping += 1
        if self.stopping > 1:
            for process in self._running():
                assert process.popen is not None
                process.popen.kill()

    def _running(self) -> list[Process]:
        return [
            process
            for process in self.processes
            if process.popen is not None and process.ended() is None
        ]

    def _await(self, what: str, holds: Callable[[Process], str], fatal: bool = True) -> bool:
        """Waits until `holds(process)` is empty for each process; its text says what is missing."""
        deadline = time.monotonic() + START_PATIENCE_S
        missing = {process.place.name: "" for process in self.processes}
        while missing and not self.stopping:
            for process in self.processes:
                if process.ended() is not None:
                    print(f"anabranch: {process.end_report()}", file=sys.stderr)
                    return False
                if process.place.name in missing:
                    missing[process.place.name] = reason = holds(process)
                    if not reason:
                        del missing[process.place.name]
            if missing and time.monotonic() > deadline:
                for name, reason in missing.items():
                    print(
                        f"anabranch: after {START_PATIENCE_S:g} s, still waiting until"
                        f" {name} {what}: {reason}",
                        file=sys.stderr,
                    )
                return not fatal
            if missing:
                time.sleep(POLL_S)
        return not missing

    def _answering(self, process: Process) -> str:
        try:
            with RegionClient(process.place.resp, process.place.name, _password()) as client:
                return "" if client.ping() else "no PONG"
        except CliError as error:
            return str(error)

    def _linked(self, process: Process) -> str:
        try:
            with RegionClient(process.place.resp, process.place.name, _password()) as client:
                links = {peer.name: (peer.link, peer.detail) for peer in client.peers()}
        except CliError as error:
            return str(error)
        others = [other.place.name for other in self.processes if other is not process]
        missing = [
            f"{name} is {' '.join(links.get(name, ('unknown', ''))).strip()}"
            for name in others
            if links.get(name, ("", ""))[0] != "up"
        ]
        return ", ".join(missing)

    def _watch(self) -> int:
        failed = False
        while not self.stopping:
            for process in self.processes:
                if process.ended() is not None and not process.reported:
                    process.reported = failed = True
                    command = " ".join(shlex.quote(part) for part in process.command)
                    print(
                        f"anabranch: {process.end_report()}\nThe other regions go on."
                        f" To start this one again:\n  {command}",
                        file=sys.stderr,
                        flush=True,
                    )
            if not self._running():
                print("anabranch: no region runs any more", file=sys.stderr)
                return 1
            time.sleep(POLL_S)
        return 1 if failed else 0

    def _stop(self) -> None:
        running = self._running()
        if running:
            print("\nstopping …", flush=True)
        for process in running:
            assert process.popen is not None
            process.popen.terminate()
        deadline = time.monotonic() + STOP_PATIENCE_S
        while self._running() and time.monotonic() < deadline:
            time.sleep(0.02)
        for process in self._running():
            print(
                f"anabranch: {process.place.name} did not stop within {STOP_PATIENCE_S:g} s"
                " and is killed",
                file=sys.stderr,
            )
            assert process.popen is not None
            process.popen.kill()
            process.popen.wait()
        if running:
            print("all regions stopped", flush=True)

    def _greet(self) -> None:
        places = [process.place for process in self.processes]
        first, second = places[0], places[min(1, len(places) - 1)]
        ports = [place.resp.rpartition(":")[2] for place in (first, second)]
        anabranch = _own_command()
        where = (
            f" --cluster {shlex.quote(str(self.shown_data / FILE_NAME))}"
            if self.shown_data is not None
            else ""
        )
        python = shlex.quote(_relative(sys.executable))
        lines = [
            (
                f"{len(places)} regions are up, {build.kind()} build;"
                f" data and logs in {self.directory}"
            ),
            "",
        ]
        width = max(len(place.name) for place in places)
        lines += [
            f"  {place.name:{width}}  redis {place.resp}   http://{place.http}/metrics"
            f"   {self.directory / (place.name + '.log')}"
            for place in places
        ]
        lines += [
            "",
            "Write in one region, read in another:",
            f"  redis-cli -p {ports[0]} XADD s '*' a 1",
            f"  redis-cli -p {ports[1]} XRANGE s - +",
        ]
        if shutil.which("redis-cli") is None:
            lines += ["There is no redis-cli here (package redis-tools). The same in Python:"]
        else:
            lines += ["The same in Python:"]
        lines += [
            (
                f"  {python} -c"
                f""" "import redis; print(redis.Redis(port={ports[0]}).xadd('s', {{'a': 1}}))\""""
            ),
            (
                f"  {python} -c"
                f""" "import redis; print(redis.Redis(port={ports[1]}).xrange('s'))\""""
            ),
            "See the cluster, cut a link, heal it, compare:",
            f"  {anabranch} status{where}",
        ]
        if len(places) > 1:
            lines += [
                f"  {anabranch} link cut {first.name} {second.name}{where}",
                f"  {anabranch} link heal{where}",
            ]
            lines += [f"  {anabranch} diff {first.name} {second.name}{where}"]
        lines += ["", "Ctrl-C stops all."]
        print("\n".join(lines), flush=True)


def _password() -> str | None:
    return os.environ.get("ANABRANCH_REQUIREPASS") or os.environ.get("REDISCLI_AUTH")


def _own_command() -> str:
    """The command that runs anabranch again: its name if the shell finds it, otherwise its path."""
    beside = Path(sys.executable).with_name("anabranch")
    found = shutil.which("anabranch")
    if found is not None and Path(found).resolve() == beside.resolve():
        return "anabranch"
    return (
        shlex.quote(_relative(str(beside)))
        if beside.exists()
        else f"{shlex.quote(_relative(sys.executable))} -m anabranch"
    )


def _relative(path: str) -> str:
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative
