"""The files of the page, from the installation: read once, and served from memory.

All styles are one answer, so that the first paint waits for fewer requests.
"""

from __future__ import annotations

import hashlib
from importlib.resources import files
from typing import Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

STYLES: Final = ("base.css", "layout.css", "regions.css", "stream.css", "panels.css")
STYLE: Final = "style.css"
_TYPES: Final = {
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
}


class PageFiles:
    """The files under ``/page/``, and the page itself."""

    def __init__(self) -> None:
        folder = files("anabranch.console").joinpath("page")
        texts = {path.name: path.read_text("utf-8") for path in folder.iterdir() if path.is_file()}
        self._index: Final = texts.pop("index.html")
        texts[STYLE] = "".join(texts.pop(name) for name in STYLES)
        self._files: Final = {
            name: (text.encode(), _TYPES[name.rpartition(".")[2]], _tag(text))
            for name, text in texts.items()
        }

    def index(self, token: str, allow_write: bool) -> str:
        """The page, with the token that its requests carry."""
        mode = "writes" if allow_write else "reads"
        return self._index.replace("{token}", token).replace("{mode}", mode)

    async def serve(self, request: Request) -> Response:
        """One file; 304 if the browser has it."""
        found = self._files.get(request.path_params["name"])
        if found is None:
            return PlainTextResponse("there is no such file", 404)
        body, kind, tag = found
        headers = {"etag": tag, "cache-control": "no-cache"}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(body, media_type=kind, headers=headers)


def _tag(text: str) -> str:
    return f'"{hashlib.sha256(text.encode()).hexdigest()[:24]}"'
