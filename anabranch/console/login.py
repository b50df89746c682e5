"""The token that opens the page, and the cookie for which a browser exchanges it.

Another user of the machine, or another container, can send requests to the port of the console, but
does not know the token: the console prints it at its start, in the address of the page.

A token that the console has made opens one browser. Then the console makes another one, and prints
that. A token that was given to the console opens any number of browsers, and their cookies stay
good if the console is started again with it.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

VARIABLE: Final = "ANABRANCH_CONSOLE_TOKEN"
TOKEN_CHARACTERS_MIN: Final = 16
PARAMETER: Final = "token"


class WrongToken(Exception):
    """The token that was given to the console is of no use. The text says why."""


def new_token() -> str:
    """A token that nobody can guess."""
    return secrets.token_urlsafe(24)


def given_token(file: Path | None, environment: Mapping[str, str] = os.environ) -> str | None:
    """The token in the first line of a file, or in the environment; None if there is none.

    Raises:
        WrongToken: The file cannot be read, or the token is short or no part of an address.
    """
    where, token = VARIABLE, environment.get(VARIABLE, "")
    if file is not None:
        where = str(file)
        try:
            token = file.read_text(encoding="utf-8").partition("\n")[0].strip()
        except (OSError, UnicodeDecodeError) as error:
            raise WrongToken(f"cannot read the token in {file}: {error}") from None
    elif not token:
        return None
    if not (token.isascii() and token.replace("-", "").replace("_", "").isalnum()):
        raise WrongToken(f"{where}: a token has letters, digits, '-' and '_' only")
    if len(token) < TOKEN_CHARACTERS_MIN:
        raise WrongToken(f"{where}: a token needs {TOKEN_CHARACTERS_MIN} characters or more")
    return token


class Login:
    """Who may see the page. `given`: the token that was given to the console, if one was.

    `address` is that of the page. `tell` gets the whole address when a token has been used up.
    """

    def __init__(
        self,
        given: str | None = None,
        address: str = "",
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.token = given or new_token()
        self._is_given: Final = given is not None
        self._address: Final = address
        self._tell: Final = tell
        secret = given or new_token()
        self.cookie: Final = hmac.new(secret.encode(), b"cookie", hashlib.sha256).hexdigest()
        # Cookies do not know ports: each console on a machine needs a name of its own.
        name = hashlib.sha256(self.cookie.encode()).hexdigest()[:8]
        self.cookie_name: Final = f"anabranch-{name}"

    @property
    def url(self) -> str:
        """The address that opens the page in a browser."""
        return f"{self._address}/?{PARAMETER}={self.token}"

    def knows(self, cookies: Mapping[str, str]) -> bool:
        """Whether a request has the cookie."""
        return hmac.compare_digest(
            cookies.get(self.cookie_name, "").encode("utf-8", "replace"), self.cookie.encode()
        )

    def opens(self, token: str) -> bool:
        """Whether the token of a request opens the page. One that the console made is then used."""
        if not hmac.compare_digest(token.encode("utf-8", "replace"), self.token.encode()):
            return False
        if not self._is_given:
            self.token = new_token()
            self._tell(self.url)
        return True


CLOSED_PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>anabranch console: closed</title>
<link rel="icon" href="/page/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="/page/style.css">
</head>
<body>
<main class="closed">
<h1>This console opens with its token</h1>
<p>Open the address that the console has printed: it ends in <code>/?token=…</code> Without the
token, other users of this machine would read and change your data.</p>
<ul>
<li><code>anabranch up</code> and <code>anabranch console</code> print the address in the
terminal.</li>
<li>In containers: <code>docker compose -f deploy/compose.yaml logs console</code></li>
</ul>
<p>A token that the console has made opens one browser. After that the console prints the address
for the next one; with <code>anabranch up</code> the same address opens further browsers.</p>
</main>
</body>
</html>
"""
