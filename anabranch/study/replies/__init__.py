"""The replies of regions as values. Each reply is read here, and nowhere else.

Reading order:

- `parts`: parts of replies: names, dots and places.
- `spans`: sets of counters.
- `events`: the events of a key, in CRDT.HISTORY, CRDT.EXPLAIN and CRDT.EFFECTS.
- `histories`: the history of a key in one region, and the state of the key.
- `groups`: the groups of a key, in CRDT.GROUPS.
"""
