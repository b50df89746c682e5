"""Tests of `anabranch.crdt`.

Reading order:

- `conftest`: settings of the property tests.
- `support`: a region in two forms, `crdt` and the naive model.
- `test_small`: vectors, spans, places, PELs and pairs.
- `test_pair_run`, `test_pair_finder`: packed pairs, and the table that finds them.
- `test_ids`: entry IDs.
- `test_logs`: packed nodes, region logs, merge and trim.
- `test_layout`: the node layout of a region log.
- `test_digest`: the digest.
- `test_bytes`: encodings for the wire and the disk.
- `test_noticed`: changes, statistics and late arrivals that a step records.
- `test_stories`: the particular histories that SEMANTICS describes.
- `test_found`: regression tests of bugs.
- `histories`: random histories of three regions.
- `test_histories`: comparison of random histories with the naive model.
- `exploration`: exhaustive exploration of small histories.
- `test_exploration`: the checks of all small histories.
"""
