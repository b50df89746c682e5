"""The request parser: comparison with a naive one, limits, and large or finely divided input."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.crdt.node import FOLLOWS
from anabranch.region.engine.batch import Places, Shape
from anabranch.region.resp.parser import ARGUMENTS_MAX, LINE_BYTES_MAX, ProtocolError, RequestParser
from tests.resp.reference import parse_stream
from tests.resp.streams import divided, multibulk, streams

ARGUMENT_BYTES_MAX = 512 << 20
XADD = [b"XADD", b"stream", b"*", b"field", b"0123456789abcdef"]
IDMP = [b"XADD", b"s", b"IDMP"]
VALUES = [b"one", b"two", b"three"]


def parse(
    pieces: list[bytes], argument_bytes_max: int = ARGUMENT_BYTES_MAX, authenticated: bool = True
) -> tuple[list[list[bytes]], str | None]:
    """All commands of a stream fed in pieces, and the protocol error that ends it, or None."""
    parser = RequestParser(argument_bytes_max, authenticated)
    commands = []
    try:
        for piece in pieces:
            parser.feed(piece)
            while (command := parser.next()) is not None:
                commands.append(command)
    except ProtocolError as error:
        return commands, error.text
    return commands, None


@settings(max_examples=400)
@given(streams(), st.lists(st.integers(0, 1 << 16), max_size=20), st.booleans())
def test_any_division_gives_what_the_naive_parser_gives(
    stream: bytes, cuts: list[int], authenticated: bool
) -> None:
    expected = parse_stream(stream, 1000, authenticated)
    assert parse([stream], 1000, authenticated) == expected
    assert parse(divided(stream, cuts), 1000, authenticated) == expected
    assert (
        parse([stream[place : place + 1] for place in range(len(stream))], 1000, authenticated)
        == expected
    )


@settings(max_examples=200)
@given(
    streams(),
    st.lists(st.integers(0, 1 << 16), max_size=20),
    st.lists(st.booleans(), min_size=21, max_size=21),
)
def test_feeding_ahead_of_reading_changes_nothing(
    stream: bytes, cuts: list[int], reads: list[bool]
) -> None:
    """Commands fed while the session is waiting are returned later, in order.

    The parser of a waiting session is fed without being read from.
    """
    parser = RequestParser(1000)
    commands = []
    error = None
    try:
        for piece, read in zip(divided(stream, cuts), reads, strict=False):
            parser.feed(piece)
            if read and (command := parser.next()) is not None:
                commands.append(command)
        while (command := parser.next()) is not None:
            commands.append(command)
    except ProtocolError as caught:
        error = caught.text
    assert (commands, error) == parse_stream(stream, 1000)


@pytest.mark.parametrize(
    "wrong, text",
    [
        (b"*abc\r\n", "invalid multibulk length"),
        (b"*1048577\r\n", "invalid multibulk length"),
        (b"*9223372036854775808\r\n", "invalid multibulk length"),
        (b"*1\r\n$a\r\n", "invalid bulk length"),
        (b"*1\r\n$-1\r\n", "invalid bulk length"),
        (b"*1\r\n$536870913\r\n", "invalid bulk length"),
        (b"*1\r\n+x\r\n", "expected '$', got '+'"),
        (b"*1\r\n\r\nabc\r\n", "expected '$', got ' '"),
        (b"*1\r\n\xffa\r\n", "expected '$', got '\udcff'"),
        (b'"abc\r\n', "unbalanced quotes in request"),
        (b"x" * (LINE_BYTES_MAX + 1), "too big inline request"),
        (b"*" + b"1" * LINE_BYTES_MAX, "too big mbulk count string"),
        (b"*1\r\n$" + b"1" * LINE_BYTES_MAX, "too big bulk count string"),
    ],
)
def test_protocol_errors(wrong: bytes, text: str) -> None:
    assert parse([multibulk(XADD) + wrong]) == ([XADD], "Protocol error: " + text)
    assert (
        parse([wrong[place : place + 1] for place in range(len(wrong))])[1]
        == "Protocol error: " + text
    )


@pytest.mark.parametrize(
    "line", [b"POST / HTTP/1.1\r\n", b"post x\r\n", b"Host: region:7001\r\n", b"hOST:\n"]
)
def test_an_http_request_ends_the_input(line: bytes) -> None:
    """A web page can make a browser send a body to a port of the machine on which it runs."""
    body = b"\r\nXADD s 1-1 a 1\r\n"
    assert parse([b"GET / HTTP/1.1\r\n" + line + body]) == (
        [[b"GET", b"/", b"HTTP/1.1"]],
        "Protocol error: HTTP requests are not taken",
    )
    words = [b"XADD", b"post", b"1-1", b"host:", b"1"]
    assert parse([multibulk(words), b" ".join(words) + b"\r\n"]) == ([words, words], None)


def test_limits_before_authentication() -> None:
    assert parse([b"*10\r\n$16384\r\n"], authenticated=False) == ([], None)
    assert parse([b"*11\r\n"], authenticated=False) == (
        [],
        "Protocol error: unauthenticated multibulk length",
    )
    assert parse([b"*1\r\n$16385\r\n"], authenticated=False) == (
        [],
        "Protocol error: unauthenticated bulk length",
    )


def test_authentication_lifts_the_limits_for_what_is_already_fed() -> None:
    auth, big = [b"AUTH", b"secret"], [b"PING"] + [b"x"] * 20
    parser = RequestParser(ARGUMENT_BYTES_MAX, authenticated=False)
    parser.feed(multibulk(auth) + multibulk(big))
    assert parser.next() == auth
    parser.authenticated = True
    assert parser.next() == big


def test_the_largest_line_and_the_most_arguments_are_accepted() -> None:
    line = b"x" * (LINE_BYTES_MAX - 1) + b"\r\n"
    assert parse([line]) == ([[b"x" * (LINE_BYTES_MAX - 1)]], None)
    assert parse([line[:70], line[70:-1], line[-1:]]) == ([[b"x" * (LINE_BYTES_MAX - 1)]], None)
    command = [b"x"] * ARGUMENTS_MAX
    stream = multibulk(command)
    assert parse(
        [stream[place : place + (1 << 16)] for place in range(0, len(stream), 1 << 16)]
    ) == ([command], None)


def test_a_large_argument_in_small_pieces() -> None:
    """64 MB in reads of 64 KB: with quadratic work the test would exceed its time limit."""
    value = bytes(range(256)) * (1 << 18)
    stream = multibulk([b"SET", value]) + multibulk(XADD)
    assert parse(
        [stream[place : place + (1 << 16)] for place in range(0, len(stream), 1 << 16)]
    ) == ([[b"SET", value], XADD], None)


def test_a_large_argument_a_byte_at_a_time() -> None:
    value = b"\r\n" * (1 << 18)
    stream = multibulk([b"SET", value]) + multibulk(XADD)
    assert parse([stream[place : place + 1] for place in range(len(stream))]) == (
        [[b"SET", value], XADD],
        None,
    )


def test_a_million_commands_in_one_piece_and_in_small_reads_while_nobody_takes_them() -> None:
    """A backlog of a million commands is parsed in linear time, fed at once or in small reads."""
    stream = multibulk([b"PING"]) * 1_000_000
    parser = RequestParser(ARGUMENT_BYTES_MAX)
    parser.feed(stream)
    count = 0
    while parser.next() is not None:
        count += 1
    for place in range(0, len(stream), 1000):
        parser.feed(stream[place : place + 1000])
    assert parser.buffered() == len(stream)
    while parser.next() is not None:
        count += 1
    assert count == 2_000_000
    assert parser.buffered() == 0


def test_arguments_with_line_breaks_in_a_large_backlog() -> None:
    """When the fast path fails, the parser must not retry it over the whole backlog."""
    command = [b"SET", b"a\r\n$3\r\nb"]
    stream = multibulk(command) * 100_000
    parser = RequestParser(ARGUMENT_BYTES_MAX)
    parser.feed(stream[:7])
    for place in range(7, len(stream), 4096):
        parser.feed(stream[place : place + 4096])
    for _ in range(100_000):
        assert parser.next() == command
    assert parser.next() is None


def test_declared_lengths_reserve_nothing_and_buffered_counts_what_is_held() -> None:
    """A declared length allocates no memory, and `buffered` counts only the bytes present."""
    parser = RequestParser(ARGUMENT_BYTES_MAX)
    tracemalloc.start()
    parser.feed(b"*1048576\r\n$5\r\nhello\r\n$536870912\r\nab")
    assert parser.next() is None
    assert tracemalloc.get_traced_memory()[0] < 10_000
    tracemalloc.stop()
    assert parser.buffered() == 7
    parser.feed(b"c" * 1000)
    assert parser.next() is None
    assert parser.buffered() == 1007


def test_idempotent_adds_are_taken_together() -> None:
    """They may differ in the iid and in the values; the first that differs in more ends them."""
    adds = [
        multibulk([*IDMP, b"p", b"%d" % n, b"NOMKSTREAM", b"*", b"f", b"v%d" % n]) for n in range(4)
    ]
    other = [*IDMP, b"q", b"9", b"NOMKSTREAM", b"*", b"f", b"v"]
    shape = Shape("adds", lambda words: Places(4, 8, as_entries=True), 100)
    parser = RequestParser(1 << 20, shapes={b"XADD": [shape]})
    parser.feed(b"".join(adds) + multibulk(other))
    batch = parser.next_batch(100)
    assert batch is not None and batch.first[4] == b"0"
    taken = batch.packed
    assert taken is not None and taken.shape is shape
    assert taken.count == 3 and taken.input_bytes == sum(len(add) for add in adds[1:])
    assert taken.words == [b"1", b"2", b"3"]
    assert taken.data == b"".join(FOLLOWS + b"\3\2v%d" % n for n in range(1, 4))
    assert taken.ends == [len(taken.data) // 3 * n for n in range(1, 4)]
    parser.give_back(batch, 3)
    again = parser.next_batch(100)
    assert again is not None and again.first[4] == b"3" and again.packed is None
    assert parser.next() == other


def test_commands_after_one_of_a_thousand_words_are_not_compared_with_it() -> None:
    """Only numbers of up to three digits are read ahead, and a command alone is right, too."""
    long = [b"XADD", b"s", b"*", *(b"%d" % n for n in range(1000))]
    shape = Shape("adds", lambda words: Places(0, 4, as_entries=True), 100)
    parser = RequestParser(1 << 20, shapes={b"XADD": [shape]})
    parser.feed(multibulk(long) * 2)
    for _ in range(2):
        batch = parser.next_batch(100)
        assert batch is not None and batch.first == long and batch.packed is None


@pytest.mark.parametrize("words", [100, 321, 999])
def test_a_command_of_hundreds_of_words_is_read_as_a_whole(words: int) -> None:
    """Those that follow it and are like it are packed, which a command read in pieces prevents."""
    adds = [[b"XADD", b"s", b"*", *(b"%d" % (n % 7) for n in range(words - 4)), v] for v in VALUES]
    shape = Shape("adds", lambda words: Places(len(words) - 1), 100)
    parser = RequestParser(1 << 20, shapes={b"XADD": [shape]})
    parser.feed(b"".join(multibulk(add) for add in adds))
    batch = parser.next_batch(100)
    assert batch is not None and batch.first == adds[0]
    assert batch.packed is not None and batch.packed.words == VALUES[1:]
    assert parser.next() is None


def test_an_argument_of_which_a_part_waits_is_taken_when_it_is_whole() -> None:
    """The part was fed before its length was read, so the parser did not stall for the rest."""
    parser = RequestParser(ARGUMENT_BYTES_MAX)
    parser.feed(b"*2\r\n$4\r\nECHO\r\n$10\r\n")
    parser.feed(b"01234")
    assert parser.next() is None
    parser.feed(b"56789\r\n" + multibulk(XADD))
    assert parser.next() == [b"ECHO", b"0123456789"]
    assert parser.next() == XADD


def test_quotes_within_single_quotes() -> None:
    assert parse([b"ECHO 'it\\'s' 'a\\b'\r\n"]) == ([[b"ECHO", b"it's", b"a\\b"]], None)
