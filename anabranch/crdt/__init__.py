"""Replicated data: pure structures and functions, without I/O, clock or randomness.

This package imports no other package of anabranch.

Reading order:

- `ids`: entry IDs, and the rules by which a region gives them.
- `vector`: version vectors and dots.
- `encoding`: the bytes of numbers, strings, IDs and vectors.
- `errors`: the errors that a region raises against a peer.
- `scan`: walking the entries of a packed node.
- `node`: the packed node, a run of entries of one region log in one buffer.
- `adds`: runs of adds, which this region issues one right after the other.
- `node_map`: the ordered map from entry ID to packed node.
- `log_nodes`: the packed nodes of a region log, and which of them changed.
- `region_log`: the entries of one stream that one region added.
- `slices`: entries as they lie in packed nodes, in the order in which a command returns them.
- `cursor`: cursors over one region log, upward and downward.
- `log_reading`: bulk reading of one region log: its size, cuts, and packed nodes as they lie.
- `merge`: the logical stream, which is the k-way merge of the region logs.
- `spans`: sets of counters of one region log, as disjoint ranges.
- `place`: a place in every region log of a stream, such as the start of a group.
- `pel_chunk`: some pending entries of one region log, in columns.
- `pel_part`: all pending entries of one region log.
- `pel_slices`: pending entries as commands see them, one or several.
- `pel_cursor`: walks over pending entries, of one region log and of all.
- `pel`: the pending entries list of a group, and of each consumer.
- `pel_finder`: finding pending entries by ID.
- `delivery`: the state of a group that one region keeps and never replicates.
- `groups`: consumer groups, which are delete-wins.
- `pair`: an idempotent add, and when two of them are a conflict.
- `pair_run`: pairs that follow each other, packed.
- `pair_finder`: which runs may hold the pair of an idempotent ID.
- `producer`: the pairs of one producer, oldest first.
- `idempotency`: the idempotency pairs of one stream.
- `header`: the newest add of each region, and its newest effect, on one key.
- `stream`: the state of one key.
- `memory`: about how many bytes of memory a stream takes.
- `undelivered`: the entries that `XREADGROUP >` would still deliver.
- `acknowledge`: the choice of the acknowledgements that a round announces.
- `effects`: the replicated form of writes.
- `effect_bytes`: the bytes of effects.
- `local`: local records, which change group state and never leave the region.
- `named`: what effects and records name, for the index of the log.
- `block`: blocks, the runs of effects that are stored, chained and relayed.
- `digest`: the digest of one key, which proves convergence.
- `digest_cache`: the digest of a region, kept as keys change.
- `conflicts`: counts of conflicts, by the rule that decides them.
- `scan_order`: the keys in the order in which SCAN returns them.
- `keyspace`: the replicated data of one region.
- `apply`: the change that each effect makes to a keyspace.
- `collecting`: the collection of tombstones and clears that are causally stable.
- `new_keys`: keys that a joined snapshot brings, taken as they were read.
- `join`: the join of a snapshot into a keyspace.
- `images`: the state of a key at a cut, which is encoded later.
- `state`: the bytes of keys and packed nodes in checkpoints and snapshots.
- `snapshot`: a cut of all keys for a peer, most of which is made ahead, and how it is read.
- `gossip`: the messages in which regions report lives, vectors, questions and answers.

Classes of which a region holds many are acyclic (`mypyc_attr`): no object refers back to its owner.
So the compiled build spares them the search for cycles, which would stop the region for a time that
grows with its data.
"""
