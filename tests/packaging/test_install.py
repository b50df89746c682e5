"""The product in empty environments: from a checkout, from the source archive and from the wheel.

Each environment first gets packages named `sync`, `cli` and `region` of somebody else: ours must
not take their names, and must not import them. The builds are isolated and compiled, as for a user
who types `pip install .`. Only the C compiler's optimization is off, which makes them faster.

`make test-install` runs these tests; they take some minutes and need the network for packages.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from anabranch.cluster.ports import free_ports

ROOT = Path(__file__).resolve().parents[2]
OTHERS = ("sync", "cli", "region")
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith("PYTHON")},
    "ANABRANCH_OPT_LEVEL": "0",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
}
pytestmark = [pytest.mark.install, pytest.mark.timeout(1500)]


class Venv:
    """An empty environment that holds other packages of our folders' names."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.python = path / "bin" / "python"
        self.run(sys.executable, "-m", "venv", str(path))
        site = Path(self.code("import sysconfig; print(sysconfig.get_paths()['purelib'])").strip())
        for name in OTHERS:
            (site / name).mkdir()
            (site / name / "__init__.py").write_text(f"OWNER = 'another {name}'\n")

    def run(self, *line: str, fails: bool = False) -> str:
        """Runs a command in this environment, in its folder; returns what it printed."""
        ended = subprocess.run(
            line,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**ENVIRONMENT, "PATH": f"{self.path / 'bin'}:{os.environ['PATH']}"},
            cwd=self.path if self.path.exists() else None,
            check=False,
        )
        assert (ended.returncode != 0) is fails, ended.stdout
        return ended.stdout

    def pip(self, *arguments: str) -> str:
        return self.run(str(self.python), "-m", "pip", *arguments)

    def code(self, text: str) -> str:
        return self.run(str(self.python), "-c", text)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the files that git knows, so that the build leaves nothing in the source tree.

    It lacks the links at the top, as on a file system that has none.
    """
    target = tmp_path_factory.mktemp("checkout") / "anabranch"
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, stdout=subprocess.PIPE, check=True
    ).stdout
    for name in filter(None, listed.decode().split("\0")):
        source, copy = ROOT / name, target / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        if source.is_file():
            copy.write_bytes(source.read_bytes())
            copy.chmod(source.stat().st_mode)
    return target


def python(module: str, *arguments: str) -> None:
    """Runs a module of the environment that runs the tests; it must succeed."""
    ended = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout


@pytest.fixture(scope="module")
def archive(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source archive that `python -m build --sdist` makes."""
    target = tmp_path_factory.mktemp("archive")
    python("build", "--sdist", "--outdir", str(target), str(checkout))
    (found,) = target.glob("*.tar.gz")
    return found


@pytest.fixture(scope="module")
def wheel(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that pip builds from the source archive."""
    target = tmp_path_factory.mktemp("wheel")
    python("pip", "wheel", "--no-deps", "-w", str(target), str(archive))
    (found,) = target.glob("*.whl")
    return found


def check_product(venv: Venv) -> None:
    """What a user does first. The extra `sim` is not installed."""
    assert "compiled" in venv.run("anabranch", "--version")
    for name in OTHERS:
        assert venv.code(f"import {name}; print({name}.OWNER)").strip() == f"another {name}"
    venv.code(
        "import anabranch.sync.session.hub, anabranch.cli.main, anabranch.region.live.process"
    )
    told = venv.run("anabranch", "simulate", "--seeds", "0:1", fails=True)
    assert "anabranch[sim]" in told and "Traceback" not in told
    resp_port, sync_port = free_ports(2)
    serving = subprocess.Popen(
        [
            *("anabranch", "serve", "--cluster", "one", "--members", "us=1", "--name", "us"),
            *("--resp", f"127.0.0.1:{resp_port}", "--sync", f"127.0.0.1:{sync_port}"),
            *("--data", str(venv.path / "data")),
        ],
        env={**ENVIRONMENT, "PATH": f"{venv.path / 'bin'}:{os.environ['PATH']}"},
        cwd=venv.path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        added = venv.code(
            "import redis, time\n"
            f"client = redis.Redis(port={resp_port})\n"
            "for attempt in range(200):\n"
            "    try:\n"
            "        print(client.xadd('k', {'f': 'v'})); break\n"
            "    except redis.RedisError:\n"
            "        time.sleep(0.1)\n"
        )
        assert re.search(r"\d+-\d+", added), added
    finally:
        serving.terminate()
        assert serving.wait(30) == 0


def test_from_a_checkout(checkout: Path, tmp_path: Path) -> None:
    """`pip install .`, then the extra `sim`: the simulator and its scenarios work."""
    venv = Venv(tmp_path / "venv")
    venv.pip("install", "--quiet", str(checkout))
    check_product(venv)
    venv.pip("install", "--quiet", "apsw>=3.50,<4")
    assert "2 seeds, no violation" in venv.run(
        "anabranch", "simulate", "--seeds", "0:2", "--jobs", "1"
    )
    assert ", 0 failed," in venv.run("anabranch", "scenario", "run").splitlines()[-1]


def test_the_source_archive_holds_what_a_build_needs(archive: Path) -> None:
    with tarfile.open(archive) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
    assert {"LICENSE", "README.md", "setup.py", "anabranch/region/driver/driver.py"} <= names
    assert any(name.startswith("proto/") for name in names)


def test_from_the_wheel_that_the_source_archive_makes(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
    # PySpark finds data sources by the names of top-level modules, so one is ours.
    expected = {"anabranch", "pyspark_anabranch.py"}
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} <= expected | {
        name for name in names if name.endswith(".so") and "/" not in name
    }
    assert any(name.startswith("anabranch/sim/scenarios/") for name in names)
    page = {path.name for path in (ROOT / "anabranch" / "console" / "page").iterdir()}
    assert {f"anabranch/console/page/{name}" for name in page} <= set(names)
    assert not any(
        name.startswith(("anabranch/bench/", "anabranch/sim/mutants/")) for name in names
    )
    venv = Venv(tmp_path / "venv")
    venv.pip("install", "--quiet", str(wheel))
    check_product(venv)
