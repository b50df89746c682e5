"""Bodies of requests to the console."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import cast

import pytest
from starlette.requests import Request

from anabranch.console.app import BadRequest, body_of


class FakeRequest:
    """A request with this body."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def stream(self) -> AsyncIterator[bytes]:
        yield self._body


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[" * 100_000])
def test_what_is_no_json(body: bytes) -> None:
    """A body that is nested deeply was once an error of the console itself (500)."""
    with pytest.raises(BadRequest, match="the body must be JSON"):
        asyncio.run(body_of(cast("Request", FakeRequest(body))))
