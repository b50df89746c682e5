"""Every backticked reference in docs, docstrings and comments leads to something that exists."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.packaging.references import (
    Reference,
    check,
    check_place,
    in_code,
    in_comments,
    in_markdown,
    places_in,
)
from tests.packaging.source_index import Index

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "RELEASING.md",
    *(path for path in sorted((ROOT / "docs").glob("*.md"))),
    *(path for path in sorted((ROOT / "docs" / "learn").glob("*.md"))),
]

# Text → why it refers to nothing in the tree.
ALLOWED = {
    # Files that a cluster writes into its data directory.
    "region.mark": "a file of a region",
    "anabranch-data/cluster.toml": "a file of `anabranch up`",
    "us.log": "a file of `anabranch up`",
    "ca.pem": "a file of `anabranch cert`",
    # Files and folders that programs write.
    "simulated/": "the folder in which `anabranch simulate` writes stories",
    "chaos-report/seed-N/": "the folder in which `anabranch chaos` writes the report of seed N",
    # Patterns of names.
    "planted/NN-name.patch": "NN stands for a number, name for words",
    "sim/mutants/planted/NN-name.patch": "NN stands for a number, name for words",
    # Commands of Redis that are not served.
    "XDELEX": "said to be missing",
    "XACKDEL": "said to be missing",
    "XNACK": "said to be missing",
    "DUMP": "said to be missing",
    "RESTORE": "said to be missing",
    "BGSAVE": "said to be missing",
    "WAITAOF": "said to be missing",
    "LATENCY": "said to be missing",
    "SUBSCRIBE": "said to be missing",
    # Names of client libraries and of frameworks over them.
    "StreamSub": "a class of FastStream",
    "ConsumerGroup": "an option of Watermill",
    "StreamOffset.latest": "a method of Spring Data Redis",
    "ConsumerGroup.create": "a method of walrus",
    "TimeSeries": "a class of walrus",
    "_id": "a column of spark-redis",
    # Words of files.
    "ARGS": "a variable of the Makefile",
    "RUN_ARGS": "a variable of the Makefile",
    "MECHANICAL_ARGS": "a variable of the Makefile",
    "ORDINARY": "a variable of the Makefile",
    "Time": "the title of a column of scenario files",
    "Why": "the title of a column of scenario files",
    "Rule": "the title of a column of scenario files, and a line in the head of a planted bug",
    "Layer": "a line in the head of a planted bug",
    "Test": "a line in the head of a planted bug",
    # Names of Spark and of other sources for it.
    "spark.dataSource.register": "a method of Spark",
    "spark.readStream": "an attribute of Spark's session",
    "spark.sql.python.filterPushdown.enabled": "a setting of Spark",
    "DATA_SOURCE_NOT_FOUND": "an error of Spark",
    "spark.authenticate": "a setting of Spark",
    "spark.executor.memoryOverhead": "a setting of Spark",
    "spark.network.crypto.enabled": "a setting of Spark",
    "spark.pyspark.python": "a setting of Spark",
    "writeStream.foreachBatch": "a method of Spark",
    "kafka.bootstrap.servers": "an option of Spark's Kafka source",
    "kafka.group.id": "an option of Spark's Kafka source",
    "fetchOffset.numRetries": "an option of Spark's Kafka source",
    "kafkaConsumer.pollTimeoutMs": "an option of Spark's Kafka source",
    "timestamp": "a column of Spark's Kafka source",
    "topic": "a column of Spark's Kafka sink",
    "spark.redis.auth": "a setting of spark-redis",
    "spark.redis.host": "a setting of spark-redis",
    "spark.redis.port": "a setting of spark-redis",
    "stream.consumer.prefix": "an option of spark-redis",
    "stream.group.name": "an option of spark-redis",
    "stream.read.block": "an option of spark-redis",
    "subscribe": "an option of Spark's Kafka source",
    "stream.keys": "an option of spark-redis",
    "stream.offsets": "an option of spark-redis",
    "stream.parallelism": "an option of spark-redis",
    "stream.read.batch.size": "an option of spark-redis",
    # Environment variables made of a prefix and the name of an option (region/config.py).
    "ANABRANCH_CONFIG": "the option config",
    "ANABRANCH_CRDT_SYNC_INTERVAL_MS": "the setting crdt-sync-interval-ms",
}


@pytest.fixture(scope="module")
def index() -> Index:
    return Index(ROOT)


@pytest.fixture(scope="module")
def in_the_code(index: Index) -> list[Reference]:
    return list(in_code(index))


def _broken(index: Index, references: list[Reference]) -> list[str]:
    return [
        f"{one.path.relative_to(ROOT)}:{one.line}: `{one.text}`: {why}"
        for one in references
        if (why := check(index, one, ALLOWED)) is not None
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_references_of_a_page(page: Path, index: Index) -> None:
    assert _broken(index, list(in_markdown(page))) == []


def test_what_a_text_says_to_be_in_a_file_is_there(index: Index) -> None:
    """CONTRIBUTING named `_limits` in `info.py` after it had gone: an equal name was enough."""
    texts = {page: page.read_text(encoding="utf-8") for page in PAGES}
    texts |= {path: text for path, (text, _) in index.parsed.items()}
    said = [(path, *place) for path, text in texts.items() for place in places_in(text)]
    assert len(said) > 20
    wrong = {(path.name, why) for path, *place in said if (why := check_place(ROOT, *place))}
    assert wrong == set()


def test_a_name_that_is_elsewhere_is_not_in_the_file() -> None:
    page = "`_limits` in\n`region/engine/commands/info.py`, `Group.acked` in `crdt/groups.py`"
    assert [check_place(ROOT, *place) for place in places_in(page)] == [
        "region/engine/commands/info.py has no _limits",
        None,
    ]
    assert (
        check_place(ROOT, "Group.acks", "crdt/groups.py") == "Group in crdt/groups.py has no acks"
    )
    assert check_place(ROOT, "Group", "crdt/no.py") == "there is no file crdt/no.py"


def test_references_of_docstrings_and_comments(index: Index, in_the_code: list[Reference]) -> None:
    assert len(in_the_code) > 1500
    assert _broken(index, in_the_code) == []


def test_the_allow_list_is_needed(index: Index, in_the_code: list[Reference]) -> None:
    """A text that is not used any more, or that resolves, is not in the list."""
    found = [one for page in PAGES for one in in_markdown(page)] + in_the_code
    for text in ALLOWED:
        uses = [one for one in found if one.text == text]
        assert uses, f"nothing says `{text}` any more"
        assert check(index, uses[0]) is not None, f"`{text}` resolves"


GOOD = [
    "region/driver/driver.py",
    "sim/world/",
    "tests/crdt",
    "sim/mutants/planted/*.patch",
    "anabranch.crdt.idempotency",
    "region.engine.state",
    "sim.plan.Intent",
    "crdt.keyspace.Keyspace.collected",
    "Keyspace.collected",
    "Hub.dial_opened",
    "BlockRow",
    "lifecycle.RECOVERY",
    "engine.tick",
    "read_snapshot()",
    "Keyspace.digest()",
    "clients.execute_batch(session, batch: Batch, now_ms) -> tuple",
    "time.monotonic()",
    "SCHEMA_VERSION",
    "recovery",
    "crdt-sync-interval-ms",
    "--restores",
    "crdt_idmp_retired_alarm",
    "crdt_link2",
    "anabranch_idmp_retired_alarm",
    "anabranch_effects_issued_total",
    "XGROUP",
    "MKSTREAM",
    "python -m anabranch.sim.ci",
    # No references.
    "ms-seq",
    "1700000000012-1",
    "region_id=counter,…",
    "/metrics",
    "XADD orders * item book",
]
BAD = {
    "a file": "region/carrier.py",
    "a folder": "sim/worlds/",
    "a folder without a slash at its end": "tests/region",
    "a file without its folder": "region_drivers.py",
    "a pattern of files": "sim/mutants/planted/*.diff",
    "a module": "crdt.idempotence",
    "a module of a package of packages": "region.engine.core",
    "a module with the distribution's name": "anabranch.crdt.idempotence",
    "a class of a module": "sim.plan.Intention",
    "a class": "RegionEngine",
    "a class of one word": "Attesting",
    "an attribute": "Keyspace.gathered",
    "an attribute of a class in a module": "crdt.keyspace.Keyspace.gathered",
    "a method": "Hub.dial_open()",
    "an attribute of a variable": "keyspace.gathered",
    "a name of a module": "lifecycle.RECOVERING",
    "a function": "read_snapshots()",
    "a function with arguments": "read_snapshots(chunks, limits) -> Keyspace",
    "a method with arguments": "engine.executes(session, argv: list[bytes], now_ms) -> Reply",
    "a constant": "SCHEMA_VERSIONS",
    "a word": "recoverable",
    "a setting": "crdt-sync-intervals-ms",
    "a flag": "--restorations",
    "a figure": "crdt_idmp_retirements",
    "a metric": "anabranch_effects_retired_total",
    "a command": "XGROUPS",
    "a program": "python -m anabranch.sim.continuous",
    "a program without the package": "python -m sim.ci",
}


@pytest.mark.parametrize("text", GOOD)
def test_what_exists_is_found(text: str, index: Index) -> None:
    allowed = ["ms-seq"]
    assert check(index, Reference(ROOT / "README.md", 1, text, False), allowed) is None


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_reference_is_seen(kind: str, index: Index, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# A page\n```\n`{BAD[kind]}`\n```\nSee `Hub` and `{BAD[kind]}`.\n")
    found = list(in_markdown(page))
    assert [(one.line, one.text) for one in found] == [(5, "Hub"), (5, BAD[kind])]
    reasons = [check(index, one, ALLOWED) for one in found]
    assert reasons[0] is None and reasons[1] is not None


def test_references_go_over_line_ends() -> None:
    """In comments a reference may be broken at a space; two backticks mark literal text."""
    text = "x = 1  # see `Hub`\n# and `python -m\n# anabranch.sim.ci` and ``nothing_at_all``\n"
    assert [one.text for one in in_comments(ROOT / "README.md", text)] == [
        "Hub",
        "python -m anabranch.sim.ci",
        "nothing_at_all",
    ]
