"""The generated protobuf module is not in the repository: a source tree makes it before its first test."""

from __future__ import annotations

from anabranch.sync.generate import generate, is_current

if not is_current():
    generate()
