"""What the tests of the console share: a console without a process, and fake links."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from starlette.testclient import TestClient

from anabranch.console.app import Console, create_app
from anabranch.console.links import LinkChange, OutsideCondition
from anabranch.console.login import Login
from anabranch.console.player import Player
from anabranch.console.regions import Place
from anabranch.console.security import Guard
from anabranch.region.option_values import parse_address

HOST = "127.0.0.1:7300"
ORIGIN = f"http://{HOST}"


class FakeLinks:
    """Notes the changes of links, instead of making them."""

    is_outside = False

    def __init__(self) -> None:
        self.changes: list[LinkChange] = []

    def change(self, wanted: LinkChange) -> None:
        self.changes.append(wanted)

    def outside(self) -> list[OutsideCondition]:
        return []


class Page:
    """A page of the console: a client with the cookie, and the page's token and origin."""

    def __init__(self, client: TestClient, guard: Guard, links: FakeLinks) -> None:
        self.client = client
        self.guard = guard
        self.links = links
        self.headers = {"x-anabranch-token": guard.token, "origin": ORIGIN}

    def get(self, name: str, /, **parameters: Any) -> Any:
        """The JSON of an answer; it must be a success."""
        response = self.client.get(f"/api/{name}", params=parameters, headers=self.headers)
        assert response.status_code == 200, response.text
        return response.json()

    def post(self, name: str, /, **body: Any) -> Any:
        """The status and the JSON of an answer."""
        response = self.client.post(f"/api/{name}", json=body, headers=self.headers)
        return response.status_code, response.json()

    def run(self, region: str, line: str, session: str = "one") -> list[str]:
        """The lines that a command line prints; it must be a success."""
        status, body = self.post("run", region=region, line=line, session=session)
        assert status == 200, body
        lines: list[str] = body["lines"]
        return lines


def places(addresses: dict[str, str]) -> list[Place]:
    """Places of regions by name; their ids count from 1."""
    return [
        Place(name, n, parse_address(address, name))
        for n, (name, address) in enumerate(addresses.items(), 1)
    ]


@contextmanager
def opened(
    addresses: dict[str, str],
    *,
    password: str | None = None,
    allow_write: bool = True,
    listen_host: str = "127.0.0.1",
    names: tuple[str, ...] = (),
    login: Login | None = None,
) -> Iterator[Page]:
    """A console over regions at these addresses, and a page of it."""
    links = FakeLinks()
    guard = Guard(listen_host, list(names), login)
    console = Console(places(addresses), password, links, allow_write)
    with TestClient(create_app(console, guard, [Player()]), base_url=ORIGIN) as client:
        client.cookies.set(guard.login.cookie_name, guard.login.cookie)
        yield Page(client, guard, links)
