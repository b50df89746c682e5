"""Entry IDs (S4).

An entry ID has 128 bits, `ms << 64 | seq`, and is kept as one int. So comparing, sorting and
adding 1 are plain arithmetic.
"""

from __future__ import annotations

from types import FunctionType
from typing import Final, Optional

from mypy_extensions import i64

MAX_HALF: Final = (1 << 64) - 1
MAX_ID: Final = (1 << 128) - 1
REGION_ID_MAX: Final = 999
# Server-generated seqs are congruent to the region_id modulo this number (S4.1). So the highest
# region_id is 999.
SEQ_STRIDE: Final = 1000

STRICT: Final = "strict"
SEMI_STRICT: Final = "semi-strict"
LIBERAL: Final = "liberal"

# The forms of XADD's ID argument: the values of `IdRequest.kind`.
AUTO: Final = 0  # *
MS_ONLY: Final = 1  # ms
MS_AUTO_SEQ: Final = 2  # ms-*
FULL: Final = 3  # ms-seq


class IdError(ValueError):
    """An ID that is malformed or not allowed. The text is the client's error message."""


ERR_INVALID: Final = "ERR Invalid stream ID specified as stream command argument"
ERR_TOO_SMALL: Final = (
    "ERR The ID specified in XADD is equal or smaller than the target stream top item"
)
ERR_ZERO: Final = "ERR The ID specified in XADD must be greater than 0-0"
ERR_EXHAUSTED: Final = "ERR The stream has exhausted the last possible ID, unable to add more items"
ERR_STRICT: Final = (
    "ERR full stream IDs (ms-seq) are not allowed in strict mode of crdt-xadd-id-uniqueness-mode; "
    "use *, ms or ms-*, or change the mode"
)


def make(ms: int, seq: int) -> int:
    return (ms << 64) | seq


IS_COMPILED: Final = not isinstance(make, FunctionType)
"""Whether this module is compiled, and so all modules of the data."""


def is_above(ms: int, seq: int, other_ms: int, other_seq: int) -> bool:
    """Whether the ID of the first two halves is above that of the others."""
    return ms > other_ms or (ms == other_ms and seq > other_seq)


def ms_of(entry_id: int) -> int:
    return entry_id >> 64


def seq_of(entry_id: int) -> int:
    return entry_id & MAX_HALF


def format_id(entry_id: int) -> bytes:
    """`ms-seq`, as clients see it."""
    return b"%d-%d" % (entry_id >> 64, entry_id & MAX_HALF)


def _half(text: bytes) -> int:
    """Parses an unsigned 64-bit number; raises IdError otherwise."""
    size = len(text)
    if not text.isdigit() or size > 40:
        raise IdError(ERR_INVALID)
    value = int(text)
    if size >= 20 and value > MAX_HALF:
        raise IdError(ERR_INVALID)
    return value


def halves(text: bytes, missing_seq: int = 0) -> tuple[int, int]:
    """Parses `ms-seq`, or `ms` with `missing_seq`; raises IdError with Redis's text (S4.5)."""
    if IS_COMPILED:
        # Nearly every ID is whole, and its numbers are short.
        ms, at = digits(text, 0)
        if 0 < at < len(text) and text[at] == 45:  # -
            seq, end = digits(text, at + 1)
            if end == len(text) and end > at + 1:
                return int(ms), int(seq)
    first, dash, second = text.partition(b"-")
    return _half(first), _half(second) if dash else missing_seq


def digits(text: bytes, start: i64) -> tuple[i64, i64]:
    """Returns the number at `start`, and where it ends: after at most 18 digits, or at `start`."""
    stop: i64 = min(len(text), int(start) + 18)
    at = start
    number: i64 = 0
    while at < stop:
        digit: i64 = text[at] - 48
        if not 0 <= digit <= 9:
            break
        number = number * 10 + digit
        at += 1
    return number, at


def parse(text: bytes, missing_seq: int = 0) -> int:
    """As `halves`, in one number."""
    ms, seq = halves(text, missing_seq)
    return (ms << 64) | seq


def parse_bound(text: bytes, missing_seq: int) -> int:
    """As `parse`; also takes `-` (the lowest ID) and `+` (the highest), for XRANGE and XPENDING."""
    if text == b"-":
        return 0
    if text == b"+":
        return MAX_ID
    return parse(text, missing_seq)


