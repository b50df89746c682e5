"""A naive parser of commands. It reads only commands that a region accepted.

So it does not explain errors: words that do not parse raise `NotUnderstood`.
"""

from __future__ import annotations

from typing import Final, Optional

from xxhash import xxh3_128_intdigest

Words = tuple[bytes, ...]

MAX_HALF: Final = (1 << 64) - 1
MAX_ID: Final = (1 << 128) - 1
# Generated seqs are congruent to the region_id modulo this (S4.1).
STRIDE: Final = 1000


class NotUnderstood(Exception):
    """A region accepted a command that this parser cannot read."""


def number(text: bytes) -> int:
    """A signed integer; NotUnderstood if the text is none."""
    try:
        return int(text)
    except ValueError:
        raise NotUnderstood(f"{text!r} is not a number") from None


def entry_id(text: bytes, missing_seq: int = 0) -> int:
    """`ms-seq` or `ms` (S4.5); NotUnderstood if the text is neither."""
    ms, dash, seq = text.partition(b"-")
    if not ms.isdigit() or (dash and not seq.isdigit()):
        raise NotUnderstood(f"{text!r} is not an entry ID")
    return (int(ms) << 64) | (int(seq) if dash else missing_seq)


def shown(one: int) -> bytes:
    return b"%d-%d" % (one >> 64, one & MAX_HALF)


def name_of(words: Words) -> bytes:
    """The command's name in capitals, with the second word if the first is a container command."""
    name = words[0].upper()
    if name in (b"XGROUP", b"XINFO", b"XIDMP", b"CONFIG") and len(words) > 1:
        return name + b" " + words[1].upper()
    return name


class TrimRequest:
    """MAXLEN or MINID with its options (S5.2)."""

    __slots__ = ("approximate", "by_length", "limit", "references", "threshold")

    def __init__(self) -> None:
        self.by_length = True
        self.approximate = False
        self.threshold = 0
        self.limit = 0  # 0: none
        self.references = b""


class AddRequest:
    """The arguments of an XADD. `kind` is `*`, `ms`, `ms-*` or `ms-seq`."""

    __slots__ = ("creates_key", "fields", "iid", "kind", "ms", "pid", "seq", "trim")

    def __init__(self) -> None:
        self.creates_key = True
        self.trim: Optional[TrimRequest] = None
        self.pid = b""
        self.iid = b""
        self.kind = ""
        self.ms = 0
        self.seq = 0
        self.fields: list[bytes] = []


def _trim_option(words: Words, index: int, trim: list[TrimRequest]) -> int:
    """Reads one trimming option at `index` into `trim[0]`.

    Returns the index after the option, or `index` if there is no trimming option.
    """
    option = words[index].upper()
    if option in (b"MAXLEN", b"MINID"):
        request = TrimRequest()
        if trim:
            request.references, request.limit = trim[0].references, trim[0].limit
        trim[:] = [request]
        request.by_length = option == b"MAXLEN"
        index += 1
        if words[index] in (b"~", b"="):
            request.approximate = words[index] == b"~"
            index += 1
        request.threshold = number(words[index]) if request.by_length else entry_id(words[index])
        return index + 1
    if option not in (b"LIMIT", b"KEEPREF", b"DELREF", b"ACKED"):
        return index
    if not trim:
        trim.append(TrimRequest())
    if option == b"LIMIT":
        trim[0].limit = number(words[index + 1])
        return index + 2
    trim[0].references = option
    return index + 1


def add_request(words: Words) -> AddRequest:
    """The arguments of an XADD."""
    request = AddRequest()
    if words[2] == b"*":
        request.kind = "*"
        request.fields = list(words[3:])
        return request
    trim: list[TrimRequest] = []
    has_strategy = False
    index = 2
    while index < len(words):
        option = words[index].upper()
        if option == b"NOMKSTREAM":
            request.creates_key = False
            index += 1
        elif option in (b"IDMP", b"IDMPAUTO"):
            request.pid = words[index + 1]
            request.iid = words[index + 2] if option == b"IDMP" else b""
            index += 3 if option == b"IDMP" else 2
        else:
            after = _trim_option(words, index, trim)
            if after == index:
                break
            has_strategy = has_strategy or option in (b"MAXLEN", b"MINID")
            index = after
    request.trim = trim[0] if has_strategy else None
    request.fields = list(words[index + 1 :])
    if request.pid and not request.iid:
        request.iid = automatic_iid(request.fields)
    _read_id(words[index], request)
    return request


def _read_id(text: bytes, request: AddRequest) -> None:
    ms, dash, seq = text.partition(b"-")
    if text == b"*":
        request.kind = "*"
        return
    request.kind = "ms" if not dash else ("ms-*" if seq == b"*" else "ms-seq")
    request.ms = number(ms)
    request.seq = number(seq) if request.kind == "ms-seq" else 0


def automatic_iid(fields: list[bytes]) -> bytes:
    """IDMPAUTO's iid (S9.5): the sum mod 2¹²⁸ of the hashes of the field-value pairs.

    A pair is hashed as (length of the field as a varint, field, value).
    """
    total = 0
    for index in range(0, len(fields), 2):
        length = len(fields[index])
        head = bytearray()
        while length > 127:
            head.append((length & 127) | 128)
            length >>= 7
        head.append(length)
        total += xxh3_128_intdigest(bytes(head) + fields[index] + fields[index + 1])
    return (total % (1 << 128)).to_bytes(16, "big")
