"""Makes the generated protobuf module, which is not in the repository, before the first test."""

from __future__ import annotations

from anabranch.sync.generate import generate, is_current

if not is_current():
    generate()
