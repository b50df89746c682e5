"""Parts of commands that several kinds use: names, trimming options, IDs that no reply showed."""

from __future__ import annotations

from random import Random
from typing import Final, Optional

# Field names besides the token. The third and fourth have the same names in another order, the
# last has one name twice.
SHAPES: Final[tuple[tuple[bytes, ...], ...]] = (
    (),
    (b"a",),
    (b"a", b"b"),
    (b"b", b"a"),
    (b"a", b"b", b"c", b"d"),
    (b"a", b"a"),
)
# All clients of a run share these names, so that they work on the same groups.
GROUPS: Final = (b"g0", b"g1")
CONSUMERS: Final = (b"c0", b"c1", b"c2", b"c3")
ID_MODES: Final = (b"strict", b"semi-strict", b"liberal")
APPENDFSYNC: Final = (b"always", b"everysec", b"no")
# Words of CONFIG SET that it refuses: a setting and its value.
REFUSED_SETTINGS: Final[tuple[tuple[bytes, bytes], ...]] = (
    (b"appendfsync", b"sometimes"),
    (b"crdt-xadd-id-uniqueness-mode", b"lenient"),
    (b"stream-node-max-entries", b"few"),
    (b"crdt-no-such-setting", b"1"),
)
REFERENCES: Final = (b"KEEPREF", b"DELREF", b"ACKED", b"ACKED")


def group_of(draw: Random) -> bytes:
    """A group's name; the first is the more frequent."""
    return GROUPS[0] if draw.random() < 0.75 else GROUPS[1]


def consumer_of(draw: Random) -> bytes:
    """A consumer's name."""
    return CONSUMERS[int(draw.random() * len(CONSUMERS))]


def unknown_id(draw: Random, now_ms: int) -> bytes:
    """An ID that most likely no entry bears."""
    chance = draw.random()
    if chance < 0.3:
        return b"0-1"
    if chance < 0.9:
        return b"%d-%d" % (now_ms - int(chance * 1000), int(chance * 5000))
    return b"%d" % now_ms


class Trims:
    """One client's way to trim: size in entries, age in ms, and the probabilities of options."""

    def __init__(self, traits: Random) -> None:
        self.size = (2, 5, 12, 40)[int(traits.random() * 4)]
        self.age_ms = (50, 400, 2000)[int(traits.random() * 3)]
        self.approximate = (0.2, 0.6, 1.0)[int(traits.random() * 3)]
        self.references = (0.0, 0.2, 0.6)[int(traits.random() * 3)]

    def words(self, draw: Random, now_ms: int, known: Optional[bytes]) -> list[bytes]:
        """MAXLEN or MINID with its options, as XTRIM and XADD take them.

        `known` is an entry ID that a reply showed, for MINID.
        """
        chance = draw.random()
        words: list[bytes] = []
        if chance < 0.7:
            words.append(b"MAXLEN")
            threshold = b"%d" % int(self.size * chance * 2.2) if chance > 0.02 else b"0"
        else:
            words.append(b"MINID")
            if known is not None and chance < 0.85:
                threshold = known
            elif known is not None and chance < 0.9:
                threshold = known[: known.index(b"-")]  # only the ms of the ID
            else:
                threshold = b"%d-0" % max(now_ms - self.age_ms, 0)
        chance = draw.random()
        if chance < self.approximate:
            words.append(b"~")
            words.append(threshold)
            if chance < self.approximate * 0.3:
                words.append(b"LIMIT")
                words.append((b"0", b"1", b"3", b"10")[int(chance * 1000) % 4])
        else:
            if chance > 0.9:
                words.append(b"=")
            words.append(threshold)
        if self.references and draw.random() < self.references:
            words.append(REFERENCES[int(draw.random() * len(REFERENCES))])
        return words
