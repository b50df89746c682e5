"""The Spark session of a job: checks what Spark needs, starts it quietly, and shortens its errors.

Only `open_session` imports PySpark, so that `anabranch --help` works without it.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

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
_SHUFFLE: Final = "spark.sql.shuffle.partitions"
_SHUFFLE_USUAL: Final = "200"
_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_LOGGED: Final = re.compile(r"(?:ERROR |Error: |Exception in thread .*SparkException: )(.+)")
_PYTHON_ERROR: Final = re.compile(
    r"^(?:\w+\.)*(?:PipelineError|OptionError|DataLossError|RegionsError): (.+)$", re.MULTILINE
)
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
        PipelineError: PySpark or Java is missing or too old, or the master cannot be reached.
    """
    _check_needs()
    from pyspark.sql import SparkSession

    from anabranch.pipeline import AnabranchDataSource

    _set_environment(master)
    with tempfile.TemporaryDirectory(prefix="anabranch-spark-") as folder:
        log, quiet = Path(folder) / "spark.log", Path(folder) / "log4j2.properties"
        quiet.write_text(_LOG4J, encoding="utf-8")
        builder = SparkSession.builder.master(master).appName(f"anabranch pipeline {job}")
        java = f"-Dlog4j2.configurationFile={quiet} {settings.get(_JAVA_OPTIONS, '')}"
        for name, value in {**_DEFAULTS, **settings, _JAVA_OPTIONS: java.strip()}.items():
            builder = builder.config(name, value)
        try:
            with _stderr_to(log):
                session = builder.getOrCreate()
        except Exception as error:
            why = _logged_error(log) or readable(error)
            raise PipelineError(f"Spark does not start with {master}: {why}") from None
        try:
            session.dataSource.register(AnabranchDataSource)
            if is_local(master):
                shuffle_by_cores(session)
            yield session
        finally:
            session.stop()


def shuffle_by_cores(session: SparkSession) -> None:
    """Gives a shuffle as many parts as there are cores, unless it has another number than Spark's.

    Each part is a task. On one machine, or with few rows, 200 tasks cost more than they gain.
    """
    if session.conf.get(_SHUFFLE) == _SHUFFLE_USUAL:
        session.conf.set(_SHUFFLE, str(max(session.sparkContext.defaultParallelism, 2)))


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
        return causes[-1].removeprefix("Caused by:").strip()
    return lines[0] if lines else type(error).__name__


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