class IdRequest:
    """XADD's ID argument: `kind` is AUTO, MS_ONLY, MS_AUTO_SEQ or FULL."""

    def __init__(self, kind: int, ms: int, seq: int) -> None:
        self.kind: Final = kind
        self.ms: Final = ms
        self.seq: Final = seq

    def is_zero(self) -> bool:
        """Whether it asks for the ID 0-0, which no entry can have."""
        return self.kind in (FULL, MS_ONLY) and self.ms == 0 and self.seq == 0


ANY: Final = IdRequest(AUTO, 0, 0)


def parse_request(text: bytes) -> IdRequest:
    """Parses XADD's ID argument; raises IdError if it is malformed."""
    if text == b"*":
        return ANY
    dash = text.find(b"-")
    if dash < 0:
        return IdRequest(MS_ONLY, _half(text), 0)
    ms = _half(text[:dash])
    if text[dash + 1 :] == b"*":
        return IdRequest(MS_AUTO_SEQ, ms, 0)
    return IdRequest(FULL, ms, _half(text[dash + 1 :]))


def congruent_seq_above(seq: int, region_id: int) -> int:
    """Returns the smallest number above `seq` that is congruent to `region_id` mod SEQ_STRIDE."""
    above = seq + 1
    return above + (region_id - above) % SEQ_STRIDE


def _seq_in_ms(ms: int, region_id: int, last_id: int) -> Optional[int]:
    """Returns the lowest congruent seq that makes an ID of `ms` above `last_id`; None if none."""
    last_ms = last_id >> 64
    if ms < last_ms:
        return None
    if ms > last_ms:
        return region_id
    seq = congruent_seq_above(last_id & MAX_HALF, region_id)
    return seq if seq <= MAX_HALF else None


def generate(region_id: int, last_id: int, now_ms: int) -> int:
    """Returns the ID for `*` (S4.1); raises IdError when the ID space is exhausted."""
    ms, seq = generate_halves(region_id, last_id >> 64, last_id & MAX_HALF, now_ms)
    return (ms << 64) | seq


def generate_halves(region_id: int, last_ms: int, last_seq: int, now_ms: int) -> tuple[int, int]:
    """As `generate`, with the halves of the last ID; returns those of the new one."""
    if now_ms > last_ms:
        ms = now_ms
    else:
        seq = congruent_seq_above(last_seq, region_id)
        if seq <= MAX_HALF:
            return last_ms, seq
        ms = last_ms + 1
    if ms > MAX_HALF:
        raise IdError(ERR_EXHAUSTED)
    return ms, region_id


def choose(request: IdRequest, mode: str, region_id: int, last_id: int, now_ms: int) -> int:
    """Returns the ID of a new entry (S4.1–4.3).

    `mode` is STRICT, SEMI_STRICT or LIBERAL; `last_id` is the stream's; `now_ms` is the engine's
    clock, or the region's floor of generated IDs if that is higher (S7.7). Raises IdError with the
    client's error text when `mode` or `last_id` forbids the ID.
    """
    if request.kind == AUTO:
        return generate(region_id, last_id, now_ms)
    if last_id == MAX_ID:
        raise IdError(ERR_EXHAUSTED)
    if request.kind == FULL:
        if mode == STRICT:
            raise IdError(ERR_STRICT)
        return _above(make(request.ms, request.seq), last_id)
    if mode == LIBERAL:
        if request.kind == MS_ONLY:
            return _above(make(request.ms, 0), last_id)
        return _next_seq(request.ms, last_id)
    seq = _seq_in_ms(request.ms, region_id, last_id)
    if seq is None:
        raise IdError(ERR_TOO_SMALL)
    return make(request.ms, seq)


def _above(entry_id: int, last_id: int) -> int:
    if entry_id == 0:
        raise IdError(ERR_ZERO)
    if entry_id <= last_id:
        raise IdError(ERR_TOO_SMALL)
    return entry_id


def _next_seq(ms: int, last_id: int) -> int:
    """Returns the ID that Redis gives for `ms-*`: the next seq of that ms."""
    last_ms = last_id >> 64
    if ms < last_ms or (ms == last_ms and last_id & MAX_HALF == MAX_HALF):
        raise IdError(ERR_TOO_SMALL)
    if ms > last_ms:
        return make(ms, 0)
    return last_id + 1
