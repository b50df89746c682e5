"""A Spark session for the tests with the marker `spark`, and regions for it to read."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from anabranch import build
from anabranch.pipeline import regions
from tests.support.cluster import LiveCluster

# The Java processes of the tests live for some seconds or a few minutes. On two cores they are
# about a third faster without the second compiler and with the simplest collector.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


@pytest.fixture(autouse=True)
def _no_silence_of_other_tests() -> None:
    """A port may be that of a region that hung in a former test."""
    regions._silent_until_s.clear()


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A session with two cores. If Java or PySpark is missing, the test fails; it never skips."""
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.fail(
            "Spark needs Java 17 or later: install openjdk-17-jre-headless, or set JAVA_HOME"
        )
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        pytest.fail("PySpark is not installed: run `make test-spark`, or pip install '.[spark]'")
    os.environ.update({"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable})
    # The processes of Spark import the build that is tested, and not their current folder.
    os.environ["PYTHONPATH"] = build.environment().get("PYTHONPATH", "")
    os.environ["PYTHONSAFEPATH"] = "1"
    session = (
        SparkSession.builder.master("local[2]")
        .appName("anabranch tests")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.memory", "1g")
        .config("spark.python.authenticate.socketTimeout", "120s")
        .config("spark.sql.python.filterPushdown.enabled", "true")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture
def two_regions(new_cluster: Callable[..., LiveCluster]) -> LiveCluster:
    """The running regions us and eu, with both links up."""
    cluster = new_cluster(["us", "eu"])
    cluster.start_all()
    return cluster
