"""The Spark session of a job: checks what Spark needs, starts it quietly, and shortens its errors.

Only `open_session` imports PySpark, so that `anabranch --help` works without it.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from anabranch import build
from anabranch.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLDEST_JAVA: Final = 17
_NEEDED: Final = ("pyspark", "pyarrow", "pandas", "numpy", "librt")
LOCAL: Final = "local[*]"
_LOG4J: Final = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %p %m%n
"""
_DEFAULTS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.log.level": "ERROR",
    # A Python worker starts slowly on a busy machine; Spark gives up after 15 s.
    "spark.python.authenticate.socketTimeout": "120s",
}
# How long Java may take to end after it has closed its socket.
_JAVA_END_S: Final = 5.0
_SHUFFLE: Final = "spark.sql.shuffle.partitions"
_SHUFFLE_USUAL: Final = "200"
_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_LOGGED: Final = re.compile(r"(?:ERROR |Error: |Exception in thread .*SparkException: )(.+)")
_PYTHON_ERROR: Final = re.compile(
    r"^(?:\w+\.)*(?:PipelineError|OptionError|DataLossError|RegionsError): (.+)$", re.MULTILINE
)
_GOES_ON: Final = re.compile(r"\b([Ww]ith) failOnDataLoss false the query goes on")
_FILE: Final = re.compile(r"Encountered error while reading file file:/*(/\S+)\.(?=\s)")
_TRACEBACK: Final = "Traceback (most recent call last)"
_TRACEBACK_END: Final = re.compile(r"^(?:\w+\.)*\w*(?:Error|Exception): .+$", re.MULTILINE)


@contextmanager
def open_session(job: str, master: str, settings: Mapping[str, str]) -> Iterator[SparkSession]:
    """A Spark session for one job; it ends with the `with`.

    Args:
        job: The name of the job, which the pages of Spark show.
        master: The URL of Spark's master, such as ``local[*]`` or ``spark://HOST:7077``.
        settings: Settings of Spark by name, which override those of the jobs.

    Raises:
        PipelineError: PySpark or Java is missing or too old, the master cannot be reached, or Java
            has ended before the job.
    """
    _check_needs()
    from pyspark.sql import SparkSession

    from anabranch.pipeline import AnabranchDataSource

    _set_environment(master)
    with tempfile.TemporaryDirectory(prefix="anabranch-spark-") as folder, _silent_gateway():
        log, quiet = Path(folder) / "spark.log", Path(folder) / "log4j2.properties"
        quiet.write_text(_LOG4J, encoding="utf-8")
        builder = SparkSession.builder.master(master).appName(f"anabranch pipeline {job}")
        java = f"-Dlog4j2.configurationFile={quiet} {settings.get(_JAVA_OPTIONS, '')}"
        for name, value in {**_DEFAULTS, **settings, _JAVA_OPTIONS: java.strip()}.items():
            builder = builder.config(name, value)
        try:
            with _stderr_to(log), _kept_interruption(), _java_ignores_signals():
                session = builder.getOrCreate()
        except Exception as error:
            why = _logged_error(log) or readable(error)
            raise PipelineError(f"Spark does not start with {master}: {why}") from None
        try:
            session.dataSource.register(AnabranchDataSource)
            if is_local(master):
                shuffle_by_cores(session)
            yield session
        except Exception as error:
            if not _has_ended(_java_of(session), error):
                raise
            raise PipelineError(
                "Java, in which Spark runs, has ended before the job: somebody ended it, or the "
                "machine has too little memory"
            ) from None
        finally:
            _stop(session)


def _stop(session: SparkSession) -> None:
    """Ends Spark; nothing is left to end if a signal to the process group has ended Java."""
    java = _java_of(session)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        try:
            session.stop()
        except Exception as error:
            if not _has_ended(java, error):
                raise


def _java_of(session: SparkSession) -> Any:
    """The process of Java; None if PySpark did not start it."""
    return getattr(session.sparkContext._gateway, "proc", None)


def _has_ended(java: Any, error: Exception) -> bool:
    """Whether an error comes from the end of the process of Java."""
    if java is None or not (
        isinstance(error, ConnectionError) or type(error).__name__.startswith("Py4J")
    ):
        return False
    try:
        java.wait(_JAVA_END_S)
    except subprocess.TimeoutExpired:
        return False
    return True


@contextmanager
def _silent_gateway() -> Iterator[None]:
    """Keeps the log of Py4J off stderr.

    Py4J logs each error that it also raises, with its trace, and so it does with an interruption.
    """
    root, own = logging.getLogger(), logging.getLogger("py4j")
    level = own.level

    def is_of_another(record: logging.LogRecord) -> bool:
        return "py4j" not in Path(record.pathname).parts

    # Py4J logs some errors to a logger of its own, and some to the root.
    root.addFilter(is_of_another)
    own.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        own.setLevel(level)
        root.removeFilter(is_of_another)


