"""Clients that remove entries: by length, by ID, one by one (S5.1 to S5.3)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from random import Random

from anabranch.sim.history import Words
from anabranch.sim.load.arguments import unknown_id
from anabranch.sim.load.base import Client, Modes, below, pick
from anabranch.sim.plan import ClientPlan


class Trimmer(Client):
    """Sends XTRIM, XDEL, and reads in between.

    It deletes IDs that replies showed, preferably an ID that two entries bear.
    """

    def __init__(self, plan: ClientPlan, regions: tuple[int, ...], modes: Modes) -> None:
        super().__init__(plan, regions, modes)
        # Key → an ID that two entries bore in one reply.
        self.twice: dict[bytes, bytes] = {}

    def know(self, key: bytes, ids: Sequence[bytes]) -> None:
        """Remembers IDs, and notes an ID that two neighbours share."""
        super().know(key, ids)
        for one, other in pairwise(ids):
            if one == other:
                self.twice[key] = one

    def trim(self, draw: Random, now_ms: int) -> list[Words]:
        """XTRIM."""
        key = self.key(draw)
        return [(b"XTRIM", key, *self.trims.words(draw, now_ms, self.known_id(draw, key)))]

    def delete(self, draw: Random, now_ms: int) -> list[Words]:
        """XDEL of one or several known entries, in a row or at random.

        At times of an ID that two entries bear, or also of an ID that no entry bears.
        """
        key = self.key(draw)
        known = self.known.get(key)
        if not known:
            return [self.look(draw, key)]
        twice = self.twice.get(key)
        if twice is not None and draw.random() < 0.5:
            return [(b"XDEL", key, twice)]
        chance = draw.random()
        if chance < 0.25:
            first = below(draw, len(known))
            ids = list(known)[first : first + 2 + below(draw, 4)]
        else:
            ids = [
                known[int(draw.random() * len(known))]
                for _ in range(1 if chance < 0.7 else 2 + below(draw, 4))
            ]
        if chance > 0.95:
            ids.append(unknown_id(draw, now_ms))
        return [(b"XDEL", key, *ids)]

    def delete_unknown(self, draw: Random, now_ms: int) -> list[Words]:
        """XDEL of IDs that most likely no entry bears."""
        key = self.key(draw)
        return [(b"XDEL", key, *(unknown_id(draw, now_ms) for _ in range(1 + below(draw, 2))))]

    def read(self, draw: Random, now_ms: int) -> list[Words]:
        """A range, which shows entry IDs."""
        return [self.look(draw, self.key(draw))]

    def look_and_trim(self, draw: Random, now_ms: int) -> list[Words]:
        """A look at the key and an XTRIM, in one pipeline."""
        key = self.key(draw)
        return [
            pick(draw, ((b"XLEN", key), self.look(draw, key))),
            (b"XTRIM", key, *self.trims.words(draw, now_ms, None)),
        ]

    acts = ((4, trim), (4, delete), (1, delete_unknown), (2, read), (1, look_and_trim))
