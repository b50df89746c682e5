"""The API of a toxiproxy server, over toxiproxy-python.

toxiproxy passes TCP connections on, and slows or breaks them. A proxy has a name, an address on
which it listens, and an address (upstream) to which it leads. A toxic is one disturbance of the
bytes in one direction: "downstream" means from the upstream to the side that dialled.

The calls go through `APIConsumer` of the library, because its other classes pass no time-outs on.
Proxies of the environment (http_proxy) are not used: the server is near the regions.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

DOWNSTREAM: Final = "downstream"
UPSTREAM: Final = "upstream"
PATIENCE_S: Final = 5.0
# `APIConsumer` keeps host and port in its class, so one call at a time sets and uses them.
_LOCK: Final = threading.Lock()


class ToxiproxyError(Exception):
    """The server cannot be reached, or refused a call; the text is for the operator."""


@dataclass(frozen=True)
class Toxic:
    """One toxic of a proxy. `attributes`: the values of its type, such as latency in ms."""

    name: str
    type: str
    stream: str
    attributes: Mapping[str, int]


@dataclass(frozen=True)
class Proxy:
    """One proxy as the server reports it. Addresses are HOST:PORT."""

    name: str
    listen: str
    upstream: str
    enabled: bool
    toxics: tuple[Toxic, ...]

    def toxic(self, name: str) -> Toxic | None:
        """The toxic of that name; None without one."""
        return next((toxic for toxic in self.toxics if toxic.name == name), None)


class Toxiproxy:
    """One toxiproxy server. Every method raises ToxiproxyError when the server does not comply."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port

    def version(self) -> str:
        """The version that the server reports."""
        return str(self._call("get", "/version").get("version", "?"))

    def proxies(self) -> dict[str, Proxy]:
        """All proxies by name."""
        reply = self._call("get", "/proxies")
        return {str(name): _proxy(fields) for name, fields in reply.items()}

    def proxy(self, name: str) -> Proxy:
        """One proxy; the error for an unknown one names those that there are."""
        found = self.proxies()
        if name not in found:
            names = ", ".join(sorted(found)) or "none"
            raise ToxiproxyError(f"toxiproxy has no proxy '{name}'; it has {names}")
        return found[name]

    def create(self, name: str, listen: str, upstream: str) -> None:
        """Makes a proxy, which listens at once."""
        fields = {"name": name, "listen": listen, "upstream": upstream, "enabled": True}
        self._call("post", "/proxies", fields)

    def destroy(self, name: str) -> None:
        """Ends a proxy and its connections."""
        self._call("delete", f"/proxies/{name}")

    def enable(self, name: str, enabled: bool) -> None:
        """Lets a proxy listen, or ends that together with all its connections."""
        self._call("post", f"/proxies/{name}", {"enabled": enabled})

    def add(self, proxy: str, toxic: Toxic) -> None:
        """Adds a toxic, which strikes open connections, too."""
        fields = {
            "name": toxic.name,
            "type": toxic.type,
            "stream": toxic.stream,
            "toxicity": 1.0,
            "attributes": dict(toxic.attributes),
        }
        self._call("post", f"/proxies/{proxy}/toxics", fields)

    def remove(self, proxy: str, toxic: str) -> None:
        """Removes a toxic."""
        self._call("delete", f"/proxies/{proxy}/toxics/{toxic}")

    def clean(self, name: str) -> None:
        """Removes all toxics of a proxy and enables it.

        The connections are closed first: the server dies when some kinds of toxics are removed
        from open connections and others are added.
        """
        toxics = self.proxy(name).toxics
        if toxics:
            self.enable(name, False)
        for toxic in toxics:
            self.remove(name, toxic.name)
        self.enable(name, True)

    def _call(self, method: str, path: str, fields: Mapping[str, Any] | None = None) -> Any:
        # Imported here: requests takes long to import, and most commands do not need it.
        import requests
        from toxiproxy.api import APIConsumer
        from toxiproxy.exceptions import InvalidToxic, NotFound, ProxyExists

        options: dict[str, Any] = {"timeout": PATIENCE_S, "proxies": {"http": "", "https": ""}}
        if fields is not None:
            options["json"] = fields
        where = f"toxiproxy at {self.host}:{self.port}"
        try:
            with _LOCK:
                APIConsumer.host, APIConsumer.port = self.host, self.port
                response = getattr(APIConsumer, method)(path, **options)
            if not response.ok:
                raise ToxiproxyError(f"{where} refused {path}: {response.text.strip()}")
            return response.json() if response.content else {}
        except (InvalidToxic, NotFound, ProxyExists) as error:
            reason = error.args[0] if error.args else error
            text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
            raise ToxiproxyError(f"{where} refused {path}: {text.strip()}") from None
        except requests.Timeout:
            raise ToxiproxyError(f"{where} did not answer within {PATIENCE_S:g} s") from None
        except requests.JSONDecodeError:
            raise ToxiproxyError(f"{where} sent no JSON: it may be another program") from None
        except requests.RequestException as error:
            cause = "connection refused" if "refused" in str(error) else str(error)
            raise ToxiproxyError(f"{where} is unreachable: {cause} (is it running?)") from None


def _proxy(fields: Mapping[str, Any]) -> Proxy:
    toxics = tuple(
        Toxic(
            str(toxic["name"]),
            str(toxic["type"]),
            str(toxic["stream"]),
            {str(key): int(value) for key, value in dict(toxic["attributes"]).items()},
        )
        for toxic in fields.get("toxics") or []
    )
    return Proxy(
        str(fields["name"]),
        str(fields["listen"]),
        str(fields["upstream"]),
        bool(fields["enabled"]),
        toxics,
    )
