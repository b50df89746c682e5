"""A live cluster of a test, with links that are up and redis-py clients."""

from __future__ import annotations

from typing import Any

import redis

from anabranch import build
from anabranch.cluster.regions import START_PATIENCE_S, ProcessCluster
from tests.support.processes import eventually


class LiveCluster(ProcessCluster):
    """Regions that dial each other. The fixture calls `close`, which stops them."""

    def program(self, name: str) -> tuple[list[str], dict[str, str]]:
        return build.command(), child_env()

    def await_started(self) -> None:
        """Waits until each running region receives from each other running one."""
        self.await_links()

    def await_links(self) -> None:
        """Waits until each running region receives from each other running one."""
        running = [region.name for region in self.running()]

        def up() -> bool:
            return all(
                self.links(name).get(peer) == "up"
                for name in running
                for peer in running
                if peer != name and self.detours.get((name, peer)) != 0
            )

        eventually(up, START_PATIENCE_S, "all links being up")

    def client(self, name: str, **options: Any) -> redis.Redis:
        """A redis-py client of a region."""
        return self[name].client(**options)

    def links(self, name: str) -> dict[str, str]:
        """Peer name → state of the link that receives from it."""
        return self[name].links()

    def sync(self, timeout_ms: int = 20_000) -> None:
        """Runs sync rounds until the vectors of all running regions are equal."""
        self.level(timeout_ms / 1000)

    def vector(self, name: str) -> dict[int, int]:
        """The vector that a region has on its disk, as region_id → counter."""
        return self[name].vector()

    def digest(self, name: str, *key: str) -> str:
        """Digest of a region's converged state, or of one key."""
        return self[name].digest(*key)


def child_env() -> dict[str, str]:
    """The environment of region processes.

    ANABRANCH_ variables are removed, so that no setting of the caller reaches the region, except
    ANABRANCH_PURE. An installed anabranch takes precedence over the source tree.
    """
    return {
        name: value
        for name, value in build.environment().items()
        if not name.startswith("ANABRANCH_") or name == "ANABRANCH_PURE"
    }
