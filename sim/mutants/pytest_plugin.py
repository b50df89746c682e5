"""A pytest plugin of `sim.mutants.suite`: chooses, orders and bounds tests, reports failures.

It reads its plan from the file that ANABRANCH_MUTANTS names, and writes its findings beside that
file. It measures the CPU time of the process, so that other work on the machine changes no verdict.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any, Final, Optional

import coverage
import pytest
from hypothesis import HealthCheck, settings

_PLAN_FILE: Final = Path(os.environ["ANABRANCH_MUTANTS"])
_PLAN: Final[dict[str, Any]] = json.loads(_PLAN_FILE.read_text(encoding="utf-8"))
# node id → CPU seconds, in the order in which the tests run; empty: all tests
_LIMITS_S: Final[dict[str, float]] = _PLAN["limits_s"]
_TOTAL_S: Final[float] = _PLAN["total_s"]  # 0: no limit
_MEMORY_BYTES: Final = 4 << 30

# An example that was kept from another mutant, or a loaded machine, must change no verdict.
settings.register_profile(
    "mutants",
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("mutants")

_coverage: Optional[coverage.Coverage] = None
if _PLAN["traces"]:
    _coverage = coverage.Coverage(data_file=None, config_file=False, include=_PLAN["traces"])
    _coverage.start()
else:
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))

_found: Final[dict[str, Any]] = {"failed": "", "error": "", "seconds": {}, "is_over": False}


def _ring(number: int, frame: Optional[FrameType]) -> None:
    pytest.fail("takes much longer than without the mutant")


def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> None:
    if _LIMITS_S:
        by_id = {item.nodeid: item for item in items}
        items[:] = [by_id[node_id] for node_id in _LIMITS_S if node_id in by_id]
        for item in items:  # a waiting test uses no CPU time, so that it needs another limit
            item.add_marker(pytest.mark.timeout(30 + 5 * _LIMITS_S[item.nodeid]))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: Optional[pytest.Item]) -> Iterator[None]:
    if _TOTAL_S and time.process_time() > _TOTAL_S:
        _found["is_over"] = True
        item.session.shouldstop = "the time is over"
        return (yield)
    if _coverage is not None:
        _coverage.switch_context(item.nodeid)
    began_s = time.process_time()
    if item.nodeid in _LIMITS_S:
        signal.signal(signal.SIGVTALRM, _ring)
        signal.setitimer(signal.ITIMER_VIRTUAL, _LIMITS_S[item.nodeid])
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        _found["seconds"][item.nodeid] = time.process_time() - began_s


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed and not _found["failed"]:
        _found["failed"] = report.nodeid
        _found["error"] = _last_line(report.longreprtext)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed and not _found["failed"]:
        _found["failed"] = report.nodeid or "collection"
        _found["error"] = _last_line(report.longreprtext)


def _last_line(text: str) -> str:
    """The line that pytest marks as the error."""
    errors = [line[1:].strip() for line in text.splitlines() if line.startswith("E ")]
    return (errors[0] if errors else text.strip().rpartition("\n")[2])[:300]


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    if _coverage is not None:
        _coverage.stop()
        data = _coverage.get_data()
        _found["lines"] = {path: data.contexts_by_lineno(path) for path in data.measured_files()}
    _PLAN_FILE.with_suffix(".found").write_text(json.dumps(_found), encoding="utf-8")
