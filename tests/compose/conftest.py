"""The fixtures: an engine, the images, and the running cluster. Each is made once for a run."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest

from tests.compose.engine import Engine, running_engine
from tests.compose.images import base, build_region, build_toxiproxy
from tests.compose.project import Project, image_bytes

IMAGE = "anabranch-test/region:latest"
TOXIPROXY = "anabranch-test/toxiproxy:latest"
_measured: list[str] = []


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Shows what was measured."""
    if _measured:
        terminalreporter.section("measured")
        for line in _measured:
            terminalreporter.line(line)


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """A Docker engine; one that was started for the run ends with it."""
    with running_engine() as one:
        yield one


@pytest.fixture(scope="session")
def base_image(engine: Engine) -> str:
    """The image that the image of a region begins with."""
    return base(engine)


@pytest.fixture(scope="session")
def image(engine: Engine, base_image: str) -> str:
    """The image of a region."""
    seconds = build_region(engine, base_image, IMAGE)
    whole, below = image_bytes(engine, IMAGE), image_bytes(engine, base_image)
    _measured.append(f"image built in {seconds:.0f} s (the cache of the builder counts)")
    _measured.append(
        f"image: {whole / 1e6:.0f} MB, of these {(whole - below) / 1e6:.0f} MB above its base "
        f"{base_image}"
    )
    return IMAGE


@pytest.fixture(scope="session")
def toxiproxy_image(engine: Engine) -> str:
    """The image of toxiproxy."""
    build_toxiproxy(engine, TOXIPROXY)
    return TOXIPROXY


@pytest.fixture(scope="session")
def _project(engine: Engine, image: str, toxiproxy_image: str) -> Iterator[Project]:
    images = {"ANABRANCH_IMAGE": image, "ANABRANCH_TOXIPROXY_IMAGE": toxiproxy_image}
    one = Project(engine, f"anabranch-test-{os.getpid()}", images)
    try:
        began = time.monotonic()
        one.up()
        created = time.monotonic() - began
        one.await_healthy()
        _measured.append(
            f"`up -d` returned after {created:.1f} s; all regions were healthy after "
            f"{time.monotonic() - began:.1f} s"
        )
        yield one
    finally:
        one.down()


@pytest.fixture
def cluster(_project: Project) -> Project:
    """The running cluster: healthy, all links up, all regions equal. Tests leave it so."""
    _project.await_healthy()
    _project.await_links()
    _project.await_equal()
    return _project
