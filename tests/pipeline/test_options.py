"""Options and offsets: what is taken, and what a user is told about a mistake."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from anabranch.pipeline.errors import OptionError
from anabranch.pipeline.offsets import joined, parse_start, read_offset, sorted_offset
from anabranch.pipeline.options import OPTIONS, RegionOptions, SourceOptions

GIVEN = {"endpoints": "us=127.0.0.1:7001, eu=127.0.0.1:7002", "streams": "orders, rides:*"}


def options(is_streaming: bool = False, **more: str) -> SourceOptions:
    return SourceOptions({**GIVEN, **more}, is_streaming)


def test_defaults() -> None:
    found = options()
    assert [(one.name, one.port) for one in found.endpoints] == [("us", 7001), ("eu", 7002)]
    assert found.streams == ["orders", "rides:*"]
    assert (found.fail_on_loss, found.fails_fast, found.pushes_filters) == (True, False, False)
    assert (found.fields_format, found.fetch_bytes, found.entries_max) == ("array", 1 << 20, 0)
    assert found.password() == ""


def test_names_are_taken_in_every_case() -> None:
    found = options(FAILONDATALOSS="False", fieldsformat="JSON", Mode="failfast")
    assert (found.fail_on_loss, found.fields_format, found.fails_fast) == (False, "json", True)


def test_the_read_region_comes_first() -> None:
    assert [one.name for one in options(readRegion="eu").endpoints] == ["eu", "us"]


def test_names_of_endpoints_are_optional() -> None:
    found = options(endpoints="127.0.0.1:7001,[::1]:7002")
    assert [(one.name, one.host) for one in found.endpoints] == [("", "127.0.0.1"), ("", "::1")]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"stream": "x"}, "there is no option 'stream'; did you mean streams? The options are"),
        ({"streams": ""}, "the option streams is missing. Names of streams"),
        ({"streams": "a,,b"}, "streams: an empty name"),
        ({"endpoints": "us"}, "endpoints must be HOST:PORT"),
        ({"endpoints": "us=h:99999"}, "the port must be a number from 0 to 65535"),
        ({"endpoints": "us=h:0"}, "endpoints: 'us=h:0' has the port 0"),
        ({"endpoints": "=h:1"}, "has no name before '='"),
        ({"endpoints": "us=h:1,us=h:2"}, "two addresses have the name us"),
        ({"readRegion": "ap"}, "no endpoint has the name ap; there are us, eu"),
        ({"readRegion": "us", "endpoints": "h:1"}, "there are none: write NAME=HOST:PORT"),
        ({"fetchSize": "1k"}, "fetchSize must be a whole number, not '1k'"),
        ({"fetchSize": "1" * 5000}, "fetchSize must be a whole number, not '1111"),
        ({"fetchSize": "12"}, "fetchSize must be between 4096 and 4194304, not 12"),
        ({"minPartitions": "0"}, "minPartitions must be between 1 and"),
        ({"failOnDataLoss": "no"}, "failOnDataLoss must be true or false, not 'no'"),
        ({"fieldsFormat": "xml"}, "fieldsFormat must be one of array, map, json, raw, not 'xml'"),
        ({"mode": "DROPMALFORMED"}, "mode must be one of PERMISSIVE, FAILFAST"),
        ({"startingOffsets": "latest"}, "a batch query that starts at latest reads nothing"),
        ({"endingOffsets": "earliest"}, "a batch query that ends at earliest reads nothing"),
        ({"maxEntriesPerTrigger": "5"}, "maxEntriesPerTrigger has no effect in a batch query"),
        ({"username": "me"}, "username is given without passwordFile"),
    ],
)
def test_mistakes(more: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError) as error:
        options(False, **more)
    assert message in str(error.value)


def test_filters_are_pushed_for_one_query() -> None:
    """Spark kept the ranges of a filtered query for the next one of the DataFrame: rows missed."""
    assert options(pushFilters="once").pushes_filters and options(pushFilters="ONCE").pushes_filters
    assert not options(pushFilters="false").pushes_filters
    with pytest.raises(OptionError, match="later queries of the same DataFrame would miss rows"):
        options(pushFilters="true")
    with pytest.raises(OptionError, match="pushFilters must be one of false, once, not 'yes'"):
        options(pushFilters="yes")


@pytest.mark.parametrize("name", ["endingOffsets", "pushFilters"])
def test_options_of_batch_queries(name: str) -> None:
    with pytest.raises(OptionError, match=f"{name} has no effect in a streaming query"):
        options(True, **{name: "latest"})


def test_the_password_is_the_first_line_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("secret\r\nmore\n")
    assert options(passwordFile=str(file)).password() == "secret"
    file.write_text("\n")
    with pytest.raises(OptionError, match="is empty"):
        options(passwordFile=str(file)).password()
    with pytest.raises(OptionError, match="cannot read .* No such file"):
        options(passwordFile=str(tmp_path / "none")).password()


def test_a_password_is_not_in_what_goes_to_executors(tmp_path: Path) -> None:
    """Spark sends options to executors; the password itself stays in its file."""
    import pickle

    file = tmp_path / "password"
    file.write_text("very secret\n")
    found = options(passwordFile=str(file))
    assert found.password() == "very secret"
    assert b"very secret" not in pickle.dumps(found)


# -- offsets


def test_starting_offsets() -> None:
    start = parse_start(
        "startingOffsets", '{"orders": {"us": 7, "eu": "latest"}, "rides": "latest"}'
    )
    assert start.point("orders", "us", "earliest") == 7
    assert start.point("orders", "eu", "earliest") == "latest"
    assert start.point("orders", "ap", "earliest") == "earliest"
    assert start.point("rides", "us", "earliest") == "latest"
    assert start.point("other", "us", "earliest") == "earliest"
    assert parse_start("startingOffsets", " latest ").point("a", "us", "earliest") == "latest"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("soon", "must be earliest, latest or JSON such as"),
        ('{"orders": ', "none of these: Expecting value"),
        ("[1]", "must be a JSON object"),
        ("[" * 100_000, "none of these"),
        ('{"orders": 5}', "orders: 5 is not a counter of a region log"),
        ('{"orders": {"us": -1}}', "orders, us: -1 is not a counter"),
        ('{"orders": {"us": true}}', "orders, us: true is not a counter"),
        ('{"orders": {"us": "1-1"}}', 'orders, us: "1-1" is not a counter'),
    ],
)
def test_wrong_offsets(text: str, message: str) -> None:
    with pytest.raises(OptionError) as error:
        parse_start("startingOffsets", text)
    assert message in str(error.value) and "startingOffsets" in str(error.value)


def test_offsets_of_another_source_are_refused() -> None:
    assert read_offset({"orders": {"us": 1}}) == {"orders": {"us": 1}}
    for wrong in (5, {"orders": 5}, {"orders": {"us": "5"}}, [1], None):
        with pytest.raises(OptionError, match="belongs to another query"):
            read_offset(wrong)


def test_equal_offsets_are_equal_texts() -> None:
    """Spark compares offsets as JSON texts."""
    one = sorted_offset({"b": {"us": 1, "eu": 2}, "a": {"us": 0}})
    other = joined({"a": {}}, joined({"b": {"eu": 2}}, {"b": {"us": 1, "eu": 1}}))
    assert json.dumps(one) == json.dumps(other) == '{"a": {}, "b": {"eu": 2, "us": 1}}'


def test_the_table_of_options_has_every_option() -> None:
    """Each option that the class reads is in the table, and the other way round."""
    import inspect
    import re

    source = inspect.getsource(RegionOptions) + inspect.getsource(SourceOptions)
    assert set(re.findall(r"self\._\w+\(\s*\"([a-zA-Z]+)\"", source)) | {"readRegion"} == set(
        OPTIONS
    )
