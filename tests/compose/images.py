"""Builds the images, and makes the base where none can be pulled."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.compose.commands import run
from tests.compose.engine import ROOT, WORK, Engine, install
from tests.deploy.files import DEPLOY

BASE: Final = "python:3.11-slim"
GO: Final = "golang:1.25"
LOCAL_BASE: Final = "anabranch-test/base:latest"
SUITE: Final = "bookworm"

_TOXIPROXY: Final = "github.com/Shopify/toxiproxy/v2/cmd/{}@v2.12.0"
_BASE_PACKAGES: Final = ("python3", "python3-venv", "ca-certificates")
# debootstrap mounts /proc below its folder. In name spaces of its own, its mounts and its processes
# end with it, also when it is interrupted, so removing the folder removes nothing else.
_ALONE: Final = ("unshare", "--mount", "--pid", "--fork", "--kill-child")
# Configuration of pip that says where packages are.
_OF_PIP: Final = ("index-url", "extra-index-url", "find-links", "trusted-host", "no-index")
_BUNDLES: Final = ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


def base(engine: Engine) -> str:
    """The official base if it can be pulled, else one made of Debian's packages.

    The latter has no compiler, as the official one has none: the build installs it.
    """
    if engine.can_pull(BASE, 300.0):
        return BASE
    if not engine.has_image(LOCAL_BASE):
        print(f"{BASE} cannot be pulled; making {LOCAL_BASE} of Debian's packages")
        _debootstrap(engine, LOCAL_BASE, _BASE_PACKAGES)
    return LOCAL_BASE


def _debootstrap(engine: Engine, name: str, packages: tuple[str, ...]) -> None:
    assert os.geteuid() == 0, f"{BASE} cannot be pulled, and only root can make another base"
    if shutil.which("debootstrap") is None:
        install("debootstrap")
    cache = WORK / "packages"
    cache.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="anabranch-base-") as folder:
        run(
            [
                *_ALONE,
                *("debootstrap", "--variant=minbase", f"--cache-dir={cache}"),
                *(f"--include={','.join(packages)}", SUITE, folder),
            ],
            patience_s=900,
        )
        for part in ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/man"):
            shutil.rmtree(Path(folder, part), ignore_errors=True)
        archive = Path(folder + ".tar")
        try:
            run(["tar", "-C", folder, "-cf", archive, "."], patience_s=300)
            engine.run("import", archive, name, patience_s=300)
        finally:
            archive.unlink(missing_ok=True)


@contextmanager
def _secrets() -> Iterator[list[str]]:
    """The flags that give the build this machine's certificates and configuration of pip."""
    flags: list[str] = []
    with TemporaryDirectory(prefix="anabranch-secrets-") as folder:
        bundle = next((os.environ[name] for name in _BUNDLES if os.environ.get(name)), "")
        if bundle and Path(bundle).is_file():
            flags += ["--secret", f"id=ca,src={bundle}"]
        lines = _pip_configuration()
        if lines:
            path = Path(folder, "pip.conf")
            path.touch(mode=0o600)
            path.write_text("\n".join(["[global]", *lines, ""]), encoding="utf-8")
            flags += ["--secret", f"id=pip_config,src={path}"]
        yield flags


def _pip_configuration() -> list[str]:
    """Where this machine's pip finds packages, as lines of its configuration file."""
    listed = run([sys.executable, "-m", "pip", "config", "list"])
    found = {}
    for line in listed.splitlines():
        name, _, value = line.partition("=")
        name = name.rpartition(".")[2]
        if name in _OF_PIP:
            found[name] = value.strip("'")
    return [f"{name} = {value}" for name, value in found.items()]


def build_region(engine: Engine, base_image: str, tag: str, context: Path = ROOT) -> float:
    """Builds the image of a region, and returns the seconds that it took."""
    began = time.monotonic()
    with _secrets() as secrets:
        engine.run(
            *("build", "-f", context / "deploy" / "Dockerfile", "-t", tag, "--network", "host"),
            *("--build-arg", f"BASE_IMAGE={base_image}"),
            *secrets,
            str(context),
            patience_s=2400,
        )
    return time.monotonic() - began


def next_version(folder: Path) -> str:
    """Copies the source tree with a later version into `folder`, and returns that version."""
    listed = run(
        ["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    ).split("\0")
    for name in (name for name in listed if name):
        source, target = ROOT / name, folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_file():
            shutil.copy2(source, target)
    project = folder / "pyproject.toml"
    text = project.read_text(encoding="utf-8")
    old = next(line for line in text.splitlines() if line.startswith("version = "))
    version = old.split('"')[1] + ".post1"
    project.write_text(text.replace(old, f'version = "{version}"'), encoding="utf-8")
    return version


def build_toxiproxy(engine: Engine, tag: str) -> None:
    """Builds toxiproxy's image from its Go module, with this machine's Go if none can be pulled."""
    if engine.can_pull(GO, 300.0):
        engine.run(
            *("build", "-f", DEPLOY / "toxiproxy.Dockerfile", "-t", tag, "--network", "host"),
            *("--build-arg", f"GO_IMAGE={GO}", str(DEPLOY)),
            patience_s=900,
        )
        return
    assert shutil.which("go"), f"{GO} cannot be pulled, and there is no Go here to build toxiproxy"
    programs = WORK / "toxiproxy"
    programs.mkdir(parents=True, exist_ok=True)
    for name in ("server", "cli"):
        if not (programs / name).exists():
            run(
                ["go", "install", _TOXIPROXY.format(name)],
                patience_s=600,
                environment={"CGO_ENABLED": "0", "GOBIN": str(programs)},
            )
    # The last stage of toxiproxy.Dockerfile, with the programs of this machine.
    stages = (DEPLOY / "toxiproxy.Dockerfile").read_text(encoding="utf-8").split("FROM scratch")
    last = "FROM scratch" + stages[1].replace("--from=build /out/", "")
    subprocess.run(
        [engine.docker, "build", "-q", "-t", tag, "-f", "-", str(programs)],
        input=last.encode(),
        env={**os.environ, **engine.environment},
        stdout=subprocess.DEVNULL,
        check=True,
    )
