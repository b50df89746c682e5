"""A naive twin of every region, which judges what the region does from what it was given.

The twin is written from the specification alone and shares no rule with the product. It takes the
same calls in the same order (`sim.calls`) and computes each reply and each effect.

Reading order:

- `vectors`: dots and vectors as plain tuples and dicts.
- `state`: the data as plain dicts and sets.
- `effects`: effects as the twin compares them.
- `apply`: one effect applied.
- `join`: a snapshot joined.
- `records`: local changes of a group that are on disk and never sent.
- `replies`: expected replies and their comparison.
- `journal`: the rows of the log, and the replay of a start.
- `session`: connections of clients.
- `conflicts`: concurrent effects of two regions, counted.
- `core`: state and log of a region, and how effects are issued.
- `losers`: conflicts of idempotent adds.
- `announce`: the announcements that are due.
- `rounds`: the announcements of a commit.
- `upkeep`: removals that a region issues by itself.
- `arguments`: integers, entry IDs and bounds.
- `ids`: the IDs of new entries.
- `adding`: XADD, XTRIM, XDEL, XSETID, XCFGSET.
- `reading`: ranges and reads.
- `groups`: XGROUP and XACK.
- `claiming`: XCLAIM, XAUTOCLAIM, XPENDING.
- `facts`: XINFO, CRDT.LOG and CRDT.NODES.
- `configuration`: CONFIG.
- `history`: CRDT.HISTORY.
- `looks`: CRDT.GROUPS.
- `keys`: deleting, renaming, deadlines, listing.
- `dispatch`: the table of commands, and transactions.
- `late_replies`: replies to commands that waited.
- `region`: the doors of the engine: commands, merges, joins, ticks, starts.
- `judge`: the judge `twin`.
"""
