"""Entry IDs (S4): the three modes, clocks, exhaustion, error texts and parsing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.crdt import ids
from anabranch.crdt.ids import (
    IdError,
    IdRequest,
    choose,
    format_id,
    generate,
    make,
    parse,
    parse_bound,
    parse_request,
)

MAX = ids.MAX_HALF
TOO_SMALL = "ERR The ID specified in XADD is equal or smaller than the target stream top item"
INVALID = "ERR Invalid stream ID specified as stream command argument"
EXHAUSTED = "ERR The stream has exhausted the last possible ID, unable to add more items"
ZERO = "ERR The ID specified in XADD must be greater than 0-0"
MODES = (ids.STRICT, ids.SEMI_STRICT, ids.LIBERAL)


def chosen(text: bytes, mode: str, last_id: int = 0, region_id: int = 1, now_ms: int = 7) -> int:
    """The ID that XADD chooses for the ID argument `text`."""
    return choose(parse_request(text), mode, region_id, last_id, now_ms)


def refusal(text: bytes, mode: str, last_id: int = 0, region_id: int = 1, now_ms: int = 7) -> str:
    """The error text with which XADD refuses the ID argument `text`."""
    with pytest.raises(IdError) as caught:
        chosen(text, mode, last_id, region_id, now_ms)
    return str(caught.value)


@pytest.mark.parametrize("mode", MODES)
def test_several_in_one_ms_step_by_the_stride(mode: str) -> None:
    """S4.1: within one ms the seq grows by 1000."""
    last_id = 0
    given_ids = []
    for _ in range(3):
        last_id = chosen(b"*", mode, last_id)
        given_ids.append(format_id(last_id))
    assert given_ids == [b"7-1", b"7-1001", b"7-2001"]


def test_clock_that_jumps_back_never_takes_ids_back() -> None:
    last_id = generate(2, 0, 1000)
    assert format_id(last_id) == b"1000-2"
    assert format_id(generate(2, last_id, 10)) == b"1000-1002"
    assert format_id(generate(2, last_id, 1001)) == b"1001-2"


def test_after_another_regions_id_the_next_congruent_seq() -> None:
    """S4.1: the seq is the next number congruent to the region's id."""
    assert format_id(generate(1, make(7, 2), 7)) == b"7-1001"
    assert format_id(generate(3, make(7, 2), 7)) == b"7-3"
    assert format_id(generate(999, make(7, 1998), 7)) == b"7-1999"
    assert format_id(generate(999, make(7, 1999), 7)) == b"7-2999"


def test_full_ms_goes_on_to_the_next() -> None:
    assert generate(1, make(7, MAX), 7) == make(8, 1)
    # 2**64 - 1 is congruent to 615, so region 1 has no seq left in that ms.
    assert generate(1, make(7, MAX - 100), 5) == make(8, 1)


@pytest.mark.parametrize("mode", MODES)
def test_exhaustion(mode: str) -> None:
    assert refusal(b"*", mode, make(MAX, MAX)) == EXHAUSTED
    assert refusal(b"*", mode, make(MAX, MAX - 100)) == EXHAUSTED
    assert refusal(b"5", mode, make(MAX, MAX)) == EXHAUSTED
    assert refusal(b"5-*", mode, make(MAX, MAX)) == EXHAUSTED


def test_strict() -> None:
    assert chosen(b"110", ids.STRICT) == make(110, 1)
    assert chosen(b"110", ids.STRICT, make(110, 1)) == make(110, 1001)
    assert chosen(b"110-*", ids.STRICT, make(110, 5), region_id=3) == make(110, 1003)
    assert refusal(b"109", ids.STRICT, make(110, 1)) == TOO_SMALL
    assert refusal(b"110", ids.STRICT, make(110, MAX)) == TOO_SMALL
    for full in (b"110-1", b"5-5", b"0-0"):
        assert "strict" in refusal(full, ids.STRICT)
        assert refusal(full, ids.STRICT).startswith("ERR ")


def test_semi_strict() -> None:
    assert chosen(b"110", ids.SEMI_STRICT) == make(110, 1)
    assert chosen(b"110-*", ids.SEMI_STRICT, make(110, 1)) == make(110, 1001)
    assert chosen(b"110-7", ids.SEMI_STRICT, make(110, 6)) == make(110, 7)
    assert refusal(b"110-7", ids.SEMI_STRICT, make(110, 7)) == TOO_SMALL
    assert refusal(b"0-0", ids.SEMI_STRICT) == ZERO


