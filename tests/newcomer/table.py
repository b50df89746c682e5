"""What becomes of each block of README.md and docs/.

`TABLE` has the blocks of each page in order. A row has the beginning of a block, a fate, and words:

- `RUN`: test_newcomer_live.py pastes it. The words say what of its output is compared.
- `TRIED`: another test runs it; the words are its file.
- `SHOWN`: no command; the words say what it is.
- `OMITTED`: nothing runs it as it stands; the words say why.
"""

from __future__ import annotations

RUN, TRIED, SHOWN, OMITTED = "run", "tried", "shown", "omitted"

_DOCKER = "needs Docker: `make test-compose` starts deploy/compose.yaml"
_SPARK = "needs Spark and Java: `make test-spark` runs such queries and jobs"
_MACHINES = "needs other machines, or changes the system"
_MINUTES = "takes minutes"

Row = tuple[str, str, str]

TABLE: dict[str, list[Row]] = {
    "README.md": [
        ("make up", TRIED, "tests/packaging/test_install_script.py"),
        ("docker compose", OMITTED, _DOCKER),
        ("$ redis-cli --raw -p 7001 XADD orders", RUN, "all that the page shows"),
        ("$ anabranch link cut us eu", RUN, "all that the page shows"),
        ("$ anabranch status", RUN, "all that the page shows"),
        ("import redis", RUN, "the job is delivered"),
        ("pip install .", TRIED, "tests/packaging/test_install.py"),
        ("from anabranch.crdt import ids", RUN, "the imports succeed"),
        ("anabranch simulate", OMITTED, f"{_MINUTES}: `make test-sim`, `make test-chaos`"),
    ],
    "CONTRIBUTING.md": [
        ("apt-get install", OMITTED, _MACHINES),
        ("make test ", OMITTED, f"{_MINUTES}: .ci/run calls these targets"),
    ],
    "docs/learn/README.md": [
        ("anabranch up", RUN, "it says that all regions are up"),
        ("us() { redis-cli", RUN, "each function reaches its region"),
        ("anabranch scenario run anabranch/sim/scenarios/seed-02", RUN, "the scenario passes"),
        ("make .venv/.stubs", OMITTED, f"{_MINUTES}: `make test-mutants` tries such patches"),
    ],
    "docs/architecture.md": [("cli · bench", SHOWN, "a drawing"), ("client  ", SHOWN, "a drawing")],
    "docs/console.md": [("anabranch console --cluster", RUN, "each line serves the page")],
    "docs/explain.md": [("anabranch explain us orders", RUN, "the entry is explained")],
    "docs/jobs-archive.md": [
        ("anabranch pipeline archive", OMITTED, _SPARK),
        ('spark.read.parquet("/archive/entries")', OMITTED, _SPARK),
    ],
    "docs/jobs-audit.md": [("anabranch pipeline audit", OMITTED, _SPARK)],
    "docs/jobs-lag.md": [("anabranch pipeline lag", OMITTED, _SPARK)],
    "docs/jobs-sweep.md": [
        ("anabranch pipeline sweep", OMITTED, _SPARK),
        ("pip install '.[sim,spark]'", OMITTED, _SPARK),
        ('spark.read.parquet("sweeps/7")', OMITTED, _SPARK),
    ],
    "docs/operations-repair.md": [
        ("anabranch backup us us.backup", RUN, "the region has its entries again"),
        ("anabranch check anabranch-data/us", RUN, "the files are sound"),
        ("ls -l /proc/PID/fd", TRIED, "tests/storage/test_lost_files.py"),
        ("anabranch whatif region-lost eu", RUN, "the consequences are told"),
        ("If eu vanished now", SHOWN, "an example of an answer (tests/study, tests/cli)"),
        ("anabranch clock trust ap", RUN, "the region has heard the word"),
        ("anabranch clock reset", RUN, "every region has heard the word"),
        ("us receives nothing from eu", TRIED, "tests/cli/test_events_live.py"),
        ("anabranch export us us.resp", TRIED, "tests/cli/test_restore.py"),
        ("anabranch link heal", TRIED, "tests/cli/test_restore.py"),
        ("anabranch export us us.resp", TRIED, "tests/cli/test_rebuild.py"),
        ("anabranch member lost ap", RUN, "the others call it lost"),
        ("anabranch export ap ap.resp", RUN, "the entries of ap are added in us"),
        ("redis-cli -p 7003 CRDT.MEMBER LOST ap", TRIED, "tests/trust/test_t5_lost.py"),
    ],
    "docs/operations-run.md": [
        ("anabranch up", RUN, "it says that all regions are up"),
        ("anabranch cluster show", RUN, "the file that it makes leads to the cluster"),
        ("anabranch --install-completion", TRIED, "tests/cli/test_commands.py"),
        ("docker compose", OMITTED, _DOCKER),
        ("anabranch status --cluster deploy/cluster.toml", OMITTED, _DOCKER),
        ("DOCKER_BUILDKIT=1 docker build", OMITTED, _DOCKER),
        ("python3 -m venv /opt/anabranch", OMITTED, _MACHINES),
        ("anabranch serve --cluster shop", OMITTED, _MACHINES),
        ("[toxiproxy]", SHOWN, "a part of a file"),
    ],
    "docs/operations-watch.md": [
        ("region  id  state", RUN, "`anabranch status` has these headings"),
        ("curl -i", RUN, "the region is ready"),
        ("event=link_lost", TRIED, "tests/cli/test_events_live.py"),
        ('{"time"', TRIED, "tests/cli/test_log_lines_live.py"),
        ("anabranch serve --crdt-tape-max-bytes", TRIED, "tests/cli/test_judge_live.py"),
    ],
    "docs/ordered-reads.md": [("import time", TRIED, "tests/acceptance/test_ordered_reads.py")],
    "docs/pipeline.md": [
        ("pip install '.[spark]'", OMITTED, _SPARK),
        ("from pyspark.sql import SparkSession", OMITTED, _SPARK),
        ("from anabranch.pipeline import AnabranchDataSource", OMITTED, _SPARK),
        ("query = (", OMITTED, _SPARK),
        ("rides = (", OMITTED, _SPARK),
        ("query = (", OMITTED, _SPARK),
        ("XCFGSET copies", RUN, "the region takes it"),
    ],
    "docs/rocket-rides.md": [
        (".venv/bin/python -m examples.rocket_rides", OMITTED, f"{_MINUTES}: tests/examples"),
        ("Rocket Rides: 10,000 rides", SHOWN, "the report of that run"),
        ("XADD rocket-rides-log", SHOWN, "a command with a part left out"),
        ("CRDT.LOG rocket-rides-log", RUN, "the region takes it"),
        ("query = (", OMITTED, _SPARK),
        ("us-0  ", SHOWN, "lines of the report of another run"),
    ],
    "docs/scenarios.md": [
        ("anabranch scenario run  ", RUN, "the scenario of the page passes on the cluster"),
        ("id-mode: semi-strict", RUN, "it is saved as my-scenario.md"),
        ("anabranch scenario run my-scenario.md --svg", RUN, "the last line only: see the test"),
        ("anabranch log orders --svg", RUN, "each line makes the drawing"),
        ("judges: all", SHOWN, "a file with some of its parts left out"),
        ("FAILED my-scenario.md", SHOWN, "an example of an answer (tests/scenarios)"),
        ("anabranch scenario record", RUN, "with the lines of the session below"),
        ("record> us> XADD", RUN, "all that the page shows"),
    ],
    "docs/security.md": [
        ("anabranch cert create-ca", TRIED, "tests/cli/test_certificates.py"),
        ("anabranch serve --sync-tls", TRIED, "tests/cli/test_certificates.py"),
    ],
    "docs/spark-clusters.md": [
        ("pip wheel", OMITTED, _SPARK),
        ("export PYSPARK_PYTHON", OMITTED, _SPARK),
        ("python3.11 -m venv environment", OMITTED, _SPARK),
        ("environment/bin/anabranch pipeline sweep", OMITTED, _SPARK),
        ("FROM apache/spark", OMITTED, _DOCKER),
        ("anabranch pipeline sweep", OMITTED, _SPARK),
        ("export PYSPARK_PYTHON", OMITTED, _SPARK),
        ("kubectl create secret", OMITTED, _MACHINES),
        ("anabranch pipeline sweep", OMITTED, _MACHINES),
        ("export HADOOP_CONF_DIR", OMITTED, _MACHINES),
        ("export HADOOP_CONF_DIR", OMITTED, _MACHINES),
    ],
    # All blocks of Python of that page, with their outputs.
    "docs/spark-walkthrough.md": [("*", TRIED, "tests/pipeline/test_walkthrough.py")],
    "docs/testing.md": [
        ("anabranch bench acceptance.out_of_memory", OMITTED, _MINUTES),
        ("anabranch bench malformed", OMITTED, _MINUTES),
        ("anabranch simulate", OMITTED, f"{_MINUTES}: `make test-sim`"),
        ("twin at", SHOWN, "an example of a report"),
        ("anabranch chaos", OMITTED, f"{_MINUTES}: `make test-chaos`"),
    ],
    "docs/totals.md": [
        ("python -m examples.totals", OMITTED, _SPARK),
        ("spark.read.parquet", OMITTED, _SPARK),
    ],
}
