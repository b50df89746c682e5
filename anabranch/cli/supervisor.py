"""Starts region processes, watches them, starts those that die again, and stops them.

A region that dies is started again after a pause. The pause doubles with each death, from
`RESTART_MIN_S` to `RESTART_MAX_S`, and begins anew once the region has run for `RESTART_RESET_S`. A
region that ended with code 0 was told to (SHUTDOWN, SIGTERM), and stays down. So does one that
errors have ended too often at one place of its log (`GivenUp`, S13.10).
"""

from __future__ import annotations

import ctypes
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from anabranch import build
from anabranch.cli.addresses import RegionAddress
from anabranch.cli.errors import CliError, GivenUp, WrongPassword
from anabranch.cli.greeting import greeting
from anabranch.cli.lost import is_lost
from anabranch.cluster.processes import FIRST_START, end_all, last_lines, spawn
from anabranch.console.login import VARIABLE, Login

START_PATIENCE_S = 60.0
STOP_PATIENCE_S = 30.0
POLL_S = 0.1
RESTART_MIN_S = 1.0
RESTART_MAX_S = 30.0
RESTART_RESET_S = 60.0
LOG_TAIL_LINES = 20
_PR_SET_PDEATHSIG = 1


class Process:
    """The process of one region, or the console, and its log. `name` names it in messages."""

    def __init__(
        self, name: str, command: list[str], log: Path, variables: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.command = command
        self.log = log
        # Further variables of its environment.
        self.variables = variables or {}
        self.popen: subprocess.Popen[bytes] | None = None
        self.started_s = 0.0
        # The next pause before a restart, and the time of the restart while one is planned.
        self.pause_s = RESTART_MIN_S
        self.restart_at_s: float | None = None
        # The region ended because it was told to, or a start is of no use: it stays down.
        self.is_shut_down = False

    def start(self) -> None:
        """Starts the process in a new session, so that Ctrl-C reaches only this process.

        If this process is killed, the kernel sends the other one SIGTERM.
        """
        self.started_s = time.monotonic()
        self.restart_at_s = None
        self.popen = spawn(
            self.command,
            self.log,
            {**build.environment(), **self.variables},
            start_new_session=True,
            preexec_fn=_end_with_parent,
        )

    def ended(self) -> int | None:
        """The exit code; None while the process runs."""
        assert self.popen is not None
        return self.popen.poll()

    def how_ended(self) -> str:
        """How the process ended, in a few words."""
        code = self.ended()
        return (
            f"was killed by signal {-code} ({signal.Signals(-code).name})"
            if code is not None and code < 0
            else f"ended with code {code}"
        )

    def plan_restart(self) -> float:
        """Plans the next start; returns the pause before it, in seconds."""
        now_s = time.monotonic()
        if now_s - self.started_s >= RESTART_RESET_S:
            self.pause_s = RESTART_MIN_S
        pause_s = self.pause_s
        self.restart_at_s = now_s + pause_s
        self.pause_s = min(2 * pause_s, RESTART_MAX_S)
        return pause_s

    def end_report(self) -> str:
        """How the process ended, with the last lines of its log.

        If the log could not be written, as on a full disk, the report says why.
        """
        from anabranch.region.live.data_files import write_problem

        report = [
            f"{self.name} {self.how_ended()}; the end of {self.log}:",
            *(f"  {self.log.stem} | {line}" for line in last_lines(self.log, LOG_TAIL_LINES)),
        ]
        problem = write_problem(self.log.parent)
        if problem:
            report.append(f"Files in {self.log.parent} cannot be written: {problem}")
        return "\n".join(report)


class RegionProcess(Process):
    """The process of one region."""

    def __init__(self, place: RegionAddress, command: list[str], log: Path) -> None:
        super().__init__(f"region {place.name}", command, log)
        self.place = place

    def plan_restart(self) -> float:
        """Plans the next start, which is not the first one any more."""
        self.command = [word for word in self.command if word != FIRST_START]
        return super().plan_restart()


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


class Console(Process):
    """The process of the console. `login` has the token that opens its page, and the address."""

    def __init__(self, login: Login, command: list[str], log: Path) -> None:
        super().__init__("the console", command, log, {VARIABLE: login.token})
        self.url = login.url


class Supervisor:
    """Starts the regions, watches them, and stops them.

    `shown_data` is the data directory to name in suggested commands, None for the default one.
    `password` is that of the regions, None if they ask for none. `console` starts once the regions
    answer; None: there is none. It is watched as the regions are, and its end ends nothing else.
    """

    def __init__(
        self,
        processes: list[RegionProcess],
        directory: Path,
        shown_data: Path | None,
        password: str | None = None,
        console: Console | None = None,
    ) -> None:
        self.processes = processes
        self.directory = directory
        self.shown_data = shown_data
        self.password = password
        self.console = console
        self.stopping = 0

    def run(self) -> int:
        """Runs until a signal, or until all regions have ended; returns the exit code."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._signalled)
        code = 1
        try:
            code = self._serve()
        finally:
            is_clean = self._stop()
        return code if is_clean else 1

    def _serve(self) -> int:
        """Starts the processes and watches them; returns the exit code."""
        for process in self.processes:
            process.start()
        if not self._await("answers", self._answering):
            return 1 if not self.stopping else 0
        self._await("receives from all others", self._linked, fatal=False)
        if not self.stopping:
            if self.console is not None:
                self.console.start()
            self._greet()
        return self._watch()

    def _greet(self) -> None:
        places = [process.place for process in self.processes]
        url = self.console.url if self.console is not None else None
        has_password = self.password is not None
        print(greeting(places, self.directory, self.shown_data, has_password, url), flush=True)

    def _signalled(self, number: int, frame: object) -> None:
        self.stopping += 1
        if self.stopping > 1:
            for process in self._running():
                assert process.popen is not None
                process.popen.kill()

    def _running(self) -> list[Process]:
        return [
            process
            for process in self._all()
            if process.popen is not None and process.ended() is None
        ]

    def _all(self) -> list[Process]:
        """The processes that were started, the console included."""
        started = [self.console] if self.console is not None and self.console.popen else []
        return [*self.processes, *started]

    def _await(self, what: str, holds: Callable[[RegionProcess], str], fatal: bool = True) -> bool:
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

    def _answering(self, process: RegionProcess) -> str:
        try:
            with process.place.client(self.password) as client:
                return "" if client.ping() else "no PONG"
        except WrongPassword:
            raise
        except CliError as error:
            return str(error)

    def _linked(self, process: RegionProcess) -> str:
        try:
            with process.place.client(self.password) as client:
                # A link to or from a lost region never comes up.
                peers = [] if is_lost(client.info("crdt")) else client.peers()
        except CliError as error:
            return str(error)
        return ", ".join(
            f"{peer.name} is {peer.link} {peer.detail}".strip()
            for peer in peers
            if not peer.lost and peer.link != "up"
        )

    def _watch(self) -> int:
        while not self.stopping:
            for process in self._all():
                self._revive(process)
            if all(process.is_shut_down for process in self.processes):
                print("anabranch: no region runs any more", file=sys.stderr)
                break
            time.sleep(POLL_S)
        down = [process for process in self.processes if process.ended() not in (None, 0)]
        return 1 if down else 0

    def _revive(self, process: Process) -> None:
        """Plans the restart of a process that has ended, or restarts it when its time has come."""
        if process.ended() is None or process.is_shut_down:
            return
        if process.restart_at_s is not None:
            if time.monotonic() >= process.restart_at_s:
                process.start()
                self._report(f"{process.name} is started again")
        elif process.ended() == 0:
            process.is_shut_down = True
            self._report(
                f"{process.name} was told to end (SHUTDOWN or SIGTERM), and stays down until"
                " `anabranch up` is started again"
            )
        elif process.ended() == GivenUp.exit_code:
            process.is_shut_down = True
            self._report(f"{process.end_report()}\n{process.name} stays down.")
        else:
            pause_s = process.plan_restart()
            report = (
                process.end_report()
                if pause_s == RESTART_MIN_S
                else f"{process.name} {process.how_ended()} again (see {process.log})"
            )
            others = "The other regions" if isinstance(process, RegionProcess) else "The regions"
            self._report(
                f"{report}\n{others} go on. {process.log.stem} is started again in {pause_s:g} s;"
                f" the pause doubles each time, up to {RESTART_MAX_S:g} s."
            )

    def _report(self, text: str) -> None:
        print(f"anabranch: {text}", file=sys.stderr, flush=True)

    def _stop(self) -> bool:
        """Ends all processes; returns whether each could end as it should.

        A region ends with code 1 if it could not write its last changes.
        """
        running = self._running()
        if running:
            print("\nstopping …", flush=True)
        late = end_all([process.popen for process in running if process.popen], STOP_PATIENCE_S)
        for process in running:
            if process.popen in late:
                print(
                    f"anabranch: {process.log.stem} did not stop within {STOP_PATIENCE_S:g} s"
                    " and is killed",
                    file=sys.stderr,
                )
        failed = [process for process in running if process.ended() == 1]
        for process in failed:
            self._report(process.end_report())
        if running and not failed:
            print("all regions stopped", flush=True)
        return not failed
