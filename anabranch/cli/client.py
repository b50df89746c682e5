"""Asks one region over RESP3. Errors name the region."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from anabranch.answers import info_of, members_of, vector_of
from anabranch.cli.errors import NoRegion, Refused, Unreachable, WrongPassword, WrongRegion
from anabranch.cli.terminal import shown
from anabranch.region.option_values import parse_address

PATIENCE_S = 5.0


class PeerFacts:
    """One row of CRDT.PEERS: the state of the link by which a region receives from a peer."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self.name = str(fields.get("name", "?"))
        self.region_id = int(fields.get("region_id", 0))
        # "up", "down", "connecting", "refused", "forked" or "none", and the reason.
        self.link = str(fields.get("link", "?"))
        self.detail = str(fields.get("detail", ""))
        # Whether the link has TLS.
        self.has_tls = bool(fields.get("tls", 0))
        self.acknowledged = vector_of(fields.get("acknowledged", []))
        # Effects of the answering region that this peer is not known to have on its disk.
        self.lag = int(fields.get("lag", 0))
        self.delay_ms = int(fields.get("delay_ms", 0))
        # Bytes per second; 0: no limit.
        self.limit_bytes_s = int(fields.get("limit_bytes_s", 0))
        self.lost = bool(fields.get("lost", 0))


def text(value: Any) -> Any:
    """Replies with text instead of bytes; control characters and other bytes are escaped."""
    if isinstance(value, bytes):
        return shown(value)
    if isinstance(value, (list, set, tuple)):
        return [text(item) for item in value]
    if isinstance(value, dict):
        return {text(key): text(item) for key, item in value.items()}
    return value


def pairs(value: Any) -> dict[str, Any]:
    """A map reply as a dict, from a RESP3 map or a flat array."""
    if isinstance(value, dict):
        return value
    return {str(value[n]): value[n + 1] for n in range(0, len(value), 2)}


