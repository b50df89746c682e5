"""No page of another origin makes a command reach a region, and a reader cannot write."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from anabranch import build
from anabranch.cluster.ports import free_ports
from anabranch.console.commands import CommandTable
from anabranch.console.login import VARIABLE, Login, WrongToken, given_token
from anabranch.console.regions import text
from anabranch.console.security import HEADERS, Guard, host_of, is_loopback
from anabranch.region.engine import registry
from anabranch.region.engine.commands.introspection import describe
from anabranch.region.engine.replies import MapReply, Reply, SetReply, SimpleString
from tests.console.support import HOST, ORIGIN, Page, opened

# Every route that asks or changes something, and the page's own.
READS = [
    "overview", "keys", "stream", "past", "timeline", "explain", "log", "group", "commands", "live",
]  # fmt: skip
ACTS = ["run", "link"]


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    """A console whose regions do not answer: a refusal comes before any question."""
    ports = free_ports(2)
    addresses = {"us": f"127.0.0.1:{ports[0]}", "eu": f"127.0.0.1:{ports[1]}"}
    with opened(addresses, names=("console.example",)) as one:
        yield one


# -- the Host header (DNS rebinding)


@pytest.mark.parametrize(
    "host", [HOST, "localhost:7300", "LOCALHOST", "[::1]:7300", "127.9.9.9", "console.example:80"]
)
def test_own_names_are_answered(page: Page, host: str) -> None:
    assert page.client.get("/", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "attacker.example", "attacker.example:7300", "127.0.0.1.attacker.example", "localhost.evil",
        "", "a b", "[::1", "127.0.0.1:x", "console.example.evil", "0.0.0.0:7300", "192.0.2.1:7300",
    ],
)  # fmt: skip
@pytest.mark.parametrize("path", ["/", "/page/main.js", "/api/overview"])
def test_other_names_are_refused(page: Page, host: str, path: str) -> None:
    answer = page.client.get(path, headers={**page.headers, "host": host})
    assert answer.status_code == 403 and "--host NAME" in answer.json()["error"]
    assert page.guard.token not in answer.text


def test_a_console_on_all_addresses_answers_to_that_of_the_connection() -> None:
    guard = Guard("0.0.0.0", [])
    assert guard.wrong_host("192.0.2.7:7300", "192.0.2.7") == ""
    assert guard.wrong_host("192.0.2.8:7300", "192.0.2.7") != ""
    assert guard.wrong_host("rebound.example:7300", "192.0.2.7") != ""


@pytest.mark.parametrize(
    ("header", "host"),
    [
        ("A.b:1", "a.b"),
        ("[::1]:1", "::1"),
        ("[::1]", "::1"),
        ("a:", ""),
        ("[a]b", ""),
        ("a:1:2", ""),
    ],
)
def test_hosts_of_headers(header: str, host: str) -> None:
    assert host_of(header) == host


def test_loopback() -> None:
    assert all(is_loopback(one) for one in ("localhost", "127.0.0.1", "127.3.2.1", "::1"))
    assert not any(is_loopback(one) for one in ("0.0.0.0", "::", "10.0.0.1", "example.org", ""))


# -- token, origin, content type


@pytest.mark.parametrize("name", READS)
@pytest.mark.parametrize("token", [None, "", "wrong"])
def test_reading_needs_the_token(page: Page, name: str, token: str | None) -> None:
    headers = {} if token is None else {"x-anabranch-token": token}
    answer = page.client.get(f"/api/{name}", params={"key": "k", "region": "us"}, headers=headers)
    assert answer.status_code == 403 and "token" in answer.json()["error"]


@pytest.mark.parametrize("name", READS)
@pytest.mark.parametrize(
    "extra",
    [
        {"origin": "http://attacker.example"},
        {"origin": "http://127.0.0.1:3000"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_another_origin_reads_nothing(page: Page, name: str, extra: dict[str, str]) -> None:
    headers = {**page.headers, **extra}
    answer = page.client.get(f"/api/{name}", params={"key": "k", "region": "us"}, headers=headers)
    assert answer.status_code == 403
    assert not [one for one in answer.headers if one.startswith("access-control-")]


BODIES: dict[str, dict[str, str | bool]] = {
    "run": {"region": "us", "line": "FLUSHALL", "session": "s"},
    "link": {"action": "cut", "sender": "us", "receiver": "eu", "both": True},
}


@pytest.mark.parametrize("name", ACTS)
@pytest.mark.parametrize(
    ("removed", "changed"),
    [
        ("x-anabranch-token", {}),
        ("origin", {}),
        ("", {"x-anabranch-token": "wrong"}),
        ("", {"origin": "http://attacker.example"}),
        ("", {"origin": "null"}),
        ("", {"origin": "http://127.0.0.1:7301"}),
        ("", {"sec-fetch-site": "cross-site"}),
        ("", {"content-type": "text/plain"}),
        ("", {"content-type": "application/x-www-form-urlencoded"}),
        ("", {"content-type": "multipart/form-data; boundary=x"}),
    ],
)
def test_acting_needs_all_of_them(
    page: Page, name: str, removed: str, changed: dict[str, str]
) -> None:
    headers = {**page.headers, "content-type": "application/json", **changed}
    headers.pop(removed, None)
    answer = page.client.post(f"/api/{name}", content=b'{"region":"us"}', headers=headers)
    assert answer.status_code == 403
    assert page.links.changes == []


def test_a_token_in_the_address_is_not_enough_to_act(page: Page) -> None:
    """Addresses end up in logs and histories, so only the stream of events takes it from there."""
    headers = {"origin": ORIGIN, "content-type": "application/json"}
    url = f"/api/link?token={page.guard.token}"
    assert page.client.post(url, json=BODIES["link"], headers=headers).status_code == 403


@pytest.mark.parametrize("name", ACTS)
def test_a_get_does_not_act(page: Page, name: str) -> None:
    answer = page.client.get(f"/api/{name}", params=BODIES[name], headers=page.headers)
    assert answer.status_code == 405 and page.links.changes == []


def test_the_page_itself_acts(page: Page) -> None:
    status, _ = page.post("link", **BODIES["link"])
    assert status == 200 and [one.action for one in page.links.changes] == ["cut"]
    page.links.changes.clear()


def test_two_hosts_are_refused(page: Page) -> None:
    headers = [("host", HOST), ("host", "attacker.example")]
    assert page.client.get("/", headers=headers).status_code == 403


# -- headers of answers


@pytest.mark.parametrize("path", ["/", "/page/main.js", "/page/none", "/api/overview", "/health"])
def test_every_answer_has_the_headers(page: Page, path: str) -> None:
    answer = page.client.get(path)
    for name, value in HEADERS.items():
        assert answer.headers[name] == value
    policy = answer.headers["content-security-policy"]
    assert "unsafe" not in policy and "http" not in policy and "*" not in policy


def test_the_page_asks_nothing_of_another_host(page: Page) -> None:
    text = page.client.get("/").text
    assert "//" not in text.replace("<!doctype", "") and " style=" not in text
    assert "<script type=" in text and "onclick" not in text
    assert page.guard.token in text and "{token}" not in text and "{mode}" not in text


@pytest.mark.parametrize("path", ["/page/../app.py", "/page/%2e%2e/app.py", "/page/"])
def test_only_files_of_the_page_are_served(page: Page, path: str) -> None:
    assert page.client.get(path).status_code == 404


# -- reading only


def plain(reply: Reply) -> object:
    """A reply of an engine as redis-py's RESP3 parser returns it."""
    if isinstance(reply, MapReply):
        flat = [plain(one) for one in reply.flat]
        return dict(zip(flat[::2], flat[1::2], strict=True))
    if isinstance(reply, SetReply):
        return [plain(one) for one in reply.items]
    if isinstance(reply, SimpleString):
        return reply.text
    return [plain(one) for one in reply] if isinstance(reply, list) else reply


