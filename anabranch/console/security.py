"""Who may ask the console: checks of Host, Origin, token and content type, and response headers.

A browser runs pages of other sites beside this one, and any of them can send requests to an address
on this machine. Other users of the machine can do so, too. Four checks keep them away:

- The Host header must be a name of this console. Otherwise a page whose name an attacker lets point
  to this machine (DNS rebinding) would count as the same origin.
- The page, and every request under ``/api``, needs a cookie, which a browser gets for the token
  that the console prints (`Login`).
- Every request under ``/api`` needs the token that the page holds. Another origin cannot read it.
- A request that changes something also needs the Origin of the page itself, and the content type of
  JSON, which no form of another site can send.
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
from typing import Final

from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.requests import cookie_parser
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from anabranch.console.login import Login

TOKEN_HEADER: Final = "x-anabranch-token"
API: Final = "/api/"
_SAFE_METHODS: Final = frozenset({"GET", "HEAD"})
_OWN_SITES: Final = frozenset({"", "same-origin", "none"})
HEADERS: Final = {
    # With the last line, the browser refuses to take any text as HTML.
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self';"
        " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none';"
        " require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}


def is_loopback(host: str) -> bool:
    """Whether a host is reachable from this machine only: `localhost`, 127.0.0.0/8 or ::1."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def host_of(header: str) -> str:
    """The host in a Host header, without port and brackets, in lower case; empty if it is wrong."""
    text = header.strip().lower()
    if text.startswith("["):
        inner, bracket, rest = text[1:].partition("]")
        return inner if bracket and (not rest or _is_port(rest)) else ""
    host, colon, port = text.partition(":")
    return host if not colon or _is_port(":" + port) else ""


def _is_port(text: str) -> bool:
    return text[0] == ":" and text[1:].isdigit()


class Guard:
    """What the console lets through. `names` are the further hosts of the option ``--host``.

    `token` is that of the page, and not that of the `login`.
    """

    def __init__(self, listen_host: str, names: list[str], login: Login | None = None) -> None:
        self.token: Final = secrets.token_urlsafe(24)
        self.login: Final = login or Login()
        self._names: Final = {name.lower().rstrip(".") for name in (*names, listen_host)}

    def wrong_host(self, header: str, server_host: str) -> str:
        """Empty if the Host header names this console; otherwise what is wrong.

        `server_host` is the address at which the connection arrived.
        """
        host = host_of(header)
        if host and (is_loopback(host) or host.rstrip(".") in self._names or host == server_host):
            return ""
        return (
            f"the console does not answer to the name {host or header!r}: use the address at which"
            " it listens, or start it with --host NAME"
        )

    def wrong_caller(self, method: str, headers: Headers, query: QueryParams) -> str:
        """Empty if the page of this console sent the request; otherwise what is wrong."""
        token = headers.get(TOKEN_HEADER) or query.get("token", "")
        if not hmac.compare_digest(token.encode(), self.token.encode()):
            return f"the header {TOKEN_HEADER} must have the token of the page: load it again"
        if headers.get("sec-fetch-site", "") not in _OWN_SITES:
            return "another site sent this request"
        origin = headers.get("origin")
        own = {f"{scheme}://{headers.get('host', '')}" for scheme in ("http", "https")}
        if origin is not None and origin not in own:
            return f"the origin {origin} is not that of the console"
        if method in _SAFE_METHODS:
            return ""
        if origin is None:
            return "a request that changes something needs an Origin header"
        if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            return "a request that changes something needs the content type application/json"
        if not headers.get(TOKEN_HEADER):
            return f"a request that changes something needs the header {TOKEN_HEADER}"
        return ""


class Guarded:
    """An ASGI application behind the checks of a `Guard`."""

    def __init__(self, app: ASGIApp, guard: Guard) -> None:
        self._app: Final = app
        self._guard: Final = guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("cache-control", "no-store")
            await send(message)

        wrong = self._wrong(scope)
        if wrong:
            refusal = JSONResponse({"error": wrong}, 403)
            await refusal(scope, receive, send_with_headers)
            return
        await self._app(scope, receive, send_with_headers)

    def _wrong(self, scope: Scope) -> str:
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1:
            return "a request needs one Host header"
        server = scope.get("server")
        wrong = self._guard.wrong_host(hosts[0], server[0] if server else "")
        if wrong or not scope["path"].startswith(API):
            return wrong
        if not self._guard.login.knows(cookie_parser("; ".join(headers.getlist("cookie")))):
            return "open the console anew, at the address with a token that it has printed"
        query = QueryParams(scope["query_string"])
        return self._guard.wrong_caller(scope["method"], headers, query)
