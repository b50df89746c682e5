"""Many seeds in several processes, so that a seed can neither hang the sweep nor end it unseen.

Each worker has one seed at a time, so the parent process knows which seed killed a worker or kept
it too long.
"""

from __future__ import annotations

import gc
import signal
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import Any, Final, Generic, Optional, TypeVar, Union

from anabranch.sim.checkers import ALL
from anabranch.sim.draw import draw_plan
from anabranch.sim.history import Checker, Violation
from anabranch.sim.plan import Plan
from anabranch.sim.run import Result, run_plan

LIMIT_S: Final = 120.0
"""Wall-clock seconds after which a seed counts as hanging; a seed takes a fraction of a second."""
_LOOK_S: Final = 1.0
# A process ends itself after so many times the limit, if there is no parent any more to end it. A
# timer takes no more than _ORPHAN_S_MAX.
_ORPHAN_LIMITS: Final = 2
_ORPHAN_S_MAX: Final = 1e8

T = TypeVar("T")


@dataclass(frozen=True)
class Task:
    """The way to run a seed.

    `faults`: the kinds allowed; None: all. `restores`, `errors`, `outside`: see `draw_plan`.
    `judges`: None is all of them.
    """

    regions: int = 3
    ops: int = 300
    faults: Optional[tuple[str, ...]] = None
    restores: bool = False
    errors: bool = False
    outside: bool = False
    judges: Optional[tuple[type[Checker], ...]] = None

    def plan(self, seed: int) -> Plan:
        """The plan that the seed draws."""
        return draw_plan(
            seed, self.regions, self.ops, self.faults, self.restores, self.errors, self.outside
        )

    def judged_by(self) -> tuple[type[Checker], ...]:
        """The judges given, or all judges."""
        return tuple(ALL) if self.judges is None else self.judges

    def __call__(self, seed: int) -> Result:
        return run_plan(self.plan(seed), self.judged_by())


@dataclass(frozen=True)
class Died:
    """A worker gave no result: it ended, or the parent ended it."""

    # "crash" or "hang"
    checker: str
    text: str


def sweep(
    seeds: Iterable[int],
    task: Task,
    jobs: int = 1,
    limit_s: float = LIMIT_S,
    until_s: Optional[float] = None,
) -> Generator[Result, None, None]:
    """The result of each seed, in the order of completion.

    A seed whose worker died or hung has a violation that says so.
    """
    for seed, result in in_processes(seeds, task, jobs, limit_s, until_s):
        if isinstance(result, Died):
            yield Result(seed, [Violation(result.checker, 0, 0, result.text)], "", 0)
        else:
            yield result


def in_processes(
    numbers: Iterable[int],
    task: Callable[[int], T],
    jobs: int,
    limit_s: float,
    until_s: Optional[float] = None,
) -> Iterator[tuple[int, Union[T, Died]]]:
    """Yields (number, task(number)) in the order of completion, computed in `jobs` processes.

    `until_s` (monotonic time): no further task begins after that time.
    """
    waiting = iter(numbers)
    workers: list[_Worker[T]] = []
    try:
        while True:
            busy = [worker for worker in workers if worker.number is not None]
            is_over = until_s is not None and time.monotonic() >= until_s
            while len(busy) < jobs and not is_over:
                number = next(waiting, None)
                if number is None:
                    break
                worker = next((each for each in workers if each.number is None), None)
                if worker is None:
                    worker = _Worker(task, limit_s, [each.connection for each in workers])
                    workers.append(worker)
                worker.give(number)
                busy.append(worker)
            if not busy:
                return
            wait([worker.connection for worker in busy], _LOOK_S)
            for worker in busy:
                number = worker.number
                assert number is not None
                result = worker.take(limit_s)
                if result is None:
                    continue
                if isinstance(result, Died):
                    workers.remove(worker)
                yield number, result
    finally:
        for worker in workers:
            worker.end()


class _Worker(Generic[T]):
    """One worker process.

    `number`: the number that it works on, None when it is idle. `others`: connections of other
    workers, which this process must close.
    """

    def __init__(
        self, task: Callable[[int], T], limit_s: float, others: list[Connection[Any, Any]]
    ) -> None:
        # A forked process has all modules imported; a new process takes a second to import them.
        context = get_context("fork") if sys.platform == "linux" else get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.number: Optional[int] = None
        self._since_s = 0.0
        inherited = [*others, self.connection] if context.get_start_method() == "fork" else []
        orphan_s = max(0.0, min(_ORPHAN_LIMITS * limit_s, _ORPHAN_S_MAX))
        self._process = context.Process(
            target=_work, args=(theirs, task, orphan_s, inherited), daemon=True
        )
        self._process.start()
        theirs.close()

    def give(self, number: int) -> None:
        """Gives the worker a number to work on."""
        self.number = number
        self._since_s = time.monotonic()
        try:
            self.connection.send(number)
        except OSError:  # the worker is dead; `take` reports it
            pass

    def take(self, limit_s: float) -> Union[T, Died, None]:
        """The result, None if there is none yet, or `Died` if the worker has ended without one."""
        try:
            if self.connection.poll():
                result: T = self.connection.recv()
                self.number = None
                return result
        except (EOFError, OSError):
            self._process.join()
            return Died("crash", f"its process died: {_ending(self._process.exitcode)}")
        if time.monotonic() - self._since_s > limit_s:
            self.end()
            return Died("hang", f"no verdict after {limit_s:g} s")
        return None

    def end(self) -> None:
        """Ends the process at once."""
        self._process.kill()
        self._process.join()
        self.connection.close()


def _ending(exit_code: Optional[int]) -> str:
    if exit_code is not None and exit_code < 0:
        return f"signal {signal.Signals(-exit_code).name}"
    return f"exit status {exit_code}"


def _work(
    connection: Connection[Any, Any],
    task: Callable[[int], Any],
    limit_s: float,
    inherited: list[Connection[Any, Any]],
) -> None:
    """The main loop of a worker.

    Garbage is collected only after each seed. What the parent made is excluded: its garbage may be
    of use to threads that a fork does not copy, such as those of gRPC, and hang when it is dropped
    here. If the parent is killed while a number hangs, SIGALRM ends this process after `limit_s`.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process ends the worker
    for other in inherited:  # an open copy would hide from a worker that the parent has ended
        other.close()
    gc.freeze()
    gc.disable()
    try:
        while True:
            number = connection.recv()
            signal.setitimer(signal.ITIMER_REAL, limit_s)
            result = task(number)
            signal.setitimer(signal.ITIMER_REAL, 0)
            connection.send(result)
            gc.collect()
    except (EOFError, BrokenPipeError):
        return
