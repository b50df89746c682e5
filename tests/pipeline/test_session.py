"""What the session of a job does with signals and with the end of Java, without Java."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from anabranch.cli.pipeline import common
from anabranch.pipeline.jobs import session as module
from tests.support.signals import handled_by

ASK = "import signal; print([signal.getsignal(n) == signal.SIG_IGN for n in (2, 15, 1)])"


def ignored() -> str:
    """Whether a process, started as PySpark starts Java, ignores SIGINT, SIGTERM and SIGHUP."""

    def before() -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    line = [sys.executable, "-c", ASK]
    return subprocess.run(line, preexec_fn=before, stdout=subprocess.PIPE, text=True).stdout.strip()


def test_java_ignores_signals_to_the_process_group() -> None:
    """Java ended before the job did, and Python printed a trace for each request to it."""
    with handled_by(signal.SIG_DFL, signal.SIGTERM, signal.SIGHUP):
        with module._java_ignores_signals():
            assert ignored() == "[True, True, True]"
            assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
        assert ignored() == "[True, False, False]"


def test_the_handler_of_pyspark_is_not_kept() -> None:
    """It asks Java in the middle of a request to Java."""
    before = signal.getsignal(signal.SIGINT)
    with module._kept_interruption():
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    assert signal.getsignal(signal.SIGINT) == before


def test_the_log_of_py4j_is_silent(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    """Py4J logs to a logger of its own, and to the root."""
    path = str(tmp_path / "py4j" / "java_gateway.py")

    def log() -> list[str]:
        caplog.clear()
        record = logging.LogRecord("root", logging.ERROR, path, 1, "to the root", None, None)
        logging.getLogger().handle(record)
        logging.getLogger("py4j.clientserver").error("own")
        logging.getLogger("anabranch").error("of another")
        return [one.getMessage() for one in caplog.records]

    with module._silent_gateway():
        assert log() == ["of another"]
    assert log() == ["to the root", "own", "of another"]


def test_the_end_of_java_is_recognised() -> None:
    java = subprocess.Popen([sys.executable, "-c", "pass"])
    assert module._has_ended(java, ConnectionRefusedError())
    assert not module._has_ended(java, ValueError())
    assert not module._has_ended(None, ConnectionRefusedError())


@pytest.mark.parametrize(("job", "advice"), [("restore", True), ("audit", False)])
def test_an_interrupted_job_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], job: str, advice: bool
) -> None:
    def interrupted(*_: object) -> object:
        raise KeyboardInterrupt

    monkeypatch.setattr(common, "open_session", interrupted)
    with pytest.raises(KeyboardInterrupt):
        common.perform(job, "local", None, None, lambda *_: pytest.fail("the job ran"))
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"anabranch: the job {job} was interrupted")
    assert line.endswith("it goes on where it ended") == advice


def test_a_file_that_cannot_be_read_is_named() -> None:
    """The cause of Spark said only FAILED_TO_UNCOMPRESS(5)."""
    text = (
        "An error occurred while calling o39.collectToPython.\n: org.apache.spark.SparkException: "
        "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///a/b.parquet.  "
        "SQLSTATE: KD001\n\tat org.apache.spark.X\nCaused by: java.io.IOException: "
    )
    assert module.readable(Exception(f"{text}FAILED_TO_UNCOMPRESS(5)")) == (
        "the file /a/b.parquet cannot be read: java.io.IOException: FAILED_TO_UNCOMPRESS(5)"
    )
    named = module.readable(Exception(f"{text}/a/b.parquet is no Parquet file"))
    assert named == "java.io.IOException: /a/b.parquet is no Parquet file"