@pytest.fixture(scope="module")
def table() -> CommandTable:
    rows = [plain(describe(command)) for command in registry.commands().values()]
    return CommandTable(text(rows), {})


def test_only_commands_marked_readonly_are_allowed(table: CommandTable) -> None:
    allowed: set[str] = set()
    refused: set[str] = set()
    for command in registry.commands().values():
        for one in (command, *command.subcommands.values()):
            words = one.name.upper().encode().split(b"|")
            (allowed if table.only_reads(words) else refused).add(one.name)
            assert table.only_reads(words) == ("readonly" in one.flags and not one.subcommands)
            assert not (one.is_write and table.only_reads(words))
    assert {"xrange", "xread", "xinfo|stream", "crdt.explain", "scan"} <= allowed
    assert {"xadd", "xreadgroup", "xack", "del", "flushall", "crdt.link", "config|set"} <= refused
    assert {"config|get", "shutdown", "debug", "client|kill", "multi", "exec", "xinfo"} <= refused


@pytest.mark.parametrize(
    "words", [[b"NOSUCH"], [b"xinfo"], [b"XINFO", b"NOSUCH"], [b""], [b"\xff"], [b"XRANGE|x"]]
)
def test_what_the_table_does_not_have_is_refused(table: CommandTable, words: list[bytes]) -> None:
    assert not table.only_reads(words)


