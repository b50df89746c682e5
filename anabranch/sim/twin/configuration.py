"""CONFIG GET and CONFIG SET: a SET changes all that it names or nothing.

Free: whether a value of a setting is in its bounds, where it has no words of its own. A tape shows
only some settings; those that it does not show are not judged.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import Final, Optional

from anabranch.region.engine.replies import OK, ErrorReply, Reply
from anabranch.region.engine.setting import Value
from anabranch.sim.replies import map_of
from anabranch.sim.twin.arguments import SYNTAX, refuse
from anabranch.sim.twin.core import TwinCore
from anabranch.sim.twin.replies import Expected, Mismatch, error_with
from anabranch.sim.twin.session import Session

_APPENDFSYNC: Final = "appendfsync"
_WORDS: Final[dict[str, tuple[str, ...]]] = {
    _APPENDFSYNC: ("always", "everysec", "no"),
    "crdt-xadd-id-uniqueness-mode": ("strict", "semi-strict", "liberal"),
}
_NUMBER: Final = re.compile(r"-?[0-9]+([kmgKMG][bB]?|[bB])?")


def config(twin: TwinCore, session: Session, argv: tuple[bytes, ...]) -> object:
    """CONFIG GET and SET; the other subcommands are left to others."""
    sub = argv[1].upper()
    if sub == b"GET" and len(argv) > 2:
        return _get(twin, argv[2:])
    if sub != b"SET" or len(argv) < 4:
        return Expected("anything", lambda _: True)
    try:
        return _set(twin, argv[2:])
    finally:
        if session.queued is None:
            _compare(twin)


def _get(twin: TwinCore, patterns: tuple[bytes, ...]) -> object:
    texts = [pattern.decode("utf-8", "surrogateescape").lower() for pattern in patterns]
    if any(mark in text for text in texts for mark in "[\\"):
        return Expected("anything", lambda _: True)
    expected: dict[bytes, Reply] = {
        name.encode(): str(value).encode("utf-8", "surrogateescape")
        for name, value in twin.settings.items()
        if any(fnmatchcase(name, text) for text in texts)
    }
    return Expected(
        f"settings with {expected}", lambda reply: _shown(twin, reply, expected) == expected
    )


def _shown(twin: TwinCore, reply: Reply, expected: dict[bytes, Reply]) -> dict[bytes, Reply]:
    """The settings in a reply; on a tape those that the tape shows."""
    found = map_of(reply)
    if _APPENDFSYNC in twin.settings:
        return found
    return {name: value for name, value in found.items() if name in expected}


def _set(twin: TwinCore, words: tuple[bytes, ...]) -> object:
    if len(words) % 2:
        refuse(SYNTAX)
    texts = [word.decode("utf-8", "surrogateescape") for word in words]
    pairs = [(texts[at].lower(), texts[at + 1]) for at in range(0, len(texts), 2)]
    names = [name for name, _ in pairs]
    is_whole = _APPENDFSYNC in twin.settings
    if is_whole and not set(names) <= set(twin.settings):
        return error_with("ERR Unknown option")
    if len(set(names)) < len(names):
        return error_with("ERR CONFIG SET failed")
    found = [_value(twin, name, text) for name, text in pairs]
    if any(
        name in twin.settings and value is None
        for (name, _), value in zip(pairs, found, strict=True)
    ):
        return error_with("ERR CONFIG SET failed")
    if isinstance(twin.reply, ErrorReply) and not set(names) <= set(_WORDS):
        return error_with("ERR CONFIG SET failed")
    for name, value in zip(names, found, strict=True):
        if value is not None:
            twin.settings[name] = value
    return OK


def _value(twin: TwinCore, name: str, text: str) -> Optional[Value]:
    """The value that a text means for a setting; None if it is certainly none.

    What a text with a unit means is taken from the region.
    """
    if name in _WORDS:
        return text.lower() if text.lower() in _WORDS[name] else None
    if not isinstance(twin.settings.get(name), int):
        return text
    if _NUMBER.fullmatch(text) is None:
        return None
    return int(text) if text.lstrip("-").isdigit() else twin.call.settings[name]


def _compare(twin: TwinCore) -> None:
    """Compares the settings that are in force after the call with the expected ones."""
    actual = twin.call.settings
    for name, value in twin.settings.items():
        if actual[name] != value:
            raise Mismatch(f"the setting {name} is {actual[name]}; expected {value}")