@contextmanager
def _kept_interruption() -> Iterator[None]:
    """Puts the handler of SIGINT back that PySpark replaces.

    That of PySpark asks Java to cancel the jobs, in the middle of a request to Java that it has
    interrupted. That request then fails with a trace. `open_session` ends the jobs as well.
    """
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, handler)


def shuffle_by_cores(session: SparkSession) -> None:
    """Gives a shuffle as many parts as there are cores, unless it has another number than Spark's.

    Each part is a task. On one machine, or with few rows, 200 tasks cost more than they gain.
    """
    if session.conf.get(_SHUFFLE) == _SHUFFLE_USUAL:
        session.conf.set(_SHUFFLE, str(max(session.sparkContext.defaultParallelism, 2)))


class _Start:
    """Whether Java is being started, and whether the hook for its process is registered."""

    is_under_way = False
    has_hook = False


@contextmanager
def _java_ignores_signals() -> Iterator[None]:
    """Lets a process that starts meanwhile ignore SIGTERM and SIGHUP; PySpark does so with SIGINT.

    A signal to the process group must not end Java before this process has ended its jobs. If this
    process is killed, Java ends by itself, because its input ends.
    """
    if not _Start.has_hook:
        os.register_at_fork(after_in_child=_ignore_signals)
        _Start.has_hook = True
    _Start.is_under_way = True
    try:
        yield
    finally:
        _Start.is_under_way = False


def _ignore_signals() -> None:
    if _Start.is_under_way:
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)


@contextmanager
def _stderr_to(log: Path) -> Iterator[None]:
    """Sends stderr to a file, also that of processes which start meanwhile and go on afterwards.

    Java and Spark write warnings there that concern none of their users.
    """
    kept = os.dup(2)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _logged_error(log: Path) -> str:
    """The first error that Spark has logged; empty if there is none."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return next((found.group(1) for line in lines if (found := _LOGGED.match(line))), "")


def readable(error: BaseException) -> str:
    """The line of an error of Spark that says what is wrong, without the traces around it."""
    text = str(error)
    found: list[str] = _PYTHON_ERROR.findall(text)
    if found:
        return found[-1].strip()
    if _TRACEBACK in text:
        found = _TRACEBACK_END.findall(text)
        if found:
            return f"Python failed in a task of Spark: {found[-1].strip()}"
    lines = [line.strip().removeprefix(": ") for line in text.splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith("An error occurred while calling")]
    causes = [line for line in lines if line.startswith("Caused by:")]
    if causes:
        cause = causes[-1].removeprefix("Caused by:").strip()
        file = _FILE.search(text)
        # The cause need not name the file, such as for a page that cannot be uncompressed.
        if file is not None and file.group(1) not in cause:
            return f"the file {file.group(1)} cannot be read: {cause}"
        return cause
    return lines[0] if lines else type(error).__name__


def explained(error: Exception) -> Exception:
    """The error of a query with the option of the command in the place of the source's."""
    text, count = _GOES_ON.subn(r"\1 --allow-loss the command goes on", readable(error))
    return PipelineError(text) if count else error


def is_local(master: str) -> bool:
    """Whether all of Spark runs in processes of this machine that share its files."""
    return master.startswith("local")


def _check_needs() -> None:
    for package in _NEEDED:
        if importlib.util.find_spec(package) is None:
            raise PipelineError(
                f"the jobs need {package}, which is not installed: pip install 'anabranch[spark]'"
            )
    try:
        import anabranch.pipeline.datasource  # noqa: F401
    except ImportError as error:
        raise PipelineError(str(error)) from None
    version = _java_version()
    if version is None:
        raise PipelineError(
            f"Spark needs Java {OLDEST_JAVA} or later, and there is none: install "
            "openjdk-17-jre-headless, or set JAVA_HOME"
        )
    if version < OLDEST_JAVA:
        raise PipelineError(f"Spark needs Java {OLDEST_JAVA} or later, and this is Java {version}")


def _java_version() -> int | None:
    """The main version of Java; None if there is none. A version that is not understood is new."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None:
        return None
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60)
    except OSError:
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', said.stderr)
    return int(found.group(1)) if found else OLDEST_JAVA


def _set_environment(master: str) -> None:
    """The processes of Spark use this Python and this build, and not those of their folder."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable if is_local(master) else "python3")
    if is_local(master):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    path = build.environment().get("PYTHONPATH")
    if path:
        os.environ["PYTHONPATH"] = path
    os.environ["PYTHONSAFEPATH"] = "1"
