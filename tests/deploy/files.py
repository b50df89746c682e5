"""Reads the files of deploy/."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).resolve().parents[2]
DEPLOY: Final = ROOT / "deploy"
COMPOSE: Final = DEPLOY / "compose.yaml"

_VARIABLE: Final = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")


def with_defaults(text: str) -> str:
    """The text with the default in place of each variable; AssertionError if one has none."""

    def default(found: re.Match[str]) -> str:
        assert found[2] is not None, f"{found[1]} has no default"
        return found[2]

    return _VARIABLE.sub(default, text)


def compose() -> dict[str, Any]:
    """compose.yaml, with the default of each variable."""
    parsed: dict[str, Any] = yaml.safe_load(with_defaults(COMPOSE.read_text(encoding="utf-8")))
    return parsed


def regions() -> dict[str, Any]:
    """The services of compose.yaml that are regions, by name."""
    return {
        name: service
        for name, service in compose()["services"].items()
        if "ANABRANCH_NAME" in service.get("environment", {})
    }


def published(service: dict[str, Any]) -> dict[int, str]:
    """The published ports of a service: port in the container → HOST:PORT."""
    ports = (text.rpartition(":") for text in service["ports"])
    return {int(inside): outside for outside, _, inside in ports}
