"""Running totals without Spark: numbers, states, directories, options and reports."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from anabranch.pipeline.errors import OptionError, PipelineError
from anabranch.pipeline.jobs.totals import job
from anabranch.pipeline.jobs.totals.folder import Checkpoint, Counted, check_out, put_out
from anabranch.pipeline.jobs.totals.job import TotalsOptions, check
from anabranch.pipeline.jobs.totals.numbers import Sum, number_of, plain
from anabranch.pipeline.jobs.totals.report import FieldFacts, Found, report

COUNTED = Counted("local", "orders", "user", ["amount"], ["day"])


# -- numbers


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b"7", "7"),
        (b"-1.50", "-1.5"),
        (b" +.5\n", "0.5"),
        (b"3.", "3"),
        (b"1.25e2", "125"),
        (b"1E-3", "0.001"),
        (b"0.1", "0.1"),
        (b"-0", "0"),
        (b"1e100", "1" + "0" * 100),
    ],
)
def test_numbers(text: bytes, value: str) -> None:
    found = number_of(text)
    assert found is not None and plain(found) == value


@pytest.mark.parametrize(
    "text",
    [
        *(b"", b"much", b"1,5", b"1_000", b"NaN", b"inf", b"0x10", b"1 2"),
        *(b"1e101", b"1e-101", b"1e", b"1e99999999999", b"1" * 101),
        *(b"\xff", "\u0661".encode()),
    ],
)
def test_texts_that_are_no_numbers(text: bytes) -> None:
    assert number_of(text) is None


def test_sums_are_exact() -> None:
    """Floats would lose the small numbers, and 0.1 would not be a tenth."""
    total = Sum()
    for text in (b"1e100", b"0.1", b"0.2", b"-1e100", b"1e-100", None, b"much"):
        total.add(text)
    assert plain(total.total) == "0.3" + "0" * 98 + "1"
    assert (total.numbers, total.missing, total.others) == (5, 1, 1)


@pytest.mark.spark
def test_a_state_holds_a_sum() -> None:
    from anabranch.pipeline.jobs.totals.state import schema, sums_of, values_of

    sums = [Sum(Decimal("1E+2"), 2, 0, 1), Sum()]
    state = values_of(3, sums)
    assert state == (3, "100", 2, 0, 1, "0", 0, 0, 0)
    assert len(schema(2).split(", ")) == len(state)
    assert values_of(3, sums_of(state)) == state


# -- directories


def test_a_checkpoint_is_for_one_question(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "checkpoint")
    with checkpoint.locked():
        assert checkpoint.claim(COUNTED) == checkpoint.claim(COUNTED)
        with pytest.raises(OptionError, match="with sums .*amount.* this run has .*tip"):
            checkpoint.claim(replace(COUNTED, sums=["tip"]))
        with (
            pytest.raises(PipelineError, match="another job works on the checkpoint"),
            Checkpoint(tmp_path / "checkpoint").locked(),
        ):
            pass
    assert checkpoint.newest() is None
    (checkpoint.query / "commits").mkdir(parents=True)
    for name in ("9", "10", ".10.crc"):
        (checkpoint.query / "commits" / name).touch()
    assert checkpoint.newest() == 10


def test_a_checkpoint_of_something_else(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    with pytest.raises(OptionError, match="is not empty and holds no totals"):
        Checkpoint(tmp_path).claim(COUNTED)
    with pytest.raises(OptionError, match="is not empty and holds no totals"):
        Checkpoint(tmp_path).locked()
    # A lock in an archive was a file that the archive did not know: it refused to go on.
    assert [one.name for one in tmp_path.iterdir()] == ["offsets"]
    with pytest.raises(OptionError, match="is not empty and holds no totals"):
        check_out(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(OptionError, match="is a file"):
        Checkpoint(tmp_path / "file").locked()
    with pytest.raises(OptionError, match="is a file"):
        check_out(tmp_path / "file")


def test_totals_are_replaced_as_a_whole(tmp_path: Path) -> None:
    """A reader of the former totals can finish, and a killed writer leaves the former ones."""

    def write(text: str) -> Any:
        def to(path: str) -> None:
            Path(path).mkdir()
            (Path(path) / "part.parquet").write_text(text)

        return to

    def newest() -> str:
        return (tmp_path / "totals" / "part.parquet").read_text()

    def killed(path: str) -> None:
        write("half")(path)
        raise KeyboardInterrupt

    put_out(tmp_path, "a-1", write("one"))
    with pytest.raises(KeyboardInterrupt):
        put_out(tmp_path, "a-2", killed)
    assert newest() == "one"
    put_out(tmp_path, "a-2", write("two"))
    assert newest() == "two"
    put_out(tmp_path, "a-3", write("three"))
    put_out(tmp_path, "a-3", write("never written"))
    assert newest() == "three"
    assert [one.name for one in sorted((tmp_path / "versions").iterdir())] == ["a-2", "a-3"]
    check_out(tmp_path)


# -- options and report


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"key": ""}, "--key: the name of the field is empty"),
        ({"sums": []}, "--sum: name one field"),
        ({"sums": ["a", ""]}, "--sum: name one field"),
        ({"sums": ["a", "a"]}, "--sum names the field 'a' twice"),
        ({"by": ["hour"]}, "--by: 'hour' is none of stream, region, day"),
        ({"by": ["day", "day"]}, "or stands there twice"),
    ],
)
def test_mistakes_of_users(more: dict[str, Any], message: str) -> None:
    options = TotalsOptions({}, "orders", "user", ["amount"], Path("checkpoint"), [])
    check(options)
    with pytest.raises(OptionError, match=message):
        check(replace(options, **more))


def test_a_run_ends_within_a_millisecond_of_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark takes whole milliseconds. A run of which less was left ended with "Timeout has to be
    positive"."""

    class Query:
        """A query whose waits end a little early, as floored times do."""

        def __init__(self) -> None:
            self.now_s = 0.0

        def awaitTermination(self, timeout_s: float) -> bool:
            whole_ms = int(timeout_s * 1000)
            assert whole_ms > 0, "Timeout has to be positive"
            self.now_s += whole_ms / 1000
            return False

    query = Query()
    monkeypatch.setattr(job, "time", SimpleNamespace(monotonic=lambda: query.now_s))
    options = TotalsOptions(
        {}, "orders", "user", ["amount"], Path("checkpoint"), [], seconds=1.0004
    )
    checkpoint: Any = SimpleNamespace(newest=lambda: None)
    session: Any = None
    job._watch(session, options, checkpoint, query, "")
    assert 1.0004 <= query.now_s < 1.002


def test_a_report() -> None:
    row = {"key": None, "day": date(2026, 11, 23), "entries": 3, "exact": "1.5", "others": 1}
    fields = [FieldFacts("amount", "1.5", 2, 1, 1)]
    found = report(Found(COUNTED, 4, 1, 3, fields, [row], Path("out")))
    assert found.lines == [
        "counted: 3 entries of 1 key",
        "sum of 'amount': 1.5, of 2 numbers",
        "no numbers, and not summed: 1 value of 'amount'",
        "without a field 'amount': 1 entry",
        "The totals of all keys are in out/totals.",
    ]
    assert found.tables[0].rows == [["(no user)", "2026-11-23", "3", "1.5", "1"]]
    assert found.facts["largest"][0] == {
        "key": None,
        "day": "2026-11-23",
        "entries": 3,
        "total": "1.5",
        "not_numbers": 1,
    }
