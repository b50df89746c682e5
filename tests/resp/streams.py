"""Hypothesis strategies for the bytes that clients send, well-formed and malformed."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import strategies as st


def multibulk(command: list[bytes]) -> bytes:
    """A command as a client sends it."""
    return b"*%d\r\n" % len(command) + b"".join(
        b"$%d\r\n%b\r\n" % (len(one), one) for one in command
    )


# Names of unknown commands: the error reply of Redis repeats the arguments that it parsed.
NAMES = st.sampled_from([b"zz", b"Zzzzzzzzzzzz", b"zz\r\n", b"z" * 40])


def streams(forbidden: bytes = b"") -> st.SearchStrategy[bytes]:
    """Streams of commands, inline lines, fragments and noise, without the bytes of `forbidden`."""
    allowed = [byte for byte in range(256) if byte not in forbidden]
    arguments = st.one_of(
        st.sampled_from(
            [b"", b"\r\n", b"*", b"$1\r\n", b"0123456789abcdef", b"q" * 150, b"p" * 1100]
        ),
        st.lists(st.sampled_from(allowed), max_size=30).map(bytes),
    )
    whole = st.tuples(NAMES, st.lists(arguments, max_size=12)).map(
        lambda parts: multibulk([parts[0], *parts[1]])
    )
    pieces = [
        b"a",
        b" ",
        b'"',
        b"'",
        b"\\",
        b"\\x4",
        b"\\n",
        b"\t",
        b"\x0b",
        b"\x0c",
        b"\r",
        b"\xff",
    ]
    words = st.lists(st.sampled_from(pieces), max_size=12)
    inline = words.map(lambda parts: b"zz " + b"".join(parts) + b"\r\n")
    fragment = st.sampled_from(
        [
            b"*",
            b"*1",
            b"*0\r\n",
            b"*-1\r\n",
            b"*-7\r\n",
            b"*01\r\n",
            b"*+1\r\n",
            b"* 1\r\n",
            b"*-0\r\n",
            b"*\r\n",
            b"*1\n",
            b"*-9223372036854775808\r\n",
            b"*-9223372036854775809\r\n",
            b"*1\r\n+",
            b"*2\r\n$2\r\nzz\r\n$-1\r\n",
            b"*1\rx$2\rxzzxx",
            b"*1\r\n$02\r\n",
            b"*1\r\n$99999999999999999999\r\n",
            b"*1\r\n\r\n",
            b"*1\r\n$2\rzz\r\n",
            b"*1\r\n$2x\r\nzz\r\n",
            b"*10\r\n$2\r\nzz\r\n",
            b"\r\n",
            b"\n",
            b"$",
            b"\r",
            b"   \r\n",
        ]
    )
    noise = st.lists(
        st.sampled_from([byte for byte in b"*$019-\r\n\"'\\xz " if byte not in forbidden]),
        max_size=20,
    ).map(bytes)
    return st.lists(st.one_of(whole, whole, whole, inline, fragment, noise), max_size=12).map(
        b"".join
    )


def divided(stream: bytes, cuts: list[int]) -> list[bytes]:
    """`stream` in pieces. `cuts` are offsets, taken modulo its length plus one."""
    places = sorted({cut % (len(stream) + 1) for cut in cuts} | {0, len(stream)})
    return [stream[start:stop] for start, stop in pairwise(places)]
