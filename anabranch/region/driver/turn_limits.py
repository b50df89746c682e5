"""The limits of a turn, and the delay before a failed write is retried."""

from __future__ import annotations

from typing import Final

from anabranch.crdt.snapshot import CUT_WEIGHT
from anabranch.region.driver.client_limits import TURN_PIECES
from anabranch.region.storage.checkpoint import CAPTURE_BYTES, STRETCH
from anabranch.region.storage.key_index import STRETCH_BYTES


class TurnLimits:
    """Limits of a turn, and the delay before a failed write is retried.

    The simulator uses smaller values. `merge_bytes` bounds the bytes merged in a turn,
    `turn_pieces` the encoded pieces of replies in a turn of one client, `capture_bytes` the state
    of keys captured in one step of a checkpoint, `encode_stretch` the pending entries that it
    encodes in one tick, `cut_weight` the bytes of records made for a snapshot in one tick,
    `index_bytes` the bodies of the log that a row of its index by key covers.
    """

    def __init__(
        self,
        merge_bytes: int = 128 << 10,
        merge_short_us: int = 2000,
        merge_rest_max_us: int = 50_000,
        retry_ms: int = 200,
        turn_pieces: int = TURN_PIECES,
        capture_bytes: int = CAPTURE_BYTES,
        encode_stretch: int = STRETCH,
        cut_weight: int = CUT_WEIGHT,
        index_bytes: int = STRETCH_BYTES,
    ) -> None:
        self.merge_bytes: Final = merge_bytes
        # A turn of merging shorter than this needs no rest after it.
        self.merge_short_us: Final = merge_short_us
        self.merge_rest_max_us: Final = merge_rest_max_us
        self.retry_ms: Final = retry_ms
        self.turn_pieces: Final = turn_pieces
        self.capture_bytes: Final = capture_bytes
        self.encode_stretch: Final = encode_stretch
        self.cut_weight: Final = cut_weight
        self.index_bytes: Final = index_bytes
