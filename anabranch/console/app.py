"""The console as an ASGI application: its routes, and the parts behind them.

Other parts of the console join as an `Extension`: each brings routes of its own under ``/api`` and
uses the same regions, poller and checks. On the page they join in `page/panels.js`.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, Protocol

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from anabranch.console import past, why
from anabranch.console.commands import CommandTable, CommandTables
from anabranch.console.files import PageFiles
from anabranch.console.keys import LongKeys, keys
from anabranch.console.links import LinkController, LinkError, Links, wanted_change
from anabranch.console.live import Live, Wanted
from anabranch.console.login import CLOSED_PAGE, PARAMETER
from anabranch.console.overview import names_of
from anabranch.console.poller import StatePoller
from anabranch.console.regions import Place, Refused, Region, RegionDown
from anabranch.console.security import Guard, Guarded
from anabranch.console.sessions import NoReply, Sessions, printed
from anabranch.console.stream import ROWS_DEFAULT, ROWS_MAX, Streams, Window
from anabranch.console.words import LINE_CHARACTERS_MAX, WrongQuoting, split
from anabranch.crdt import ids

BODY_BYTES_MAX: Final = 4 << 20
_TIME_MAX: Final = 1 << 53
_SESSION_CHARACTERS: Final = 64


class BadRequest(Exception):
    """A parameter is missing or wrong. The text says which, and what would be right."""


class ReadOnly(Exception):
    """The console was started to read only."""


class Console:
    """What the routes share."""

    def __init__(
        self,
        places: list[Place],
        password: str | None,
        controller: LinkController,
        allow_write: bool,
    ) -> None:
        self.regions: Final = [Region(place, password) for place in places]
        self.links: Final = Links(controller)
        self.poller: Final = StatePoller(self.regions, self.links)
        self.streams: Final = Streams()
        self.long_keys: Final = LongKeys()
        self.live: Final = Live(self.poller, self.streams, self.regions, self.long_keys)
        self.tables: Final = CommandTables()
        self.sessions: Final = Sessions()
        self.allow_write: Final = allow_write

    def region(self, name: str | None) -> Region:
        """The region of that name. Raises BadRequest."""
        for region in self.regions:
            if region.name == name:
                return region
        names = ", ".join(region.name for region in self.regions)
        raise BadRequest(f"there is no region {name!r}; there are {names}")

    async def table(self, region: Region) -> CommandTable:
        """The command table of a region. Raises RegionDown or Refused."""
        state = self.poller.states()[self.regions.index(region)]
        return await self.tables.of(region, state.info.get("crdt_life", ""))

    async def names(self) -> dict[int, str]:
        """region_id → name of every region; asks the regions if nobody watches."""
        names = names_of(self.poller.states())
        if not names or not any(state.members for state in self.poller.states()):
            await self.poller.refresh()
            names = names_of(self.poller.states())
        return names

    async def close(self) -> None:
        """Closes every connection."""
        self.live.close()
        await self.poller.close()
        self.sessions.close()
        for region in self.regions:
            await region.close()


class Extension(Protocol):
    """A further part of the console, such as a player of scenarios."""

    def routes(self, console: Console) -> list[BaseRoute]:
        """Its routes; the path of each begins with ``/api/`` and a word of its own."""


Handler = Callable[[Request], Awaitable[Response]]


def answers(handler: Handler) -> Handler:
    """Turns the errors of a handler into answers."""

    async def answer(request: Request) -> Response:
        try:
            return await handler(request)
        except (BadRequest, WrongQuoting, LinkError) as error:
            return JSONResponse({"error": str(error)}, 400)
        except ReadOnly as error:
            return JSONResponse({"error": str(error)}, 403)
        except Refused as error:
            return JSONResponse({"error": str(error)}, 409)
        except (RegionDown, NoReply) as error:
            return JSONResponse({"error": str(error)}, 502)

    return answer


async def body_of(request: Request) -> dict[str, Any]:
    """The JSON object in the body of a request, bounded. Raises BadRequest."""
    data = b""
    async for chunk in request.stream():
        data += chunk
        if len(data) > BODY_BYTES_MAX:
            raise BadRequest(f"the body has more than {BODY_BYTES_MAX} bytes")
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        raise BadRequest("the body must be JSON") from None
    if not isinstance(body, dict):
        raise BadRequest("the body must be a JSON object")
    return body


def key_in(request: Request, long_keys: LongKeys) -> bytes:
    """The key that a request names, as the page calls it. Raises BadRequest."""
    text = request.query_params.get("key")
    if not text:
        raise BadRequest("the parameter key is missing")
    try:
        return long_keys.key_of(text)
    except ValueError as error:
        raise BadRequest(f"key: {error}") from None


def number_in(request: Request, name: str, default: int, highest: int) -> int:
    """A number of a request. Raises BadRequest."""
    text = request.query_params.get(name, str(default))
    if not (text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= highest):
        raise BadRequest(f"{name} must be a number from 0 to {highest}")
    return int(text)


def window_in(request: Request, long_keys: LongKeys) -> Window:
    """The window of a stream that a request names. Raises BadRequest."""
    before = request.query_params.get("before", "")
    try:
        before = ids.format_id(ids.parse(before.encode(), 0)).decode() if before else ""
    except ids.IdError:
        raise BadRequest("before must be an entry ID") from None
    rows = max(number_in(request, "rows", ROWS_DEFAULT, ROWS_MAX), 1)
    return Window(key_in(request, long_keys), before, rows)


class Reading:
    """The handlers that ask regions and change nothing."""

    def __init__(self, console: Console) -> None:
        self._console: Final = console

    def regions_in(self, request: Request) -> list[Region]:
        """The regions that a request names, or all. Raises BadRequest."""
        listed = request.query_params.get("regions", "")
        wanted = [name for name in listed.split(",") if name]
        return [self._console.region(name) for name in wanted] or self._console.regions

    def _key(self, request: Request) -> bytes:
        return key_in(request, self._console.long_keys)

    def _window(self, request: Request) -> Window:
        return window_in(request, self._console.long_keys)

    def wanted(self, request: Request) -> Wanted:
        """What a page wants to watch. Raises BadRequest."""
        window = self._window(request) if request.query_params.get("key") else None
        return Wanted(window, self.regions_in(request), request.query_params.get("filter", ""))

    async def overview(self, request: Request) -> Response:
        """The regions and the links."""
        await self._console.poller.refresh()
        return JSONResponse(self._console.poller.overview())

    async def keys(self, request: Request) -> Response:
        """The keys that match a filter."""
        wanted = request.query_params.get("filter", "")
        return JSONResponse(await keys(self._console.regions, wanted, self._console.long_keys))

    async def stream(self, request: Request) -> Response:
        """A window of a stream in some regions."""
        names = await self._console.names()
        regions, window = self.regions_in(request), self._window(request)
        look = await self._console.streams.look(regions, names, window)
        if look.unread:
            await self._console.streams.read(look.unread, names)
            look = await self._console.streams.look(regions, names, window)
        return JSONResponse(look.facts)

    async def past(self, request: Request) -> Response:
        """A stream as it was in one region."""
        region = self._console.region(request.query_params.get("region"))
        until_ms = number_in(request, "until", 0, _TIME_MAX)
        rows = max(number_in(request, "rows", ROWS_DEFAULT, ROWS_MAX), 1)
        names = await self._console.names()
        return JSONResponse(await past.past(region, self._key(request), until_ms, names, rows))

    async def timeline(self, request: Request) -> Response:
        """The times at which a key changed in one region."""
        region = self._console.region(request.query_params.get("region"))
        names = await self._console.names()
        return JSONResponse(await past.timeline(region, self._key(request), names))

    async def explain(self, request: Request) -> Response:
        """Why an entry is there or not."""
        region = self._console.region(request.query_params.get("region"))
        others = [other for other in self._console.regions if other is not region]
        entry_id = request.query_params.get("id", "")
        names = await self._console.names()
        return JSONResponse(await why.explain(region, others, names, self._key(request), entry_id))

    async def log(self, request: Request) -> Response:
        """The history of a key in one region."""
        region = self._console.region(request.query_params.get("region"))
        until_ms = number_in(request, "until", 0, _TIME_MAX)
        names = await self._console.names()
        return JSONResponse(await why.log(region, names, self._key(request), until_ms))

    async def group(self, request: Request) -> Response:
        """The story of a group in one region."""
        region = self._console.region(request.query_params.get("region"))
        names = await self._console.names()
        name = request.query_params.get("group", "")
        return JSONResponse(await why.group_story(region, names, self._key(request), name))

    async def commands(self, request: Request) -> Response:
        """The commands of a region, for completion."""
        region = self._console.region(request.query_params.get("region"))
        table = await self._console.table(region)
        return JSONResponse({"commands": table.docs})


class LiveEndpoint:
    """The route of the events, as an ASGI application."""

    def __init__(self, live: Live, reading: Reading) -> None:
        self._live: Final = live
        self._reading: Final = reading

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            wanted = self._reading.wanted(request)
        except BadRequest as error:
            await JSONResponse({"error": str(error)}, 400)(scope, receive, send)
            return
        await self._live.serve(request, wanted, send)


class Acting:
    """The handlers that send commands of users, and change links."""

    def __init__(self, console: Console) -> None:
        self._console: Final = console

    async def run(self, request: Request) -> Response:
        """Runs a command line in a region."""
        body = await body_of(request)
        line, session = body.get("line"), body.get("session")
        if not isinstance(line, str) or len(line) > LINE_CHARACTERS_MAX:
            raise BadRequest(f"line must be a text of at most {LINE_CHARACTERS_MAX} characters")
        if not isinstance(session, str) or not 0 < len(session) <= _SESSION_CHARACTERS:
            raise BadRequest(f"session must be a text of at most {_SESSION_CHARACTERS} characters")
        region = self._console.region(body.get("region"))
        words = split(line)
        if not words:
            raise BadRequest("the line has no command")
        if not self._console.allow_write:
            await self._check_reads(region, words)
        reply = await self._console.sessions.line(session, region).run(words)
        self._console.poller.hurry()
        return JSONResponse({"lines": printed(reply)})

    async def _check_reads(self, region: Region, words: list[bytes]) -> None:
        """ReadOnly unless the command table of the region says that the command only reads."""
        table = await self._console.table(region)
        if not table.only_reads(words):
            raise ReadOnly(
                "this console only reads, and the command table does not mark this command as"
                " readonly; start the console with --allow-write to run it"
            )

    async def link(self, request: Request) -> Response:
        """Cuts, heals or delays a link. The new state goes to the pages as an event."""
        if not self._console.allow_write:
            raise ReadOnly("this console only reads; start it with --allow-write to change links")
        names = [region.name for region in self._console.regions]
        await self._console.links.change(wanted_change(await body_of(request), names))
        await self._console.poller.refresh()
        return JSONResponse({})


def create_app(console: Console, guard: Guard, extensions: Sequence[Extension] = ()) -> Guarded:
    """The application. `extensions` bring further routes."""
    page, reading, acting = PageFiles(), Reading(console), Acting(console)

    async def index(request: Request) -> Response:
        login = guard.login
        knows = login.knows(request.cookies)
        if not knows and not login.opens(request.query_params.get(PARAMETER, "")):
            return HTMLResponse(CLOSED_PAGE, 403)
        answer = HTMLResponse(page.index(guard.token, console.allow_write))
        if not knows:
            answer.set_cookie(login.cookie_name, login.cookie, httponly=True, samesite="strict")
        return answer

    async def health(request: Request) -> Response:
        return JSONResponse({"state": "serving"})

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        await console.close()

    handlers: dict[str, Handler] = {
        "overview": reading.overview,
        "keys": reading.keys,
        "stream": reading.stream,
        "past": reading.past,
        "timeline": reading.timeline,
        "explain": reading.explain,
        "log": reading.log,
        "group": reading.group,
        "commands": reading.commands,
    }
    routes: list[BaseRoute] = [
        Route("/", index),
        Route("/health", health),
        Route("/api/live", LiveEndpoint(console.live, reading)),
        *(Route(f"/api/{name}", answers(handler)) for name, handler in handlers.items()),
        Route("/api/run", answers(acting.run), methods=["POST"]),
        Route("/api/link", answers(acting.link), methods=["POST"]),
        *(route for one in extensions for route in one.routes(console)),
        Route("/page/{name}", page.serve),
    ]
    return Guarded(Starlette(routes=routes, lifespan=lifespan), guard)
