"""The settings that docs/spark-clusters.md names exist in the Spark that is installed."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
# What the user adds to these is a name of the user's own, or a setting that Spark composes.
PREFIXES = (
    "spark.executorEnv",
    "spark.kubernetes.authenticate.driver",
    "spark.kubernetes.driver.secrets",
    "spark.kubernetes.executor.secrets",
    "spark.yarn.appMasterEnv",
)


def named() -> set[str]:
    text = (DOCS / "spark-clusters.md").read_text(encoding="utf-8")
    text += (DOCS / "jobs-sweep.md").read_text(encoding="utf-8")
    return set(re.findall(r"(?:--conf |`)(spark\.[\w.]+)[=`]", text))


def prefix_of(name: str) -> str:
    """The setting, or the part of its name that Spark has."""
    return next((one for one in PREFIXES if name.startswith(f"{one}.")), name)


def test_names_are_found_on_the_page() -> None:
    assert {"spark.pyspark.python", "spark.archives", "spark.driver.host"} <= named()
    assert prefix_of("spark.executorEnv.JAVA_HOME") == "spark.executorEnv"
    assert prefix_of("spark.executor.memory") == "spark.executor.memory"


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_the_settings_of_the_page_exist() -> None:
    import pyspark

    known: set[str] = set()
    for path in (Path(pyspark.__file__).parent / "jars").glob("spark-*.jar"):
        with zipfile.ZipFile(path) as jar:
            for name in jar.namelist():
                if name.endswith(".class"):
                    found = re.findall(rb"spark\.[a-zA-Z0-9.]+", jar.read(name))
                    known |= {one.decode().rstrip(".") for one in found}
    assert len(known) > 1000
    assert {one for one in named() if prefix_of(one) not in known} == set()
