"""The fixture that makes both sides of a comparison."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import redis

from tests.differential.sides import Pair


@pytest.fixture
def new_pair(oracle: redis.Redis) -> Iterator[Callable[[int], Pair]]:
    """Makes pairs that speak RESP 2 or 3. Both sides of a new pair are empty."""
    pairs: list[Pair] = []

    def make(protocol: int = 2) -> Pair:
        pairs.append(Pair(int(oracle.connection_pool.connection_kwargs["port"]), protocol))
        return pairs[-1]

    yield make
    for pair in pairs:
        pair.close()
