"""Naive models of `crdt` and of the engine, written from the rules alone.

They use plain dicts, sets and lists. They are slow, and simple enough to be checked by reading.

Reading order:

- `naive_log`: entries, merge, trimming and spans.
- `naive_pairs`: the idempotency pairs of one region.
- `naive_stream`: one region, with effects, join and collection.
- `naive_engine`: the effects that each command of a region issues.
"""
