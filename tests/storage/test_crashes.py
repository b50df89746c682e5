"""Random histories (`histories`) with a start after every transaction (S13.1).

The start runs on a copy of the disk, as after a crash, and must find the last commit.
"""

from __future__ import annotations

import pytest

from tests.storage.histories import Cluster

STEPS = 300


@pytest.mark.parametrize("seed", range(40))
def test_a_start_finds_what_the_last_commit_left(seed: int) -> None:
    Cluster(seed, regions=1 + seed % 3).play(STEPS)


@pytest.mark.parametrize("seed", range(100, 125))
def test_a_start_finds_it_while_tombstones_and_pairs_are_collected(seed: int) -> None:
    Cluster(seed, regions=1 + seed % 3, collects=True).play(STEPS)


@pytest.mark.parametrize("seed", range(200, 206))
def test_larger_nodes_and_slices(seed: int) -> None:
    values: dict[str, int | str] = {
        "stream-node-max-entries": 5,
        "crdt-block-max-bytes": 2000,
        "crdt-slice-max-bytes": 500,
        "crdt-log-max-bytes": 1 << 20,
    }
    Cluster(seed, regions=2, values=values).play(STEPS)


@pytest.mark.parametrize("seed", range(300, 306))
def test_the_log_is_cut_by_effects(seed: int) -> None:
    Cluster(
        seed, regions=3, values={"crdt-log-max-effects": 4, "crdt-log-max-bytes": 1 << 20}
    ).play(STEPS)


def test_regions_that_crashed_agree_in_the_end() -> None:
    """Regions with equal vectors have equal digests, also after crashes (S13.9).

    After all crashes every region pulls from every other region until the vectors are equal.
    """
    for seed in range(400, 404):
        cluster = Cluster(seed, regions=3, looks=0.05)
        cluster.play(200)
        cluster.pull_all(200)
        vectors = [region.engine.vector for region in cluster.regions]
        assert vectors[0] == vectors[1] == vectors[2], cluster
        assert len({region.engine.keyspace.digest() for region in cluster.regions}) == 1, cluster
