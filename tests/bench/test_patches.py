"""The patches of measurements apply to the present tree."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from anabranch.sim.mutants.tree import ROOT

PATCHES = sorted((ROOT / "bench").rglob("*.patch"))


@pytest.mark.parametrize("patch", PATCHES, ids=lambda path: path.stem)
def test_it_applies_and_compiles(patch: Path, tmp_path: Path) -> None:
    """`no_key_index.patch` did not fit any more, so `watched_rate --without` had no build."""
    text = patch.read_text(encoding="utf-8")
    names = [line[6:] for line in text.splitlines() if line.startswith("--- a/")]
    assert names
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    command = ["patch", "--strip=1", "--fuzz=0", "--quiet", "--directory", str(tmp_path)]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    for name in names:
        compile((tmp_path / name).read_text(encoding="utf-8"), name, "exec")
