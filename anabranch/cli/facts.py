"""The facts that `anabranch status` asks each region for."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from anabranch.answers import links_of, listed_vector, members_of
from anabranch.cli.addresses import RegionAddress
from anabranch.cli.client import PeerFacts
from anabranch.cli.errors import CliError, WrongPassword

# The state of a region whose commits fail, as INFO names it.
FAILED = "failed"


class RegionFacts:
    """The state of one region as it reports it; `error` instead if the region does not answer."""

    def __init__(self, place: RegionAddress) -> None:
        self.place = place
        self.error = ""
        self.error_state = "unreachable"
        # The error, if the region refused the password.
        self.refused: WrongPassword | None = None
        self.vector: dict[int, int] = {}
        self.digest = ""
        self.peers: list[PeerFacts] = []
        self.info: dict[str, str] = {}

    @property
    def state(self) -> str:
        """starting, serving, recovery or failed; if the region could not be asked, why."""
        if self.error:
            return self.error_state
        return self.info.get("crdt_state", "serving")

    @property
    def divergence(self) -> bool:
        """Whether this region has met an equal vector with another digest (S13.9)."""
        return self.info.get("crdt_divergence", "0") not in ("0", "no", "")

    def members(self) -> list[str]:
        """The names of all members of the cluster."""
        return list(members_of(self.info).values())

    def waited_for(self) -> list[str]:
        """The names of the regions that a recovery waits for."""
        waiting = self.info.get("crdt_recovery_waiting_for", "")
        return [name for name in waiting.split(",") if name]

    def peer(self, name: str) -> PeerFacts | None:
        """What this region says of the one with that name; None if it says nothing."""
        return next((peer for peer in self.peers if peer.name == name), None)

    def behind_ms(self, name: str) -> int | None:
        """For how long this region has been behind the one with that name; None if not known."""
        for link in links_of(self.info):
            if link.get("name") == name and link.get("behind_ms", "").isdigit():
                return int(link["behind_ms"])
        return None

    def link_from(self, name: str) -> str:
        """The state of the link that receives from another region; "none" if there is no link."""
        peer = self.peer(name)
        return peer.link if peer is not None else "none"


def ask(place: RegionAddress, password: str | None) -> RegionFacts:
    """Asks a region for everything that `status` shows of it."""
    facts = RegionFacts(place)
    try:
        with place.client(password) as client:
            facts.info = client.info("everything")
            facts.peers = client.peers()
        if facts.state != FAILED:
            _ask_for_state(facts, password)
    except CliError as error:
        facts.error = str(error)
        facts.error_state = error.region_state
        facts.refused = error if isinstance(error, WrongPassword) else None
    if facts.state == FAILED:
        facts.vector = listed_vector(facts.info.get("crdt_disk_vector", ""))
    return facts


def _ask_for_state(facts: RegionFacts, password: str | None) -> None:
    """Asks for vector and digest, which wait for a commit (S2.4), unless commits fail."""
    place = facts.place
    try:
        with place.client(password) as client:
            facts.vector = client.vector()
            facts.digest = client.digest()
    except CliError:
        # The region ends the connections of clients that wait for a commit which failed (S13.4).
        with place.client(password) as client:
            facts.info = client.info("everything")
        if facts.state != FAILED:
            raise
        facts.digest = ""


def ask_all(places: list[RegionAddress], password: str | None) -> list[RegionFacts]:
    """Asks all regions at the same time, so that several silent ones take no longer than one."""
    with ThreadPoolExecutor(max_workers=len(places)) as pool:
        return list(pool.map(lambda place: ask(place, password), places))


class Lack:
    """The number of a region's own effects that another region lacks.

    `bound` is empty for an exact number, otherwise "at least" or "at most". A `count` of None: not
    known.
    """

    def __init__(self, count: int | None, bound: str = "") -> None:
        self.count = count
        self.bound = bound

    def __str__(self) -> str:
        if self.count is None:
            return "unknown"
        return f"{self.bound} {self.count}".strip()


def lack(receiver: RegionFacts, sender: RegionFacts, regions: list[RegionFacts]) -> Lack:
    """The effects that `sender` issued and `receiver` does not have on disk.

    If the sender does not answer, other regions may hold effects of it that the receiver lacks. If
    the receiver does not answer, the sender knows which effects the receiver has acknowledged.
    """
    origin = sender.place.region_id
    if receiver.error:
        peer = sender.peer(receiver.place.name)
        return Lack(None) if peer is None else Lack(peer.lag, "at most")
    has = receiver.vector.get(origin, 0)
    if not sender.error:
        return Lack(max(sender.vector.get(origin, 0) - has, 0))
    known = max(region.vector.get(origin, 0) for region in regions) - has
    return Lack(known, "at least") if known > 0 else Lack(None)
