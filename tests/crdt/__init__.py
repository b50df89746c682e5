"""Tests of `anabranch.crdt`.

Reading order:

- `conftest`: settings of the property tests.
- `naive_log`, `naive_pairs`: a region log and the pairs of a region as plain lists.
- `model`: a region that is nothing but the simulator's twin.
- `support`: a region in two forms, `crdt` and the twin.
- `test_small_structures`: vectors, spans, places, PELs and pairs.
- `test_pair_run`, `test_pair_finder`: packed pairs, and the table that finds them.
- `test_ids`: entry IDs.
- `test_logs`: packed nodes, region logs, merge and trim.
- `test_layout`: the node layout of a region log.
- `test_digest`: the digest.
- `test_bytes`: encodings for the wire and the disk.
- `test_recorded_changes`: changes, statistics and late arrivals that a step records.
- `test_specified_histories`: the particular histories that SEMANTICS describes.
- `test_delivery`: deliveries of a group.
- `test_snapshots`: snapshots that are not whole.
- `histories`: random histories of three regions.
- `test_histories`: comparison of random histories with the twin.
- `exploration`: exhaustive exploration of small histories.
- `test_exploration`: the checks of all small histories.
"""
