"""The end of a run: every group is read to its end, and the regions are compared."""

from __future__ import annotations

import contextlib
from typing import Any, Final

from anabranch.chaos.clients import Workplace, connect
from anabranch.chaos.consumers import GROUP, entries_of_claim, entries_of_read, note_deliveries
from anabranch.chaos.final_state import FinalState, RegionState
from anabranch.chaos.history import DRAIN
from anabranch.chaos.lookers import LOOKS, look
from anabranch.chaos.producers import FIELD, JOBS, KEYS
from anabranch.chaos.regions import ChaosRegions
from anabranch.cluster.errors import ClusterError, ConnectionFailed

COUNT: Final = 500
TIMEOUT_S: Final = 30.0
DRAINER: Final = "drainer"


def drain(final: FinalState, regions: ChaosRegions, place: Workplace) -> None:
    """Reads groups and streams of every region into `final` and the history.

    Before that it looks at the whole state of each region, for the twin. The regions are level, and
    clients have ended, so nothing but this changes their state. It changes local group state only.
    A region that refuses is noted in its `errors`.
    """
    import redis

    for region in final.regions:
        client = connect(regions[region.name].resp_port, TIMEOUT_S)
        try:
            region.info = _info(client)
            for words in LOOKS:
                look(client, words)
            for key in KEYS:
                region.streams[key] = _entries(client, key)
            _drain_group(client, region.name, place)
        except (redis.exceptions.RedisError, OSError) as error:
            region.errors.append(f"the region could not be read at the end: {error!r}")
        finally:
            client.close()
    # What is compared is what is on disk once all have told each other everything.
    if final.level_s is not None:
        with contextlib.suppress(ClusterError, ConnectionFailed):
            regions.level()
    for region in final.regions:
        try:
            _compare(region, regions)
        except (ClusterError, ConnectionFailed) as error:
            region.errors.append(f"vector and digest could not be read: {error}")


def _compare(region: RegionState, regions: ChaosRegions) -> None:
    region.vector = regions[region.name].vector()
    region.digest = regions[region.name].digest()


def _drain_group(client: Any, region: str, place: Workplace) -> None:
    """Reads what was never delivered here, then claims everything that is pending here."""
    now_s = place.history.now_s
    words = ("XREADGROUP", "GROUP", GROUP, DRAINER, "COUNT", COUNT, "STREAMS", JOBS, ">")
    while True:
        sent_s = now_s()
        found = entries_of_read(client.execute_command(*words))
        note_deliveries(place, region, DRAINER, DRAIN, sent_s, now_s(), found)
        if not found:
            break
    cursor = "0-0"
    while True:
        sent_s = now_s()
        reply = client.execute_command(
            "XAUTOCLAIM", JOBS, GROUP, DRAINER, 0, cursor, "COUNT", COUNT
        )
        found = entries_of_claim(reply)
        note_deliveries(place, region, DRAINER, DRAIN, sent_s, now_s(), found)
        cursor = str(reply[0])
        if cursor == "0-0":
            break


def _entries(client: Any, key: str) -> list[tuple[str, str]]:
    """All entries of a stream, page by page."""
    found: list[tuple[str, str]] = []
    start = "-"
    while True:
        page = client.execute_command("XRANGE", key, start, "+", "COUNT", COUNT)
        found += [(str(entry_id), str(fields.get(FIELD, ""))) for entry_id, fields in page]
        if len(page) < COUNT:
            return found
        start = f"({page[-1][0]}"


def _info(client: Any) -> dict[str, str]:
    text = client.execute_command("INFO", "everything")
    if isinstance(text, dict):
        return {str(name): str(value) for name, value in text.items()}
    lines = [line for line in str(text).splitlines() if ":" in line and not line.startswith("#")]
    return dict(line.split(":", 1) for line in lines)
