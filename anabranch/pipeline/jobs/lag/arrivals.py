"""When entries arrived in a region, and which of them an XREAD cursor skipped there.

Theory of operation
-------------------
A region applies the effects of each origin in the order of their counters. So an entry with the dot
(origin, counter) has arrived in a region when the region's vector covers the dot. A watcher notes
the vector of each region every few hundred milliseconds (`Samples`). The first sample that covers
a dot tells when the entry arrived, to within the time between two samples.

A reader with XREAD keeps one ID for each stream, the highest that it has read, and never sees an
entry that arrives later with a lower ID (S7.2). The cursor of a region at a sample is the highest
ID of all entries that had arrived at the sample before. So an entry is late if its ID is below that
cursor. This is a reader that reads once at each sample. A faster reader skips at least as many.

The functions here are pure.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from anabranch.crdt.vector import Vector
from anabranch.pipeline.resp import printable

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

# Columns of the rows that `arrivals` makes, as a schema of Spark. A row is an entry at a region
# other than its origin. `arrived_ms` and `lag_ms` are null if the entry had not arrived at the end;
# `lag_ms` counts from its arrival at its origin, and is null if that was not watched. `below_ms`
# tells how far the ms of a late ID was below that of the cursor.
SCHEMA: Final = (
    "stream STRING, origin STRING, counter BIGINT, id STRING, id_ms BIGINT, region STRING, "
    "arrived_ms BIGINT, lag_ms BIGINT, late BOOLEAN, below_ms BIGINT"
)
_KEY_DIGITS: Final = 20
_INT64_MAX: Final = (1 << 63) - 1


@dataclass
class Samples:
    """The vectors of one region in the order in which they were noted, with times in ms.

    `cursors` holds, for each stream, the last ID that the region had when the watch began.
    """

    times_ms: list[int] = field(default_factory=list)
    vectors: list[Vector] = field(default_factory=list)
    cursors: dict[bytes, tuple[int, int]] = field(default_factory=dict)

    def note(self, time_ms: int, vector: Vector) -> None:
        """Adds a sample. A vector that goes back is that of a restored region, and is left out."""
        if not self.vectors or all(
            vector.get(region_id, 0) >= counter for region_id, counter in self.vectors[-1].items()
        ):
            self.times_ms.append(time_ms)
            self.vectors.append(vector)

    def gap_ms(self) -> int:
        """The longest time between two samples."""
        pairs = zip(self.times_ms, self.times_ms[1:], strict=False)
        return max((later - earlier for earlier, later in pairs), default=0)

    def steps(self, origin: int) -> list[int]:
        """The counter of an origin at each sample."""
        return [vector.get(origin, 0) for vector in self.vectors]


def id_key(ms: int, seq: int) -> str:
    """A text that sorts as the ID does."""
    return f"{ms:0{_KEY_DIGITS}}-{seq:0{_KEY_DIGITS}}"


def arrivals(
    entries: pd.DataFrame, stream: bytes, watched: dict[str, Samples], names: dict[int, str]
) -> pd.DataFrame:
    """The arrivals of entries of one stream in the regions that did not add them.

    Args:
        entries: A row for each entry: `origin` (its region_id), `counter`, and `key` (`id_key`).
        stream: Its name.
        watched: The samples of each region, by its name.
        names: The names of the members by region_id.

    Returns:
        The rows of SCHEMA. Entries that a region had before the watch have no row there.
    """
    import pandas as pd

    found = entries.reset_index(drop=True)
    found["id"] = found["key"].map(_id)
    found["id_ms"] = found["key"].map(_ms)
    added_ms = pd.Series(pd.NA, found.index, dtype="Int64")
    for region_id, name in names.items():
        if name in watched:
            mine = found["origin"] == region_id
            added_ms[mine] = _arrived_ms(found[mine], watched[name])
    frames = []
    for name, samples in watched.items():
        rows = found.assign(region=name, sample=_sample_of(found, samples))
        rows["cursor"] = _cursors(rows, id_key(*samples.cursors.get(stream, (0, 0))))
        rows["arrived_ms"] = _arrived_ms(rows, samples)
        rows["lag_ms"] = (rows["arrived_ms"] - added_ms).clip(lower=0)
        is_late = rows["key"] < rows["cursor"]
        rows["late"] = is_late.astype("boolean").mask(rows["arrived_ms"].isna())
        below = (rows["cursor"].map(_ms) - rows["id_ms"]).astype("Int64")
        rows["below_ms"] = below.where(rows["late"].fillna(False))
        frames.append(rows[(rows["sample"] > 0) & (rows["origin"].map(names) != name)])
    made = pd.concat(frames, ignore_index=True)
    made["stream"] = printable(stream)
    made["origin"] = made["origin"].map(names)
    columns = [part.split()[0] for part in SCHEMA.split(", ")]
    return made[columns]


def _id(key: str) -> str:
    """The ID as users see it."""
    ms, _, seq = key.partition("-")
    return f"{int(ms)}-{int(seq)}"


def _ms(key: str) -> int:
    return min(int(key[:_KEY_DIGITS]), _INT64_MAX)


def _sample_of(entries: pd.DataFrame, samples: Samples) -> np.ndarray[Any, Any]:
    """The number of the first sample that covers each entry; the number of samples if none does."""
    import numpy as np

    found = np.full(len(entries), len(samples.vectors))
    for origin in entries["origin"].unique():
        mine = (entries["origin"] == origin).to_numpy()
        steps = np.array(samples.steps(int(origin)))
        found[mine] = np.searchsorted(steps, entries["counter"].to_numpy()[mine])
    return found


def _arrived_ms(entries: pd.DataFrame, samples: Samples) -> pd.Series[Any]:
    """When each entry was first seen; null if it was not, or if it was there before the watch."""
    import numpy as np
    import pandas as pd

    numbers = _sample_of(entries, samples)
    times = np.array([*samples.times_ms, 0])
    seen = (numbers > 0) & (numbers < len(samples.times_ms))
    return pd.Series(times[numbers], entries.index, dtype="Int64").where(seen)


def _cursors(rows: pd.DataFrame, first: str) -> pd.Series[str]:
    """The highest key that the region had at the sample before the one of each row."""
    highest = rows.groupby("sample")["key"].max().cummax()
    before = highest.shift(1).fillna(first)
    return rows["sample"].map(before.where(before > first, first))
