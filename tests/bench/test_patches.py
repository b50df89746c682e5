"""The patches of measurements apply to the present tree."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from anabranch.sim.mutants.planted import plant, read
from anabranch.sim.mutants.tree import ROOT

PATCHES = sorted((ROOT / "anabranch" / "bench").rglob("*.patch"))


@pytest.mark.parametrize("path", PATCHES, ids=lambda path: path.stem)
def test_it_applies_and_compiles(path: Path, tmp_path: Path) -> None:
    """`no_key_index.patch` did not fit any more, so `watched_rate --without` had no build."""
    patch = read(path)
    assert patch.files
    for name in patch.files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    plant(patch, tmp_path)
    for name in patch.files:
        compile((tmp_path / name).read_text(encoding="utf-8"), name, "exec")
