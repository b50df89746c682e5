"""A difference between regions, as a row, and the words for its cause."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

# Causes. NOT_RECEIVED: a region has not received the effect. REMOVAL_NOT_RECEIVED: it has not
# received all that the region knows that removed it. LOST and STANDS: both have applied the same
# effects, so one of them is wrong. DAMAGED: one dot with two contents. UNEXPLAINED: the digests
# differ, and no difference was found.
NOT_RECEIVED: Final = "not-received"
REMOVAL_NOT_RECEIVED: Final = "removal-not-received"
LOST: Final = "lost"
STANDS: Final = "stands"
DAMAGED: Final = "damaged"
UNEXPLAINED: Final = "unexplained"

MEANINGS: Final = {
    NOT_RECEIVED: "A region has not received the effect yet.",
    REMOVAL_NOT_RECEIVED: "A region lacks it by a removal that the others have not received yet.",
    LOST: "Divergence: the regions have applied the same effects, and one lacks it. No log "
    "holds a removal of it.",
    STANDS: "Divergence: both regions have applied its removal, and it still stands in one.",
    DAMAGED: "Divergence: it has different contents under the same dot.",
    UNEXPLAINED: "Divergence: digests differ at equal vectors, and no difference was found.",
}

# The part of a difference that only digests show; those of others are in `jobs/key_state`.
DIGEST: Final = "digest"


@dataclass(frozen=True)
class Difference:
    """One difference.

    Attributes:
        stream: Name of the stream; bytes that are not UTF-8 are surrogates, as in `name`.
        part: In which part of the stream it is, such as ENTRY.
        name: Name of the group; empty for other parts.
        region: Name of the region that issued the effect; empty for a digest.
        counter: Number of that effect; with the region, its dot.
        entry_id: ID of an entry as `ms-seq`; empty for other parts.
        cause: One of `MEANINGS`.
        has: Names of the regions that have it, separated by commas.
        lacks: Names of the regions that lack it, or have it with another content.
        detail: A sentence for people.
    """

    stream: str
    part: str
    name: str
    region: str
    counter: int
    entry_id: str
    cause: str
    has: str
    lacks: str
    detail: str


SCHEMA: Final = (
    "stream STRING, part STRING, name STRING, region STRING, counter BIGINT, entry_id STRING, "
    "cause STRING, has STRING, lacks STRING, detail STRING"
)