def test_a_reader_changes_no_link() -> None:
    with opened({"us": "127.0.0.1:1", "eu": "127.0.0.1:2"}, allow_write=False) as page:
        status, body = page.post("link", **BODIES["link"])
        assert status == 403 and "--allow-write" in body["error"] and page.links.changes == []
        assert 'data-mode="reads"' in page.client.get("/").text


def test_a_reader_runs_nothing_without_a_table() -> None:
    """A region that cannot tell its table gets no command at all."""
    with opened({"us": "127.0.0.1:1"}, allow_write=False) as page:
        status, body = page.post("run", region="us", line="XLEN s", session="s")
        assert status == 502 and "us" in body["error"]


def test_the_page_loads_every_module_at_once(page: Page) -> None:
    """Otherwise the browser learns of a module only once it has read those that import it."""
    folder = Path(build.root(), "anabranch", "console", "page")
    modules = {f"/page/{path.name}" for path in folder.glob("*.js")}
    named = set(re.findall(r'(?:href|src)="(/page/\w+\.js)"', page.client.get("/").text))
    assert named == modules


def test_a_file_that_the_browser_has_is_not_sent_again(page: Page) -> None:
    first = page.client.get("/page/main.js")
    again = page.client.get("/page/main.js", headers={"if-none-match": first.headers["etag"]})
    assert first.status_code == 200 and again.status_code == 304 and again.content == b""
    style = page.client.get("/page/style.css")
    assert "--ground" in style.text and ".river-table" in style.text and "#tabs" in style.text


# -- the token that opens the page


def test_t14_whoever_opens_the_page_needs_the_token(page: Page) -> None:
    """The page gave its token to every user of the machine, and with it the stored password."""
    page.client.cookies.clear()
    for query in ("", "?token=", "?token=wrong", f"?token={page.guard.token}"):
        answer = page.client.get("/" + query)
        assert answer.status_code == 403 and "set-cookie" not in answer.headers
        assert page.guard.token not in answer.text
        assert "docker compose -f deploy/compose.yaml logs console" in answer.text
    for name in READS:
        answer = page.client.get(f"/api/{name}", params={"key": "k"}, headers=page.headers)
        assert answer.status_code == 403 and "with a token" in answer.json()["error"]
    for name in ACTS:
        status, body = page.post(name, **BODIES[name])
        assert status == 403 and "with a token" in body["error"]
    wrong = {**page.headers, "cookie": f"{page.guard.login.cookie_name}=wrong"}
    assert page.client.get("/api/overview", headers=wrong).status_code == 403
    assert page.client.get("/health").status_code == 200
    page.client.cookies.set(page.guard.login.cookie_name, page.guard.login.cookie)


def test_t14_the_token_is_exchanged_for_a_cookie_once() -> None:
    told: list[str] = []
    login = Login(None, "http://127.0.0.1:7300", told.append)
    with opened({"us": "127.0.0.1:1"}, login=login) as page:
        page.client.cookies.clear()
        first = login.url.removeprefix("http://127.0.0.1:7300")
        answer = page.client.get(first)
        assert answer.status_code == 200 and page.guard.token in answer.text
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie and "SameSite=strict" in cookie and "Path=/" in cookie
        assert login.token not in cookie and first.partition("=")[2] not in cookie
        # The browser has the cookie from now on.
        assert page.client.get("/").status_code == 200
        assert page.client.get("/api/log", headers=page.headers).status_code == 400
        page.client.cookies.clear()
        assert page.client.get(first).status_code == 403, "the token is used up"
        assert told == [login.url]
        assert page.client.get(told[0].removeprefix("http://127.0.0.1:7300")).status_code == 200


def test_t14_a_given_token_opens_every_browser() -> None:
    login = Login("a" * 20)
    assert login.opens("a" * 20) and login.opens("a" * 20) and not login.opens("ä" * 20)
    again, other = Login("a" * 20), Login()
    assert login.knows({again.cookie_name: again.cookie}), "after another start with this token"
    assert not login.knows({other.cookie_name: other.cookie})
    assert login.cookie_name != other.cookie_name


def test_t14_a_given_token_is_a_long_word(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("abcdefghijklmnop-_9\nsecond line\n")
    assert given_token(file, {}) == "abcdefghijklmnop-_9"
    assert given_token(None, {}) is None
    assert given_token(None, {VARIABLE: ""}) is None
    assert given_token(None, {VARIABLE: "x" * 16}) == "x" * 16
    for wrong, reason in (("x" * 15, "16 char"), ("x" * 16 + "&", "letters"), ("", "letters")):
        file.write_text(wrong)
        with pytest.raises(WrongToken, match=reason):
            given_token(file, {})
    with pytest.raises(WrongToken, match="cannot read"):
        given_token(tmp_path / "missing", {})
