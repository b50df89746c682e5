"""The context of the image's build, and its health check."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator

import pytest

from anabranch.region.live.http import Health, HttpServer
from tests.deploy.files import DEPLOY, ROOT


def kept() -> set[str]:
    """The files and folders that go to the build."""
    lines = (DEPLOY / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    assert "*" in lines, "the list must begin with nothing"
    return {line[1:] for line in lines if line.startswith("!")}


def test_the_context_has_every_part_of_the_package() -> None:
    assert {"anabranch", "proto"} <= kept()


def test_the_context_has_what_the_archive_has() -> None:
    manifest = (ROOT / "MANIFEST.in").read_text(encoding="utf-8").split()
    named = {word for word in manifest if word not in ("graft", "include")}
    assert named <= kept()
    assert {"pyproject.toml", "README.md"} <= kept()
    assert [name for name in kept() if not (ROOT / name).exists()] == []


class Region:
    """A stand-in for a region, with a `health` that tests set."""

    def __init__(self) -> None:
        self.health: Health = ("serving", {})
        self.port = 0


@pytest.fixture
async def region() -> AsyncIterator[Region]:
    one = Region()
    server = HttpServer(list, lambda: one.health, lambda _: (False, {}))
    one.port = await server.start("127.0.0.1", 0)
    yield one
    await server.close()


async def checked(port: int) -> tuple[int, str]:
    """The exit code of the health check, and its output."""
    environment = {**os.environ, "ANABRANCH_HTTP": f"0.0.0.0:{port}", "http_proxy": "192.0.2.1:1"}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        str(DEPLOY / "healthcheck.py"),
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, output.decode()


async def test_a_region_that_serves_is_healthy(region: Region) -> None:
    code, output = await checked(region.port)
    assert code == 0 and '"serving"' in output


@pytest.mark.parametrize("state", ["starting", "recovery", "failed"])
async def test_other_states_are_unhealthy(region: Region, state: str) -> None:
    region.health = (state, {})
    code, output = await checked(region.port)
    assert code == 1 and output.startswith("503: ") and f'"{state}"' in output


async def test_no_answer_is_unhealthy(free_port: int) -> None:
    code, output = await checked(free_port)
    assert code == 1 and output.startswith(f"no answer on port {free_port}: ")
