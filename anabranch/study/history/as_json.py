"""An explanation as JSON, for `json.dumps`: the only place that knows the names of its fields."""

from __future__ import annotations

from dataclasses import fields, is_dataclass

from anabranch.escapes import shown
from anabranch.study.history.evidence import EndingEffect, ToldEffect
from anabranch.study.replies.events import KeyEvent

# Facts of an effect that are left out where it has none.
_OPTIONAL = ("had_seen", "other_key", "group", "id", "pid", "iid")


def as_json(value: object) -> object:
    """What JSON has for a part of an explanation: the `default` of `json.dumps`.

    A dataclass is a dict of its fields, without those that have their default.

    Raises:
        TypeError: The value is no part of an explanation.
    """
    if isinstance(value, bytes):
        return shown(value)
    if isinstance(value, KeyEvent):
        return {**_effect(value), "dots": value.dots}
    if isinstance(value, ToldEffect):
        facts: dict[str, object] = {**_effect(value.event), "told_by": value.told_by}
        if value.is_certain is not None:
            facts["is_certain"] = value.is_certain
        if isinstance(value, EndingEffect):
            facts["had_seen_create"] = value.had_seen_create
        return facts
    if not is_dataclass(value):
        raise TypeError(f"JSON cannot hold a {type(value).__name__}")
    parts = {one.name: (getattr(value, one.name), one.default) for one in fields(value)}
    return {name: part for name, (part, default) in parts.items() if part != default}


def _effect(event: KeyEvent) -> dict[str, object]:
    """Who issued an effect, with which command, when it was applied, and what it had seen."""
    facts: dict[str, object] = {
        "command": event.command,
        "kind": event.kind,
        "effect": event.dot,
        "applied_ms": event.clock_ms,
        "source": event.source,
    }
    optional = ((name, getattr(event, name)) for name in _OPTIONAL)
    return {**facts, **{name: value for name, value in optional if value is not None}}