def test_liberal() -> None:
    assert chosen(b"110", ids.LIBERAL) == make(110, 0)
    assert refusal(b"110", ids.LIBERAL, make(110, 0)) == TOO_SMALL
    assert chosen(b"110-*", ids.LIBERAL, make(110, 4)) == make(110, 5)
    assert chosen(b"111-*", ids.LIBERAL, make(110, 4)) == make(111, 0)
    assert chosen(b"0-*", ids.LIBERAL) == make(0, 1)
    assert refusal(b"110-*", ids.LIBERAL, make(110, MAX)) == TOO_SMALL
    assert refusal(b"109-*", ids.LIBERAL, make(110, 0)) == TOO_SMALL
    assert chosen(b"%d-%d" % (MAX, MAX), ids.LIBERAL) == ids.MAX_ID
    assert refusal(b"0", ids.LIBERAL) == ZERO


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"-",
        b"1-",
        b"-1",
        b"1-2-3",
        b"1.2",
        b"x",
        b"1-x",
        b"*-1",
        b"1-**",
        b"+1",
        b" 1",
        b"18446744073709551616",
        b"1-18446744073709551616",
        b"1-1\r",
        b"\xb2",
        b"0x1",
    ],
)
def test_malformed_ids_are_refused(text: bytes) -> None:
    for mode in MODES:
        assert refusal(text, mode) == INVALID
    with pytest.raises(IdError):
        parse(text)


def test_bounds() -> None:
    assert parse_bound(b"-", 5) == 0
    assert parse_bound(b"+", 5) == ids.MAX_ID
    assert parse_bound(b"7", 5) == make(7, 5)
    assert parse_bound(b"7-3", 5) == make(7, 3)


def naive_generate(region_id: int, last_id: int, now_ms: int) -> int:
    """S4.1 by search: the smallest congruent seq in that ms, or else the first in the next ms."""
    ms = max(now_ms, last_id >> 64)
    seq = region_id
    if ms == last_id >> 64:
        last_seq = last_id & ids.MAX_HALF
        seq += max(0, (last_seq - region_id) // 1000) * 1000
        while seq <= last_seq:
            seq += 1000
        if seq > ids.MAX_HALF:
            ms, seq = ms + 1, region_id
    if ms > ids.MAX_HALF:
        raise ids.IdError(ids.ERR_EXHAUSTED)
    return ms << 64 | seq


halves = st.one_of(st.integers(0, 5), st.integers(0, MAX), st.integers(MAX - 2500, MAX))


@given(st.integers(1, 999), halves, halves, halves)
def test_generated_ids_are_those_of_the_naive_search(
    region_id: int, last_ms: int, last_seq: int, now_ms: int
) -> None:
    last_id = make(last_ms, last_seq)
    try:
        expected = naive_generate(region_id, last_id, now_ms)
    except IdError:
        with pytest.raises(IdError):
            generate(region_id, last_id, now_ms)
        return
    found = generate(region_id, last_id, now_ms)
    assert found == expected
    assert found > last_id
    assert ids.seq_of(found) % 1000 == region_id % 1000
    assert ids.ms_of(found) >= now_ms


@given(
    st.integers(0, 3),
    halves,
    halves,
    st.sampled_from(MODES),
    st.integers(1, 999),
    halves,
    halves,
    halves,
)
def test_whatever_is_given_ascends_and_keeps_its_ms(
    kind: int,
    ms: int,
    seq: int,
    mode: str,
    region_id: int,
    last_ms: int,
    last_seq: int,
    now_ms: int,
) -> None:
    """Every chosen ID is above `last_id`, and has the given ms and, by S4.2, a congruent seq."""
    last_id = make(last_ms, last_seq)
    try:
        found = choose(IdRequest(kind, ms, seq), mode, region_id, last_id, now_ms)
    except IdError as error:
        assert str(error).startswith("ERR ")
        return
    assert last_id < found <= ids.MAX_ID
    if kind != ids.AUTO:
        assert ids.ms_of(found) == ms
    if kind == ids.FULL:
        assert mode != ids.STRICT
        assert found == make(ms, seq)
    elif mode != ids.LIBERAL or kind == ids.AUTO:
        assert ids.seq_of(found) % 1000 == region_id


@given(halves, halves)
def test_ids_print_and_parse(ms: int, seq: int) -> None:
    assert parse(format_id(make(ms, seq))) == make(ms, seq)


@given(st.binary(max_size=30))
def test_any_text_is_an_id_or_refused(text: bytes) -> None:
    for reads in (parse, parse_request, lambda each: parse_bound(each, 0)):
        try:
            reads(text)
        except IdError as error:
            assert str(error) == INVALID