class RegionClient:
    """A connection to one region.

    `name` names the region in messages. A region that has another name, or another id than a
    `region_id` above 0, is asked nothing.
    """

    def __init__(
        self,
        address: str,
        name: str = "",
        password: str | None = None,
        patience_s: float = PATIENCE_S,
        region_id: int = 0,
    ) -> None:
        # Imported here: redis-py takes long to import, and `anabranch serve` does not need it.
        from redis.connection import Connection

        at = parse_address(address, "an address")
        self.address = address
        self.name = name
        self._region_id = region_id
        self._patience_s = patience_s
        # Whether the region was asked for its name and id. An address stands for an unknown name.
        self._is_known = name in ("", address)
        self._has_password = bool(password)
        self._connection = Connection(
            host=at.host,
            port=at.port,
            password=password,
            protocol=3,
            socket_timeout=patience_s,
            socket_connect_timeout=patience_s,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.disconnect()

    def _who(self) -> str:
        return f"{self.name} at {self.address}" if self.name else f"the region at {self.address}"

    def raw(self, *command: str | bytes | int) -> Any:
        """The reply with bytes; raises Unreachable, Refused, WrongRegion, or NoRegion."""
        return self.raw_many([command])[0]

    def raw_many(self, commands: Sequence[Sequence[str | bytes | int]]) -> list[Any]:
        """The replies to commands that are sent together; raises as `raw` does.

        The first commands are sent only to the region that has the name and id given. A cluster
        file with swapped addresses would otherwise cut, or declare lost, another region than its
        words say.
        """
        if not self._is_known:
            self._is_known = True
            self._require_region()
        return self._exchange(commands)

    def _require_region(self) -> None:
        """Raises WrongRegion if the region has another name or id than those given."""
        try:
            facts = self.facts()
        except Refused:
            return
        found, region_id = facts["crdt_region_name"], facts["crdt_region_id"]
        if found != self.name:
            raise WrongRegion(
                f"the region at {self.address} is {found}, not {self.name}:"
                " correct the addresses or names in the cluster file"
            )
        if self._region_id and region_id != str(self._region_id):
            raise WrongRegion(
                f"the region {self.name} at {self.address} has the id {region_id}, not"
                f" {self._region_id}: correct the ids or addresses in the cluster file"
            )

    def facts(self) -> dict[str, str]:
        """The section `crdt` of INFO; raises as `raw` does, NoRegion if there is no such section.

        It is asked whatever name the region has.
        """
        facts = info_of(self._exchange([("INFO", "crdt")])[0])
        if "crdt_region_name" not in facts:
            raise NoRegion(
                f"the server at {self.address} is no region of anabranch: give the address for"
                " clients of a region"
            )
        return facts

    def _exchange(self, commands: Sequence[Sequence[str | bytes | int]]) -> list[Any]:
        """Sends the commands; see `raw_many`."""
        import redis

        replies: list[Any] = []
        try:
            for command in commands:
                self._connection.send_command(*command)
            for _ in commands:
                replies.append(self._connection.read_response())
            return replies
        except redis.AuthenticationError:
            raise WrongPassword([self._who()], self._has_password) from None
        except redis.TimeoutError:
            raise Unreachable(
                f"{self._who()} did not answer within {self._patience_s:g} s"
            ) from None
        except redis.InvalidResponse:
            raise Unreachable(
                f"{self._who()} does not speak the Redis protocol: give its address for clients"
            ) from None
        except (redis.ConnectionError, OSError) as error:
            raise Unreachable(f"{self._who()} {self._why_ended(error)}") from None
        except redis.ResponseError as error:
            raise Refused(
                f"{self._who()} refused {commands[len(replies)][0]!s}: {shown(str(error))}"
            ) from None

    def _why_ended(self, error: Exception) -> str:
        """Why there is no answer. A region whose commits fail ends the connection (S13.4)."""
        cause = _cause(error)
        failed = self._commit_error() if "closed" in cause.lower() else ""
        if failed:
            return f"cannot write to its disk, and tells nothing of its data meanwhile: {failed}"
        return f"is unreachable: {cause}"

    def _commit_error(self) -> str:
        """The error of the region's last commit, asked on a new connection; empty if none."""
        import redis

        self._connection.disconnect()
        try:
            self._connection.send_command("INFO", "everything")
            return info_of(self._connection.read_response()).get("crdt_commit_error", "")
        except (redis.RedisError, OSError):
            return ""

    def call(self, *command: str | bytes | int) -> Any:
        """The reply with text instead of bytes."""
        return text(self.raw(*command))

    def ping(self) -> bool:
        """Whether the region answers PONG."""
        return bool(self.call("PING") == "PONG")

    def info(self, *section: str) -> dict[str, str]:
        """INFO as one dict."""
        return info_of(self.raw("INFO", *section))

    def vector(self) -> dict[int, int]:
        """CRDT.VECTOR: region_id → counter on the region's disk."""
        return vector_of(self.call("CRDT.VECTOR"))

    def digest(self, *key: str | bytes) -> str:
        """CRDT.DIGEST of the region, or of a key."""
        return str(self.call("CRDT.DIGEST", *key))

    def peers(self) -> list[PeerFacts]:
        """CRDT.PEERS: one row for each other region."""
        return [PeerFacts(pairs(fields)) for fields in self.call("CRDT.PEERS")]

    def members(self) -> dict[int, str]:
        """region_id → name of every region of the cluster."""
        return members_of(self.info("crdt"))

    def link(self, peer: str, action: str, *arguments: int) -> None:
        """CRDT.LINK: changes the link by which this region receives from `peer`."""
        self.call("CRDT.LINK", peer, action, *arguments)


def _cause(error: Exception) -> str:
    message = str(error)
    return (
        "connection refused (is it running?)"
        if "refused" in message.lower()
        else message.rstrip(".")
    )
